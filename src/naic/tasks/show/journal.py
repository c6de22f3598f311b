"""What a run has logged, in the order of its steps.

A run that goes on after a kill drops what it logged after its checkpoint (`train/logs.py`). Files
that were put together otherwise may go back: then the later lines of a step are those that count.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from naic.train.logs import Metrics, metrics_lines

Row: TypeAlias = dict[str, float]

_EACH_AGENT = "advantage_"  # sixteen numbers of a line, for which TensorBoard is there
_MOST = 2**53  # steps: beyond, a float is no whole number


@dataclass(frozen=True)
class Journal:
    """The lines of a log.

    Attributes:
        training: means of the steps since the line before.
        validations: how captions of held-out images were.
        again: lines that do not count, as their steps were made again later.
    """

    training: list[Row]
    validations: list[Row]
    again: int = 0

    @property
    def last(self) -> Row | None:
        """The line of the latest step."""
        rows = [*self.training[-1:], *self.validations[-1:]]
        return max(rows, key=_step, default=None)


def read_journal(run: Path) -> Journal:
    """The log of a run, or of as much as there is; numbers that are not finite stay in it."""
    rows: list[Row] = []
    again = 0
    for line in metrics_lines(run):
        row = _numbers(line)
        step = row.get("step", -1.0)
        if not 0 <= step < _MOST:
            continue
        if rows and step < rows[-1]["step"]:
            kept = bisect_left(rows, step, key=_step)
            again += len(rows) - kept
            del rows[kept:]
        rows.append(row)
    training = [row for row in rows if "cider" not in row]
    return Journal(training, [row for row in rows if "cider" in row], again)


def column(rows: Sequence[Row], name: str) -> tuple[list[Row], list[float]]:
    """The rows that have such a value, and the values."""
    own = [row for row in rows if name in row]
    return own, [row[name] for row in own]


def _step(row: Row) -> float:
    return row["step"]


def _numbers(line: Metrics) -> Row:
    """The line's numbers; NaN and infinity are words in it."""
    row: Row = {}
    for name, value in line.items():
        if type(value) is float:
            if not name.startswith(_EACH_AGENT):
                row[name] = value
        elif type(value) is int or value in ("nan", "inf", "-inf"):
            try:
                row[name] = float(value)
            except OverflowError:
                row[name] = math.inf
    return row
