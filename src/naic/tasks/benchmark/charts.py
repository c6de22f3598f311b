"""The charts of a benchmark."""

import math
from collections.abc import Sequence

from naic.tasks.benchmark.rows import NAIC, RIVALS, TEACHER, Row
from naic.tasks.charts import Bar, Line, bars, lines


def charts(rows: Sequence[Row]) -> dict[str, str]:
    """SVG by what is put after the file's name; where nothing was timed, there is none."""
    timed = [row for row in rows if row.median_ms is not None]
    found = {}
    for part in ("decode", "whole"):
        own = [row for row in timed if row.part == part]
        if latency := _latency(part, own):
            found[f"-{part}"] = latency
        if ratios := _ratios(part, own):
            found[f"-{part}-batches"] = ratios
    return found


def _latency(part: str, rows: Sequence[Row]) -> str | None:
    """The first runtime that was timed, at the smallest batch; rivals run eagerly, and say so."""
    first = next((row for row in rows if row.name == NAIC), None)
    if first is None:
        return None
    same = [row for row in rows if row.group == first.group and row.model not in RIVALS.values()]
    others = [row for row in rows if row.model in RIVALS.values() and row.batch == first.batch]
    found = [
        Bar(_label(row), row.median_ms, row.median_ms, row.p99_ms)
        for row in [*same, *others]
        if row.median_ms is not None
    ]
    what = "one image" if first.batch == 1 else f"{first.batch} images"
    title = f"{_TITLES[part]}, {what}: {first.runtime}, {first.precision}"
    return bars(
        title, "milliseconds, logarithmic; the line goes to the 99th percentile", found, log=True
    )


def _ratios(part: str, rows: Sequence[Row]) -> str | None:
    """How the teacher's ratio changes with the batch, in the first runtime that was timed."""
    first = next((row for row in rows if row.model == TEACHER), None)
    if first is None:
        return None
    own = [row for row in rows if row.model == TEACHER and row.group[1:] == first.group[1:]]
    curves = []
    for name in dict.fromkeys(row.name for row in own):
        points = [
            (math.log2(row.batch), row.ratio)
            for row in sorted(own, key=lambda row: row.batch)
            if row.name == name and row.ratio is not None
        ]
        if len(points) > 1:
            curves.append(Line(name.removeprefix(f"{TEACHER}, "), tuple(points)))
    if not curves:
        return None
    title = f"{_TITLES[part]}: the teacher's time over NAIC's, {first.runtime}, {first.precision}"
    return lines(title, "images at once, as a power of two", "times", curves)


_TITLES = {"decode": "Features to words", "whole": "Pixels to words"}


def _label(row: Row) -> str:
    return f"{row.name}, eager" if row.model in RIVALS.values() else row.name
