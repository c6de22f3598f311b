"""What people see while a verb works: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeRemainingColumn,
)

from naic.data.records import Problem

SECONDS_BETWEEN_LINES = 10.0
REASONS_SHOWN = 12


class Update(Protocol):
    """Called with images done, images in all, and how many of them were bad."""

    def __call__(self, done: int, total: int, bad: int) -> None:
        """Show it."""


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
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=None, speed="")
        first: list[tuple[float, int]] = []

        def update(done: int, total: int, bad: int) -> None:
            if not first:
                first.append((time.monotonic(), done))
            seconds = time.monotonic() - first[0][0]
            speed = f"{(done - first[0][1]) / seconds:.0f}/s" if seconds > 1 else ""
            bars.update(
                task, completed=done, total=total, speed=speed + (f" {bad} bad" if bad else "")
            )

        yield update


def _lines(title: str) -> Update:
    last = [float("-inf")]

    def update(done: int, total: int, bad: int) -> None:
        now = time.monotonic()
        if now - last[0] >= SECONDS_BETWEEN_LINES or done == total:
            last[0] = now
            print(f"{title}: {done}/{total}{f', {bad} bad' if bad else ''}", file=sys.stderr)

    return update


def print_problems(problems: Sequence[Problem], kept_in: str) -> None:
    """Count what could not be used by its reason, with an example of each."""
    print(f"{len(problems):,} could not be used (all of them in {kept_in}):", file=sys.stderr)
    counts = Counter(problem.why for problem in problems)
    examples = {problem.why: problem for problem in reversed(problems)}
    for why, count in counts.most_common(REASONS_SHOWN):
        print(f"  {count:,} x {why}", file=sys.stderr)
        print(f"      such as {examples[why].where}. {examples[why].hint}", file=sys.stderr)
    rest = counts.total() - sum(count for _, count in counts.most_common(REASONS_SHOWN))
    if rest:
        print(f"  {rest:,} x other reasons", file=sys.stderr)
