"""A run for people: a live panel on a terminal, a line now and then elsewhere."""

import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

SECONDS_BETWEEN_LINES = 10.0
EXAMPLES_SHOWN = 4
# The order people look for them in; whatever else is logged follows.
FIRST = ("loss", "reward", "cider", "images_per_second")
UNSEEN = re.compile(r"epoch|advantage_\d+")  # in the heading already; sixteen lines of a log
NAMES = {"cider": "validation CIDEr", "images_per_second": "images/s"}


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
            self._console.print(Text(self._line(now)))

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

    def _line(self, now: float) -> str:
        numbers = [f"{name} {value}" for name, value in self._shown()]
        return ", ".join([self._heading(now), *numbers])

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
        return [(NAMES.get(name, name), _number(self._values[name])) for name in names]

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


def _number(value: float | str) -> str:
    """Four figures that matter; whole numbers as they are."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
