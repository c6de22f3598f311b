"""Where one training run stands, told from its folder, which is only read."""

import json
import math
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from naic.config import flat
from naic.errors import TrainingError
from naic.files import CONFIG, what_is
from naic.resume import BEST, REPORT, best_step, checkpoints, is_held
from naic.tasks.show.journal import Journal, Row, read_journal
from naic.train.guard import Guard
from naic.train.logs import METRICS, TENSORBOARD
from naic.train.settings import GuardSettings

State = Literal["running", "finished", "stopped", "cut off"]
# Where there are no locks, a run whose last line is older than this is not taken to be running.
SECONDS_OF_LIFE = 600.0


@dataclass(frozen=True)
class RunView:
    """A training run, as its folder tells of it.

    Attributes:
        folder: the run's.
        name: what it is called beside others.
        state: "running" holds the folder; "finished" has a report; "stopped" was given up by its
            guard; anything else was "cut off", by a kill, Ctrl-C or an error.
        why: what the guard said; or how the state was told where there are no locks.
        step: the last one that was logged.
        steps: how many there are in all.
        epoch, epochs: the same in epochs.
        seconds: what the run has taken so far, without its pauses.
        left: how many it will take to its end, at the speed so far.
        age: seconds since the last line was logged.
        best_step: the step of the best validation.
        checkpoint: the step that a run which was cut off goes on from.
        report: what report.json holds.
        settings: the run's own, by their names ("run.epochs").
        journal: what it logged.
        problems: what could not be read.
    """

    folder: Path
    name: str
    state: State
    why: str
    step: int | None
    steps: int | None
    epoch: float | None
    epochs: float | None
    seconds: float | None
    left: float | None
    age: float | None
    best_step: int | None
    checkpoint: int | None
    report: dict[str, Any]
    settings: dict[str, Any]
    journal: Journal
    problems: tuple[str, ...]

    @property
    def stage(self) -> str:
        """What it learns by."""
        return str(self.settings.get("stage") or "unknown stage")

    @property
    def captioner(self) -> str:
        """The kind of model."""
        return str(self.settings.get("captioner") or "unknown")

    @property
    def best(self) -> Path | None:
        """The folder of the best model so far."""
        folder = self.folder / BEST
        return folder if folder.is_dir() else None

    @property
    def board(self) -> bool:
        """Whether there is a TensorBoard log."""
        return (self.folder / TENSORBOARD).is_dir()

    @property
    def best_validation(self) -> Row:
        """The numbers of the best validation."""
        rows = (row for row in self.journal.validations if row["step"] == self.best_step)
        return next(rows, {})


def is_run(folder: Path) -> bool:
    """Whether the folder is a training run's; a model's has settings too, but of no stage."""
    if what_is(folder / METRICS) == "file":
        return True
    values, _ = _read_settings(folder)
    return "stage" in values and "out" in values


def look(folder: Path, name: str = "") -> RunView:
    """All there is to be said of a run."""
    settings, problem = _read_settings(folder)
    journal, report = read_journal(folder), read_object(folder / REPORT)
    age, held = _age(folder / METRICS), is_held(folder)
    state, why = _state(held, age, finished=bool(report), stopped=_given_up(journal, settings))
    last, timed = journal.last, latest(journal.training, "seconds")
    epochs = _number(settings.get("run.epochs"))
    steps = _whole(report.get("steps")) or _steps(journal.training, epochs)
    return RunView(
        folder=folder,
        name=name or folder.name,
        state=state,
        why=why,
        step=None if last is None else int(last["step"]),
        steps=steps,
        epoch=None if last is None else _number(last.get("epoch")),
        epochs=epochs,
        seconds=_number(report.get("seconds", timed and timed["seconds"])),
        left=None if report or timed is None else _left(timed, steps),
        age=age,
        best_step=_best(folder, journal),
        checkpoint=next(reversed(checkpoints(folder)), None),
        report=report,
        settings=settings,
        journal=journal,
        problems=(problem,) if problem else (),
    )


