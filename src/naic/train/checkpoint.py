"""Checkpoints of a run: safetensors and JSON only, each of them whole or not there.

    RUN/checkpoints/step-00000400/    model, optimiser and average .safetensors, state.json
    RUN/models/step-00000400/         the model folder of the best validation so far
    RUN/best                          a link to it

A checkpoint is written under another name, synced and renamed, so a kill at any moment leaves the
one before it. `state.json` has the size and the checksum of every file, so that a damaged
checkpoint is refused and not trained on. Only the process that holds the run's lock
(`resume.locked`) may call what writes.
"""

import json
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from torch import Tensor

from naic.errors import CheckpointError, NaicError
from naic.files import remove_folder, sweep, sync_folder, whole_folder, writing
from naic.models.folder import (
    ModelSettings,
    Written,
    damaged,
    read_weights,
    write_model,
    write_synced,
    write_weights,
)
from naic.resume import BEST, CHECKPOINTS, MODELS, STATE, checkpoints, step_name
from naic.text.vocabulary import Vocabulary

FORMAT, VERSION = "naic-checkpoint", 1
PARTS = ("model", "optimiser", "average")


@dataclass
class Snapshot:
    """All that a run needs to go on as if nothing had happened.

    Attributes:
        step: how many steps were made.
        model: the weights.
        optimiser: its tensors, named "exp_avg/NAME" and so on.
        average: the averaged weights; empty without averaging.
        state: the rest, as JSON: no NaN and no infinity, string keys, lists and no tuples.
    """

    step: int
    model: dict[str, Tensor]
    optimiser: dict[str, Tensor]
    average: dict[str, Tensor]
    state: dict[str, Any]


def save(run: Path, snapshot: Snapshot, keep: int = 2) -> Path:
    """Write a checkpoint, then remove all but the `keep` newest."""
    folder = run / CHECKPOINTS / step_name(snapshot.step)
    _make_room(run, CHECKPOINTS)
    with whole_folder(folder) as temporary:
        files = {}
        for part in PARTS:
            weights: dict[str, Tensor] = getattr(snapshot, part)
            written = write_weights(temporary / f"{part}.safetensors", weights)
            files[f"{part}.safetensors"] = written._asdict()
        content = {
            "format": FORMAT,
            "version": VERSION,
            "step": snapshot.step,
            "files": files,
            "state": snapshot.state,
        }
        content["crc32"] = _crc32(content)
        text = json.dumps(content, indent=1, allow_nan=False) + "\n"
        write_synced(temporary / STATE, [text.encode()])
    others = [path for path in checkpoints(run).values() if path != folder]
    with writing(run):
        for old in others[: max(0, len(others) - keep + 1)]:
            remove_folder(old)
    return folder


def latest(run: Path) -> Path | None:
    """The newest checkpoint of a run, whole or not: `load` decides. None if there is none."""
    return next(reversed(checkpoints(run).values()), None)


def load(path: Path) -> Snapshot:
    """Read a checkpoint back; a damaged one is refused, naming the one that could be used.

    Going back in silence would hide that a disk is failing, and lose the work in between.
    """
    try:
        return _load(path)
    except CheckpointError as error:
        older = _whole_before(path)
        hint = f"Or delete {path} to go on from {older.name}, which is whole." if older else ""
        raise CheckpointError(error.what, error.why, f"{error.hint} {hint}".strip()) from error


def clean(run: Path) -> None:
    """Remove what a killed run left half done; for the holder of the run's lock."""
    for parent in (run / CHECKPOINTS, run / MODELS):
        sweep(parent)
    for link in run.glob(f".{BEST}.*"):
        link.unlink()


