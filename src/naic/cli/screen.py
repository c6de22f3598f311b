"""What people see while a verb works: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as Bars
from rich.table import Table
from rich.text import Text

from naic.cli.main import SOME_SKIPPED
from naic.errors import Problem
from naic.progress import Progress, Update

if TYPE_CHECKING:  # who has figures has it imported
    from naic.tasks.evaluate.tables import Figures

SECONDS_BETWEEN_LINES = 10.0
REASONS_SHOWN = 12
AT_ONCE = 0.2  # seconds: what comes sooner after another one is of the same batch
LONGEST = 1.0  # seconds that a batch may take to come; what goes on is none
SLOW = 10  # in a second: of fewer, a part counts
WIDE = 100  # columns of the widest table, and some
SHORT = 1.5  # minutes or hours: less is told in the smaller unit


@contextmanager
def progress(title: str) -> Iterator[Update]:
    """A progress display on standard error, fit for a terminal or for a log file."""
    if sys.stderr.isatty():
        with _bar(title) as update:
            yield update
    else:
        yield _lines(title)


@contextmanager
def _bar(title: str) -> Iterator[Update]:
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[speed]}"),
        TimeRemainingColumn(),
    )
    with Bars(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=None, speed="")
        pace = _Pace()

        def update(seen: Progress) -> None:
            done, total, bad = seen.done, seen.total, seen.bad
            rate = pace.rate(done)
            said = [f"{rate:{_digits(rate)}}/s"] * bool(rate) + [f"{bad} bad"] * bool(bad)
            bars.update(task, completed=done, total=total, speed=" ".join(said))

        yield update


def _lines(title: str) -> Update:
    last = [float("-inf")]
    pace = _Pace()

    def update(seen: Progress) -> None:
        done, total, bad = seen.done, seen.total, seen.bad
        now, rate = time.monotonic(), pace.rate(done)
        if now - last[0] < SECONDS_BETWEEN_LINES and done != total:
            return
        last[0] = now
        said = [f"{title}: {done}/{total}"]
        if rate:
            said.append(f"{rate:{_digits(rate)}}/s")
            if done < total:
                said.append(f"{_span((total - done) / rate)} left")
        if bad:
            said.append(f"{bad} bad")
        print(", ".join(said), file=sys.stderr)

    return update


class _Pace:
    """How fast things get done, counted from the first that this run did.

    Others may have been done by a run before. The first takes longest, since a model is loaded for
    it: counted with it, seconds of work would be told as minutes. Things come in batches, all of
    one at once: so the rate is from the first of the first batch to the first of the latest.
    """

    def __init__(self) -> None:
        self._before: int | None = None
        self._first: tuple[float, int] | None = None
        self._mark = (0.0, 0)  # when the latest batch began to come, and how many were done then
        self._last = 0.0

    def rate(self, done: int) -> float:
        """Of those done in a second; 0 while it is too early to tell."""
        now = time.monotonic()
        if self._before is None:
            self._before = done
        if self._first is None and done > self._before:
            self._first = now, done
        if now - self._last > AT_ONCE or now - self._mark[0] > LONGEST:
            self._mark = now, done
        self._last = now
        if self._first is None or self._mark[0] - self._first[0] <= 1:
            return 0.0
        return (self._mark[1] - self._first[1]) / (self._mark[0] - self._first[0])


def _digits(rate: float) -> str:
    return ".0f" if rate >= SLOW else ".2f"


def _span(seconds: float) -> str:
    """A time in the unit that makes it easy to read."""
    if seconds < SHORT * 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < SHORT * 3600 else f"{seconds / 3600:.1f} h"


def teller(verb: str) -> Callable[[Problem], None]:
    """What tells of a problem, as soon as it is known, on standard error."""
    return lambda problem: print(f"naic {verb}: {problem}", file=sys.stderr)


def print_problems(problems: Sequence[Problem], kept_in: str) -> int:
    """Count what could not be used by its kind, with an example of each; the exit code."""
    if not problems:
        return 0
    print(f"{len(problems):,} could not be used (all of them in {kept_in}):", file=sys.stderr)
    counts = Counter(problem.kind or problem.why for problem in problems)
    examples = {problem.kind or problem.why: problem for problem in reversed(problems)}
    for kind, count in counts.most_common(REASONS_SHOWN):
        example = examples[kind]
        why = f": {example.why}" if example.kind else ""
        print(f"  {count:,} x {kind}", file=sys.stderr)
        print(f"      such as {example.where}{why}. {example.hint}", file=sys.stderr)
    rest = counts.total() - sum(count for _, count in counts.most_common(REASONS_SHOWN))
    if rest:
        print(f"  {rest:,} x other reasons", file=sys.stderr)
    return SOME_SKIPPED


def print_figures(figures: "Figures") -> None:
    """A table on standard output; without rows, nothing."""
    if not figures.rows:
        return
    table = Table(box=box.SIMPLE if sys.stdout.isatty() else None)
    table.add_column(Text(figures.header[0]))
    for name in figures.header[1:]:
        table.add_column(Text(name), justify="right")
    for row in figures.rows:
        table.add_row(*map(Text, row))  # names of files are no markup
    _console().print(table)


def _console() -> Console:
    """Wide enough for every column: a narrow terminal shall break lines rather than cut figures."""
    if not sys.stdout.isatty():
        return Console(width=WIDE, color_system=None)
    console = Console()
    console.width = max(console.width, WIDE)
    return console