def latest(rows: Sequence[Row], name: str) -> Row | None:
    """The last row that has such a number."""
    return next((row for row in reversed(rows) if math.isfinite(row.get(name, math.nan))), None)


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object of a file; empty where there is none that is whole."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _read_settings(folder: Path) -> tuple[dict[str, Any], str]:
    """The settings by their names, and what is wrong with their file."""
    try:
        text = (folder / CONFIG).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        return {}, f"{CONFIG} cannot be read ({getattr(error, 'strerror', None) or error})"
    try:
        return dict(flat(tomllib.loads(text))), ""
    except (ValueError, RecursionError) as error:
        return {}, f"{CONFIG} is no valid TOML ({error})"


def _state(
    held: bool | None, age: float | None, *, finished: bool, stopped: str
) -> tuple[State, str]:
    """The state, and what else there is to say of it."""
    if held:
        return "running", ""
    if finished:
        return "finished", ""
    if held is None and age is not None and age < SECONDS_OF_LIFE:
        return "running", "there are no locks here: told by the age of its log"
    return ("stopped", stopped) if stopped else ("cut off", "")


def _age(path: Path) -> float | None:
    try:
        return max(0.0, time.time() - path.stat().st_mtime)
    except OSError:
        return None


def _given_up(journal: Journal, settings: dict[str, Any]) -> str:
    """What the run's guard said at its last line; empty if it had nothing to say.

    The guard looks at the log again, as it did line by line. Where it objected and the run went on
    none the less, it was told other rules since. By which validations weights were chosen that have
    rewards of one's own, the log does not say: such are not looked at.
    """
    names = [one.name for one in fields(GuardSettings)]
    given = {name: _number(settings.get(f"guard.{name}")) for name in names}
    known = {name: value for name, value in given.items() if value is not None}
    guard = Guard(GuardSettings(**known), Path(), "")

    def judge(row: Row) -> None:
        guard.validated(int(row["step"]), row["cider"])
        guard.judge(int(row["step"]), row.get("epoch", 0.0), row["cider"])

    def see(row: Row) -> None:
        guard.logged(int(row["step"]), row.get("epoch", 0.0), row)

    last = journal.last
    judged = [] if _has_own_rewards(journal) else journal.validations
    for rows, look_at in ((journal.training, see), (judged, judge)):
        said = _last_word(rows, look_at)
        if said and last is not None and rows[-1]["step"] == last["step"]:
            return said
    return ""


def _last_word(rows: Sequence[Row], look_at: Callable[[Row], None]) -> str:
    """What is objected to in the last row, once all before it have been looked at."""
    said = ""
    for row in rows:
        said = ""
        try:
            look_at(row)
        except TrainingError as error:
            said = f"{error.what}: {error.why}"
    return said


def _best(folder: Path, journal: Journal) -> int | None:
    """The step of the best model: what the link says, else the best validation there was."""
    linked = best_step(folder)
    if linked is not None:
        return linked
    if _has_own_rewards(journal):
        return None
    rows = [row for row in journal.validations if math.isfinite(row["cider"])]
    return int(max(rows, key=lambda row: row["cider"])["step"]) if rows else None


def _has_own_rewards(journal: Journal) -> bool:
    """Whether the best weights were chosen by more than CIDEr."""
    return any(key.startswith("reward_") for row in journal.validations for key in row)


def _steps(training: Sequence[Row], epochs: float | None) -> int | None:
    """How many steps the run has in all, from how many of them an epoch has."""
    last = latest(training, "epoch")
    if epochs is None or last is None or last["epoch"] <= 0:
        return None
    return max(1, round(epochs * last["step"] / last["epoch"]))


def _left(timed: Row, steps: int | None) -> float | None:
    """Seconds to the end at the speed of the whole run, validations and checkpoints included."""
    if steps is None or not 0 < timed["step"] <= steps:
        return None
    return timed["seconds"] / timed["step"] * (steps - timed["step"])


def _number(value: object) -> float | None:
    known = isinstance(value, int | float) and math.isfinite(value)
    return float(value) if known else None  # type: ignore[arg-type]


def _whole(value: object) -> int | None:
    return value if type(value) is int else None