def keep_best(
    run: Path,
    weights: Mapping[str, Tensor],
    settings: ModelSettings,
    vocabulary: Vocabulary,
    card: str,
    step: int,
    more: Mapping[str, bytes] = MappingProxyType({}),
) -> Path:
    """Write the best model so far, let `best` lead to it, and remove the one before.

    A run that was killed and resumed may come to the same step twice, when `best` leads to the
    folder of the first time. The second then gets a name of its own ("step-00000400-2"), so that
    at no moment `best` leads nowhere. `more` are further files of the model folder.
    """
    _make_room(run, MODELS)
    folder, times = run / MODELS / step_name(step), 1
    while os.path.lexists(folder):
        times += 1
        folder = folder.with_name(f"{step_name(step)}-{times}")
    write_model(folder, weights, settings, vocabulary, card, more)
    link = run / f".{BEST}.{os.getpid()}"
    with writing(run / BEST):
        link.symlink_to(Path(MODELS) / folder.name)
        link.replace(run / BEST)
        sync_folder(run)
        for other in sorted((run / MODELS).glob("step-*")):
            if other != folder:
                remove_folder(other)
    return folder


def _make_room(run: Path, name: str) -> None:
    with writing(run):
        if not (run / name).exists():
            (run / name).mkdir(parents=True)
            sync_folder(run)
        clean(run)


def _load(path: Path) -> Snapshot:
    content = _read_state(path)
    parts = {}
    for part in PARTS:
        name = f"{part}.safetensors"
        _regular(path / name)
        parts[part] = read_weights(path / name, Written(**content["files"][name]))
    return Snapshot(content["step"], **parts, state=content["state"])


def _read_state(path: Path) -> dict[str, Any]:
    """`state.json` as it was written, to the last key and value."""
    if path.is_symlink() or not path.is_dir():
        raise damaged(path, "is no folder")
    file = path / STATE
    _regular(file)
    try:
        content = json.loads(file.read_bytes(), parse_constant=_no_constants)
    except OSError as error:
        raise damaged(file, f"cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise damaged(file, "is no whole JSON file") from error
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise damaged(file, f'is not of a checkpoint: it has no "format": "{FORMAT}"')
    if content.get("version") != VERSION:
        why = f"has version {content.get('version')!r}, and this naic reads {VERSION}"
        raise CheckpointError(str(file), why, "Use the naic that wrote it.")
    if content.pop("crc32", None) != _crc32(content):
        raise damaged(file, "is damaged: its checksum is not the one it was written with")
    # Foreign hands can make a right checksum: names that lead elsewhere must not be followed.
    names = {f"{part}.safetensors" for part in PARTS}
    if content.keys() != {"format", "version", "step", "files", "state"} or not (
        isinstance(content["files"], dict)
        and content["files"].keys() == names
        and all(_is_written(entry) for entry in content["files"].values())
        and isinstance(content["state"], dict)
    ):
        raise damaged(file, "does not have the keys of a checkpoint")
    if not isinstance(content["step"], int) or step_name(content["step"]) != path.name:
        raise damaged(file, f"is of step {content['step']!r}, which is not its folder's name")
    return content


def _no_constants(name: str) -> None:
    raise ValueError(f"{name} is no JSON")


def _is_written(entry: object) -> bool:
    return (
        isinstance(entry, dict)
        and entry.keys() == set(Written._fields)
        and all(type(value) is int for value in entry.values())
    )


def _regular(path: Path) -> None:
    """A link could lead to any file of the user's, and a pipe would block for ever."""
    if not os.path.lexists(path):
        raise damaged(path, "is missing")
    if path.is_symlink() or not path.is_file():
        raise damaged(path, "is no regular file")


def _crc32(content: dict[str, Any]) -> int:
    """The checksum of JSON content, however it is laid out."""
    return zlib.crc32(json.dumps(content, sort_keys=True, allow_nan=False).encode())


def _whole_before(path: Path) -> Path | None:
    """The newest whole checkpoint older than `path`."""
    found = list(checkpoints(path.parent.parent).values())
    older = found[: found.index(path)] if path in found else []
    for other in reversed(older):
        try:
            _load(other)
        except NaicError:
            continue
        return other
    return None
