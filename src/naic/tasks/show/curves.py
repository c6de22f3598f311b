"""What runs have logged as curves: which there are, and what is drawn of the points of each."""

import math
import re
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, TypeAlias

from naic.files import printable
from naic.tasks.show.facts import SHARES, named
from naic.tasks.show.journal import Row
from naic.tasks.show.view import RunView

Point: TypeAlias = tuple[float, float]
Axis = Literal["step", "epoch"]

BUCKETS = 200  # of a long curve: of each the highest and the lowest point are drawn
FEWEST = 30  # points of a curve that may be smoothed
WINDOW = 1 / 15  # of a curve, of which a smoothed point is the mean
NOISY = 2.0  # a curve that goes up and down so many times as much as its means is smoothed
STEEP = 100.0  # with a highest value so many times its middle one the axis is logarithmic
LARGEST = 1e100  # what is no smaller is as good as infinite
SAME_EPOCH = 0.01  # runs of epochs as long, but for this share, are drawn over their steps


@dataclass(frozen=True)
class Curve:
    """A line of a chart.

    Attributes:
        number: its own, from 0: of several runs each has one, the same in all charts.
        label: what it is called beside others.
        points: what is drawn of it; y is NaN where the line is broken.
        smooth: means over a window, where the points are noisy.
        first, last, lowest, highest: of all its points, drawn or not.
        count: how many there are.
        broken: how many there are beside these that are no finite numbers.
        middle: their median.
        best: the point of the best validation.
    """

    number: int
    label: str
    points: tuple[Point, ...]
    smooth: tuple[Point, ...]
    first: Point
    last: Point
    lowest: Point
    highest: Point
    count: int
    broken: int
    middle: float
    best: Point | None = None


@dataclass(frozen=True)
class Chart:
    """Curves over one axis.

    Attributes:
        name: for a file.
        title: for people.
        unit: of the upright axis.
        x: what the other axis counts, from 0.
        until: where it ends, in all charts of the same runs.
        curves: one at least.
        log: whether the upright axis is logarithmic.
        marked: whether each point is drawn as one: they are few.
        legend: whether there is more than one thing that a curve could be of.
    """

    name: str
    title: str
    unit: str
    x: Axis
    until: float
    curves: tuple[Curve, ...]
    log: bool
    marked: bool
    legend: bool


@dataclass(frozen=True)
class _Group:
    """Values that are looked at together."""

    title: str
    keys: tuple[str, ...]
    unit: str = ""


@dataclass(frozen=True)
class _Lines:
    """Lines of a run's log, and where each is on the axis."""

    run: RunView
    rows: list[Row]
    xs: list[float]

    def curve(self, key: str, label: str, number: int) -> Curve | None:
        """The values under a key; shares in per cent."""
        xs, times = self.xs, 100.0 if key in SHARES else 1.0
        ys = [times * row[key] for row in self.rows if key in row]
        if len(ys) < len(xs):
            xs = [x for x, row in zip(xs, self.rows, strict=True) if key in row]
        best = self.run.best_step if key == "cider" else None
        rows = zip(self.xs, self.rows, strict=True)
        at = next((x for x, row in rows if row["step"] == best), None) if best is not None else None
        return make_curve(printable(label), xs, ys, at, number)


_VALIDATED = (
    _Group("Validation: CIDEr", ("cider",), "the largest dot is the best one"),
    _Group("Validation: captions that are wholly true", ("facts",), "%"),
    _Group("Validation: repeats and bad endings", ("repeats", "bad_endings"), "% of captions"),
)
_TRAINED = (
    _Group("Training loss", ("loss", "loss_words", "loss_sentences")),
    _Group("Reward of sampled captions", ("reward", "baseline")),
    _Group(
        "Repeats and bad endings of sampled captions",
        ("sampled_repeats", "sampled_bad_endings"),
        "% of captions",
    ),
    _Group("Words of a sampled caption", ("words",)),
    _Group("Entropy of the agents that speak", ("entropy",), "nats"),
    _Group("KL from the start model", ("kl",), "nats"),
    _Group("Cross-entropy with captions, beside the reward", ("xe",)),
    _Group("Advantage", ("advantage",)),
    _Group("Words that were told", ("shown",), "%"),
    _Group("Norm of the gradient", ("gradient",)),
    _Group("Learning rate", ("learning_rate",)),
    _Group("Images a second", ("images_per_second",)),
)
_NO_CURVES = ("step", "epoch", "seconds")


def make_charts(runs: Sequence[RunView]) -> list[Chart]:
    """All that can be drawn: of one run what belongs together, of several each value by itself."""
    x: Axis = "step" if _same_epochs(runs) else "epoch"
    made = []
    for kind, groups in (("validation", _VALIDATED), ("training", _TRAINED)):
        lines = [_lines(run, kind, x) for run in runs]
        for group in _with_others(groups, lines):
            parts = [(key,) for key in group.keys] if len(runs) > 1 else [group.keys]
            made += [_chart(kind, group, keys, lines, x) for keys in parts]
    kept = [chart for chart in made if chart is not None]
    until = max((curve.last[0] for chart in kept for curve in chart.curves), default=0.0)
    return [replace(chart, until=until) for chart in kept]


