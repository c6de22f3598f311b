"""Which training runs there are in the folders that were named, and what they belong to."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from naic.errors import CheckpointError, StoreError
from naic.files import (
    COMMAND,
    CONFIG,
    FINETUNING,
    REPRODUCTION,
    WEIGHTS,
    is_folder,
    printable,
    what_is,
)
from naic.resume import REPORT, is_held
from naic.tasks.evaluate.tables import short_names
from naic.tasks.show.view import RunView, is_run, look, read_object
from naic.train.logs import METRICS
from naic.train.settings import STAGE_NAMES

DEEPEST = 3  # folders below the one that was named: runs/tiny/seed-2/naic-kd
STORE = ("index.json", "plan.json")  # of a feature store, finished or not
_WHAT = (
    f"a training run has {CONFIG} and {METRICS}, a feature store index.json, and neither is in it "
    f"or up to {DEEPEST} folders below"
)

Kind = Literal["fine-tuning", "reproduction", "study"]


@dataclass(frozen=True)
class Whole:
    """What runs one after the other belong to.

    Attributes:
        kind: which task made them.
        folder: that task's.
        state: as that of a run.
        command: what it was begun with; empty where that is not known.
        report: of a fine-tuning that is finished.
    """

    kind: Kind
    folder: Path
    state: Literal["running", "finished", "cut off"]
    command: str
    report: dict[str, Any]


@dataclass(frozen=True)
class Found:
    """What there is in the folders that were named."""

    runs: list[RunView]
    wholes: list[Whole]


def is_store(folder: Path) -> bool:
    """Whether the folder is a feature store's, or that of one that is being made."""
    return any(what_is(folder / name) == "file" for name in STORE) and not is_run(folder)


def find(folders: Sequence[Path]) -> Found:
    """All runs in these folders, each once.

    Raises:
        StoreError: a folder is not there, has no run, or cannot be read.
        CheckpointError: it is a model's.
    """
    wholes, runs = list[Whole](), dict[Path, RunView]()
    for folder in folders:
        try:
            own, within = read_whole(folder), list(_runs_in(folder, DEEPEST))
            found = sorted(map(look, within), key=_by_stage)
        except OSError as error:
            why = f"cannot be read ({error.strerror})"
            hint = "Check the folder's permissions."
            raise StoreError(printable(str(error.filename or folder)), why, hint) from error
        if not within and own is None and not _tunings_in(folder):
            raise _no_run(folder)
        wholes += [own] if own is not None else _tunings_in(folder)
        for view in found:
            runs.setdefault(view.folder.resolve(), view)
    views = list(runs.values())
    names = short_names([absolute(view.folder) for view in views])
    named = [replace(view, name=name) for view, name in zip(views, names, strict=True)]
    return Found(named, wholes)


def read_whole(folder: Path) -> Whole | None:
    """What the folder is of, if many runs are in it."""
    if (folder / FINETUNING).is_file():
        report = read_object(folder / REPORT)
        return _whole(
            "fine-tuning",
            folder,
            bool(report),
            str(report.get("command") or _tuned_by(folder)),
            report,
        )
    if not (folder / REPRODUCTION).is_file():
        return None
    note = read_object(folder / REPRODUCTION)
    calls = note.get("calls")
    if isinstance(calls, list):
        last = calls[-1] if calls and isinstance(calls[-1], dict) else {}
        command = str(last.get("command", ""))
        return _whole("reproduction", folder, "finished" in note, command)
    if "start" not in note:
        return None  # a variant of a study
    variants = [read_object(path) for path in sorted(folder.glob(f"*/{REPRODUCTION}"))]
    done = bool(variants) and all(variant.get("finished") for variant in variants)
    command = next((str(own["command"]) for own in variants if own.get("command")), "")
    return _whole("study", folder, done, command)


def _tunings_in(folder: Path) -> list[Whole]:
    """The fine-tunings below a folder: of those that are finished no run is left."""
    deeper = ("*/" * deep for deep in range(1, DEEPEST))
    notes = sorted(path for below in deeper for path in folder.glob(f"{below}{FINETUNING}"))
    return [own for path in notes if (own := read_whole(path.parent)) is not None]


def whole_around(run: Path) -> Whole | None:
    """What a run is a part of, if its folder says so."""
    above = list(absolute(run).parents)[:DEEPEST]
    return next((own for folder in above if (own := read_whole(folder)) is not None), None)


def _whole(
    kind: Kind, folder: Path, finished: bool, command: str, report: dict[str, Any] | None = None
) -> Whole:
    state: Literal["running", "finished", "cut off"] = "finished" if finished else "cut off"
    return Whole(kind, folder, "running" if is_held(folder) else state, command, report or {})


def _runs_in(folder: Path, deep: int) -> Iterator[Path]:
    """The runs in a folder; one has no others within."""
    if is_run(folder):
        yield folder
        return
    if not deep:
        return
    try:
        with os.scandir(folder) as entries:
            within = [entry.name for entry in entries if is_folder(entry)]
    except OSError:
        return
    for name in sorted(within):
        if not name.startswith("."):
            yield from _runs_in(folder / name, deep - 1)


def _by_stage(run: RunView) -> tuple[int, str]:
    """Teachers before students, cross-entropy before rewards; then by name."""
    known = run.stage in STAGE_NAMES
    return STAGE_NAMES.index(run.stage) if known else len(STAGE_NAMES), str(run.folder)


def absolute(path: Path) -> Path:
    """Links stay as they are: a name that was chosen tells more than where it leads."""
    return Path(os.path.abspath(path))  # noqa: PTH100


def _tuned_by(folder: Path) -> str:
    """The command of a fine-tuning that has not ended; it writes it down when it begins."""
    try:
        return (folder / "work" / COMMAND).read_text(encoding="utf-8").strip()
    except (OSError, ValueError):
        return ""


def _no_run(folder: Path) -> StoreError | CheckpointError:
    """What the folder is instead, and what to name."""
    what = printable(str(folder))
    if not folder.exists():
        hint = (
            "Name the folder of a training run (`naic train`) or a feature store (`naic prepare`)."
        )
        return StoreError(what, "there is no such folder", hint)
    if not folder.is_dir():
        hint = f"Name its folder: naic show {printable(str(folder.parent))}"
        return StoreError(what, "it is no folder", hint)
    if (folder / WEIGHTS).is_file():
        above = (folder.parent, *folder.resolve().parents[:2])
        run = next((path for path in above if is_run(path)), None)
        hint = (
            f"Name that: naic show {printable(str(run))}" if run else "Its card says what made it."
        )
        return CheckpointError(what, "it is a model, and not the run that made it", hint)
    hint = "`naic train CONFIG.toml --out RUN` makes a run: naic show RUN"
    return StoreError(what, _WHAT, hint)
