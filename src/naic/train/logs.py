"""What a run tells: people on a screen, machines in `metrics.jsonl` and TensorBoard.

What is logged before a checkpoint belongs to it: a resumed run drops the lines after its step and
writes them again. But for the times, the file of a run that was killed and resumed is that of the
unbroken run.
"""

import json
import math
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from naic.files import remove_temporaries, write_atomically, writing

if TYPE_CHECKING:  # it takes a second to import, and is an extra
    from torch.utils.tensorboard import SummaryWriter

METRICS, TENSORBOARD = "metrics.jsonl", "tensorboard"
TIMES = ("seconds", "images_per_second", "seconds_left")  # what differs from run to run
Metrics = dict[str, float | str]
SECONDS_BETWEEN_LINES = 10.0
EXAMPLES_SHOWN = 4
# The order people look for them in; whatever else is logged follows.
FIRST = ("loss", "reward", "cider", "images_per_second")
UNSEEN = re.compile(r"epoch|advantage_\d+")  # in the heading already; sixteen lines of a log
NAMES = {"cider": "validation CIDEr", "images_per_second": "images/s"}


class RunLog:
    """Writes the log of a run; on a resumed one, goes on where its checkpoint is.

    Attributes:
        note: a line for people when something is not logged, else empty.
    """

    def __init__(self, run: Path, resumed_step: int | None) -> None:
        """With `resumed_step` None the log starts empty: no checkpoint, so nothing happened yet."""
        path = run / METRICS
        last = -1 if resumed_step is None else resumed_step
        kept = [line for line in read_metrics(run) if int(line["step"]) <= last]
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
        line = {"step": step} | {name: plain(value) for name, value in values.items()}
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


def _open_board(folder: Path, first_step: int) -> "SummaryWriter | None":
    """A TensorBoard log whose steps from `first_step` on, of before a kill, do not count."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=first_step)


def read_metrics(run: Path) -> list[Metrics]:
    """The lines of a run's log, without what a kill left half written."""
    return list(metrics_lines(run))


def metrics_lines(run: Path) -> Iterator[Metrics]:
    """The same one by one: of a long run they take much memory."""
    path = run / METRICS
    if not path.exists():
        return
    with path.open("rb") as file:
        for text in file:
            if not text.endswith(b"\n"):
                return  # the last one, so it may be half
            try:
                line = json.loads(text)
            except (ValueError, RecursionError):
                continue  # cut off by a kill, and then written on
            if isinstance(line, dict) and type(line.get("step")) is int:
                yield line


def plain(value: float | str) -> float | str:
    """NaN and infinity are no JSON, and other programs would stumble over them."""
    return value if isinstance(value, str) or math.isfinite(value) else str(value)


class Display:
    """Shows one stage of a run on standard error; on ranks above 0 it shows nothing.

    A value stays in sight until there is a newer one: the validation CIDEr comes seldom.
    """

    def __init__(self, stage: str, *, rank: int = 0, console: Console | None = None) -> None:
        self._stage = stage
        self._silent = rank > 0
        self._console = console or Console(stderr=True, soft_wrap=True)
        self._live: Live | None = None
        self._values: dict[str, float | str] = {}
        self._captions: list[str] = []
        self._place = (0, 0, 0.0)  # step, total, epoch
        self._first: tuple[float, int] | None = None  # when, and at which step
        self._last_line = float("-inf")

    def __enter__(self) -> Self:
        # A CI that asks for colours looks like a terminal, and fills its log with panels.
        live = self._console.is_interactive and not os.environ.get("CI")
        if live and not self._silent:
            self._live = Live(console=self._console, auto_refresh=False, transient=False)
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def update(
        self,
        step: int,
        total: int,
        epoch: float,
        values: Mapping[str, float | str],
        *,
        more: bool = False,
    ) -> None:
        """Show where the run is, and its newest numbers; with `more` to come, no line of them."""
        if self._silent:
            return
        now = time.monotonic()
        self._first = self._first or (now, step)
        self._place = (step, total, epoch)
        self._values |= values
        if self._live is not None:
            self._refresh()
            return
        due = now - self._last_line >= SECONDS_BETWEEN_LINES or step >= total or "cider" in values
        if due and not more:
            self._last_line = now
            numbers = [f"{name} {value}" for name, value in self._shown()]
            self._console.print(Text(", ".join([self._heading(now), *numbers])))

    def example(self, captions: Sequence[str]) -> None:
        """Show a few captions of the model as it is now."""
        if self._silent:
            return
        self._captions = list(captions[:EXAMPLES_SHOWN])
        if self._live is not None:
            self._refresh()
        else:
            for caption in self._captions:
                self._console.print(Text(f"  {caption}"))

    def message(self, text: str) -> None:
        """Say something once; on a terminal it stays above the panel."""
        if not self._silent:
            self._console.print(Text(text))

    def _refresh(self) -> None:
        assert self._live is not None
        step, total, _ = self._place
        table = Table.grid(padding=(0, 2))
        for name, value in self._shown():
            table.add_row(Text(name, style="dim"), Text(value))
        captions = [Text(f"  {caption}", style="italic") for caption in self._captions]
        bar = ProgressBar(total=max(total, 1), completed=step, width=40)
        heading = Text(self._heading(time.monotonic()), style="bold")
        self._live.update(Group(heading, bar, table, *captions), refresh=True)

    def _heading(self, now: float) -> str:
        step, total, epoch = self._place
        parts = [f"{self._stage}: step {step:,}/{total:,}", f"epoch {epoch:.2f}"]
        if (left := self._seconds_left(now)) is not None:
            parts.append(f"{duration(left)} left")
        return ", ".join(parts)

    def _shown(self) -> list[tuple[str, str]]:
        names = [name for name in FIRST if name in self._values]
        names += [name for name in self._values if name not in FIRST]
        names = [name for name in names if not UNSEEN.fullmatch(name)]
        return [(NAMES.get(name, name), number(self._values[name])) for name in names]

    def _seconds_left(self, now: float) -> float | None:
        """From the speed since the first update, before which graphs were compiled."""
        step, total, _ = self._place
        if self._first is None or step <= self._first[1] or step >= total:
            return None
        return (now - self._first[0]) / (step - self._first[1]) * (total - step)


def duration(seconds: float) -> str:
    """So many hours and minutes, as people say it."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes:02d} min"
    return f"{minutes} min {rest:02d} s" if minutes else f"{rest} s"


def number(value: float | str) -> str:
    """Four figures that matter; whole numbers as they are."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