def make_curve(
    label: str,
    xs: Sequence[float],
    ys: Sequence[float],
    best_at: float | None = None,
    number: int = 0,
) -> Curve | None:
    """A curve of as many points as can be seen; None if no point is a finite number."""
    gaps = [x for x, y in zip(xs, ys, strict=True) if not abs(y) < LARGEST]
    if gaps:
        pairs = [(x, y) for x, y in zip(xs, ys, strict=True) if abs(y) < LARGEST]
        xs, ys = [x for x, _ in pairs], [y for _, y in pairs]
    if not ys:
        return None
    drawn, means = _thinned(xs, ys)
    middle = statistics.median(y for _, y in means)
    low, high = min(ys), max(ys)
    log = is_steep(low, middle, high)
    smooth = _smoothed(means, log=log)
    noisy = _way(drawn, log=log) > NOISY * _way(smooth, log=log)
    return Curve(
        number=number,
        label=label,
        points=tuple(sorted([*drawn, *((x, math.nan) for x in gaps)], key=lambda point: point[0])),
        smooth=tuple(smooth) if noisy and len(ys) >= FEWEST else (),
        first=(xs[0], ys[0]),
        last=(xs[-1], ys[-1]),
        lowest=(xs[ys.index(low)], low),
        highest=(xs[ys.index(high)], high),
        count=len(ys),
        broken=len(gaps),
        middle=middle,
        best=(best_at, ys[xs.index(best_at)]) if best_at is not None and best_at in xs else None,
    )


def is_steep(lowest: float, middle: float, highest: float) -> bool:
    """Whether on a plain axis most of a curve would lie on the ground."""
    return lowest > 1 / LARGEST and highest > STEEP * middle


def _chart(
    kind: str, group: _Group, keys: Sequence[str], lines: Sequence[_Lines], x: Axis
) -> Chart | None:
    if len(lines) == 1:
        curves = [lines[0].curve(key, named(key), place) for place, key in enumerate(keys)]
    else:
        curves = [own.curve(keys[0], own.run.name, place) for place, own in enumerate(lines)]
    kept = tuple(curve for curve in curves if curve is not None)
    if not kept:
        return None
    whole = len(keys) == len(group.keys)
    return Chart(
        name=re.sub(r"[^a-z0-9]+", "-", f"{kind}-{keys[0]}".lower()),
        title=group.title if whole else f"{kind.capitalize()}: {named(keys[0])}",
        unit=group.unit,
        x=x,
        until=0.0,
        curves=kept,
        log=any(is_steep(c.lowest[1], c.middle, c.highest[1]) for c in kept)
        and all(curve.lowest[1] > 1 / LARGEST for curve in kept),
        marked=kind == "validation" and max(curve.count for curve in kept) <= FEWEST,
        legend=len(lines) > 1 or len(kept) > 1,
    )


def _lines(run: RunView, kind: str, x: Axis) -> _Lines:
    rows = run.journal.validations if kind == "validation" else run.journal.training
    rows = [row for row in rows if math.isfinite(row.get(x, math.nan))]
    return _Lines(run, rows, [row[x] for row in rows])


def _same_epochs(runs: Sequence[RunView]) -> bool:
    """Whether a step is as long in all runs; of what has no epochs it is taken to be."""
    last = [row for run in runs if (row := run.journal.last) and row["step"] > 0]
    long = [row["step"] / row["epoch"] for row in last if row.get("epoch", 0.0) > 0]
    return not long or len(long) < len(last) or max(long) - min(long) <= SAME_EPOCH * max(long)


def _with_others(groups: Sequence[_Group], lines: Iterable[_Lines]) -> list[_Group]:
    """And what is in none of the groups: a captioner may have losses of its own."""
    looked_at = (row for own in lines for row in (*own.rows[:1], *own.rows[-1:]))
    known = {key for group in groups for key in group.keys} | {*_NO_CURVES}
    others = dict.fromkeys(key for row in looked_at for key in row if key not in known)
    losses = tuple(key for key in others if key.startswith("loss_"))
    widened = [
        _Group(group.title, group.keys + losses, group.unit) if "loss" in group.keys else group
        for group in groups
    ]
    return widened + [_Group(printable(named(key)), (key,)) for key in others if key not in losses]


def _thinned(xs: Sequence[float], ys: Sequence[float]) -> tuple[list[Point], list[Point]]:
    """The first, the last, and the extremes of each bucket; and the mean of each bucket."""
    size = -(-len(ys) // BUCKETS)
    kept, means = {0, len(ys) - 1}, list[Point]()
    for start in range(0, len(ys), size):
        bucket = ys[start : start + size]
        kept |= {start + bucket.index(min(bucket)), start + bucket.index(max(bucket))}
        means.append((statistics.fmean(xs[start : start + size]), statistics.fmean(bucket)))
    return [(xs[i], ys[i]) for i in sorted(kept)], means


def _smoothed(means: Sequence[Point], *, log: bool) -> list[Point]:
    """The means over a window around each point, which is smaller towards the ends.

    Where the axis is logarithmic, so are the means: else a single spike would be a hill.
    """
    half, end = max(1, round(len(means) * WINDOW / 2)), len(means) - 1
    mean = statistics.geometric_mean if log else statistics.fmean
    return [
        (x, mean([y for _, y in means[i - wide : i + wide + 1]]))
        for i, (x, _) in enumerate(means)
        for wide in [min(half, i, end - i)]
    ]


def _way(points: Sequence[Point], *, log: bool) -> float:
    """How far it goes up and down in all."""
    heights = [math.log(y) if log else y for _, y in points]
    return sum(abs(b - a) for a, b in pairwise(heights))
