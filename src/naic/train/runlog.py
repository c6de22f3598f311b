"""The numbers of a run, for machines: `metrics.jsonl` and TensorBoard.

What is logged before a checkpoint belongs to it: a resumed run drops the lines after its step and
writes them again. But for the times, the file of a run that was killed and resumed is that of the
unbroken run.
"""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Self

from naic.files import remove_temporaries, write_atomically, writing

if TYPE_CHECKING:  # it takes a second to import, and is an extra
    from torch.utils.tensorboard import SummaryWriter

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"
TIMES = ("seconds", "images_per_second", "seconds_left")  # what differs from run to run
Metrics = dict[str, float | str]


class RunLog:
    """Writes the log of a run; on a resumed one, goes on where its checkpoint is.

    Attributes:
        note: a line for people when something is not logged, else empty.
    """

    def __init__(self, run: Path, resumed_step: int | None) -> None:
        """With `resumed_step` None the log starts empty: no checkpoint, so nothing happened yet."""
        path = run / METRICS
        last = -1 if resumed_step is None else resumed_step
        kept = [line for line in _lines(path) if _step(line) <= last]
        remove_temporaries(run, METRICS)
        write_atomically(path, "".join(f"{json.dumps(line)}\n" for line in kept).encode())
        self._path = path
        self._file = path.open("a", encoding="utf-8")
        self.note = ""
        self._board = _open_board(run / TENSORBOARD, last + 1)
        if self._board is None:
            self.note = "No TensorBoard log: for one, run pip install 'naic[train]'."

    def log(self, step: int, values: Mapping[str, float | str]) -> None:
        """Add a line; it outlives a kill of the process from then on."""
        line = {"step": step} | {name: _plain(value) for name, value in values.items()}
        with writing(self._path):
            self._file.write(f"{json.dumps(line)}\n")
            self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                if not isinstance(value, str):
                    self._board.add_scalar(name, value, step)

    def sync(self) -> None:
        """Through to the disk; before a checkpoint is saved, so that it has no gap before it."""
        with writing(self._path):
            os.fsync(self._file.fileno())
        if self._board is not None:
            self._board.flush()

    def close(self) -> None:
        """Write the rest, and let go of the files."""
        with writing(self._path):
            self._file.close()
        if self._board is not None:
            self._board.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_metrics(run: Path) -> list[Metrics]:
    """The lines of a run's log, without what a kill left half written."""
    return _lines(run / METRICS)


def _open_board(folder: Path, first_step: int) -> "SummaryWriter | None":
    """A TensorBoard log whose steps from `first_step` on, of before a kill, do not count."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=first_step)


def _lines(path: Path) -> list[Metrics]:
    if not path.exists():
        return []
    lines = []
    for text in path.read_bytes().split(b"\n")[:-1]:  # after the last newline: a half line
        try:
            line = json.loads(text)
        except ValueError:
            continue  # cut off by a kill, and then written on
        if isinstance(line, dict) and type(line.get("step")) is int:
            lines.append(line)
    return lines


def _step(line: Metrics) -> int:
    return int(line["step"])


def _plain(value: float | str) -> float | str:
    """NaN and infinity are no JSON, and other programs would stumble over them."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)
