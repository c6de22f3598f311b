"""What to do next with a run, as commands."""

import os
import shlex
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from naic.files import CONFIG
from naic.resume import BEST
from naic.tasks.show.find import Whole, absolute
from naic.tasks.show.view import RunView

Steps = list[tuple[str, str]]  # what a command is for, and the command


def next_steps(run: RunView, whole: Whole | None) -> Steps:
    """The commands for a run; `whole` is what it is a part of."""
    steps: Steps = []
    if run.state == "cut off" and whole is None:
        steps.append(("go on", _resume(run)))
    elif run.state == "cut off" and whole is not None and whole.state != "running":
        steps.append(("go on", goes_on(whole)))
    elif run.state == "stopped" and whole is None:
        steps.append(("try", _slower(run)))
    # Stages of a fine-tuning have no backbone and no style: DIR/best has.
    tuning = whole is not None and whole.kind == "fine-tuning"
    if run.best is not None and not tuning:
        steps.append(("use it", use(run.folder)))
    if run.board:
        steps.append(("TensorBoard", board([run.folder])))
    return steps


def use(folder: Path) -> str:
    """How the best model of a folder is used."""
    return f"naic caption --model {_quoted(folder / BEST)} photo.jpg"


def board(runs: Sequence[Path]) -> str:
    """How TensorBoard shows what it has of these runs."""
    common = runs[0]
    if len(runs) > 1:
        common = Path(os.path.commonpath([absolute(run) for run in runs]))
        common = common.relative_to(here) if common.is_relative_to(here := Path.cwd()) else common
    return f"tensorboard --logdir {_quoted(common)}"


def goes_on(whole: Whole) -> str:
    """How a task of many runs goes on."""
    return whole.command or f"the command that began the {whole.kind}, once more"


def _resume(run: RunView) -> str:
    """A run's own settings hold all that was put over its file."""
    before, folder, out = _begun(run)
    return f"{before}naic train {_quoted(folder / CONFIG)} --resume auto{out}"


def _slower(run: RunView) -> str:
    """Anew, with half the learning rate."""
    before, folder, _ = _begun(run)
    names = (folder.with_name(f"{folder.name}-{number}") for number in count(2))
    other = next(name for name in names if not (run.folder.parent / name.name).exists())
    rate = run.settings.get("schedule.learning_rate")
    half = f"{rate / 2:g}" if isinstance(rate, float) else "1e-4"
    config = _quoted(folder / CONFIG)
    return f"{before}naic train {config} --out {_quoted(other)} --schedule.learning_rate {half}"


def _begun(run: RunView) -> tuple[str, Path, str]:
    """How to get to where the run was begun, its folder from there, and --out if it was moved.

    Its settings name features and start model from there.
    """
    out, here = Path(str(run.settings.get("out", ""))), absolute(run.folder)
    if out.is_absolute() and absolute(out) == here:
        return "", run.folder, ""
    parts = out.parts
    if not parts or here.parts[-len(parts) :] != parts:
        return "", run.folder, f" --out {_quoted(run.folder)}"
    base = Path(*here.parts[: -len(parts)])
    return ("" if base == Path.cwd() else f"cd {_quoted(base)} && "), out, ""


def _quoted(path: Path) -> str:
    """As a shell takes it."""
    return shlex.quote(str(path))
