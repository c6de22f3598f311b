"""Charts as SVG text: bars with intervals, lines, points.

Made here so that no plotting library is needed, and the same numbers always give the same bytes.
They have no background and take their ink from the reader's colour scheme: a page may be light or
dark.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from naic.errors import ConfigError

WIDTH, HEIGHT = 760, 420  # wider where the labels need it
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 52, 48  # room for the labels around lines and points
BAR, GAP = 20, 12
LABELS, NUMBERS = 170, 70  # least room to the left of bars, and what comes after their ends
PLOT = 380  # least room for what is drawn between the labels
LINE = 15  # least distance of two labels
MARGIN = 8
TEXT, TITLE = 12, 16  # pixels of the font; the title's letters are bold, so it counts for more
# Of middling lightness, so that each can be told from white and from black; the first is for the
# one that a chart is about where there is only one.
COLOURS = ("#3b82c4", "#d9730d", "#2e9e6b", "#b04fa3", "#c9a227", "#d1495b", "#6b7f8c")
STYLE = """
text{font:12px system-ui,sans-serif;fill:#333}
.title{font-size:15px;font-weight:600}
.quiet{fill:#666}
.grid{stroke:#8888;stroke-width:.5}
.axis{stroke:#666;stroke-width:1}
.whisker{stroke:#333;stroke-width:1.5}
@media(prefers-color-scheme:dark){text{fill:#ddd}.quiet{fill:#aaa}.axis{stroke:#aaa}.whisker{stroke:#ddd}}
"""


@dataclass(frozen=True, slots=True)
class Bar:
    """A value with the ends of its interval, where there is one."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A curve, by its points from left to right."""

    label: str
    points: tuple[tuple[float, float], ...]


@dataclass(frozen=True, slots=True)
class Dot:
    """A point with a name."""

    label: str
    x: float
    y: float


class Scale:
    """Numbers to pixels, with round numbers to write beside the axis."""

    def __init__(
        self, low: float, high: float, first: float, last: float, *, log: bool = False
    ) -> None:
        """`low` and `high` are widened to round numbers, which go to the pixels first and last."""
        self._log = log
        if log:
            first_power = math.floor(math.log10(low))
            last_power = max(math.ceil(math.log10(high)), first_power + 1)
            self.ticks = [10.0**power for power in range(first_power, last_power + 1)]
        else:
            # Numbers that differ in their last bits are one number: no ticks lie between them.
            span = 0.0 if math.isclose(low, high) else high - low
            step = _round_step(span / 5 or abs(high) or 1.0)
            start, stop = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
            self.ticks = [float(f"{i * step:.12g}") for i in range(start, max(stop, start + 1) + 1)]
        self._low, self._high = (self._position(self.ticks[i]) for i in (0, -1))
        self._first, self._last = first, last

    def __call__(self, value: float) -> float:
        """The pixel of a value."""
        share = (self._position(value) - self._low) / (self._high - self._low)
        return round(self._first + share * (self._last - self._first), 2)

    def _position(self, value: float) -> float:
        return math.log10(value) if self._log else value


def bars(title: str, unit: str, values: Sequence[Bar], *, log: bool = False) -> str:
    """Horizontal bars from zero (with `log` from the next power of ten), each with its interval."""
    numbers = [n for bar in values for n in (bar.value, bar.low, bar.high) if n is not None]
    _check(title, numbers, positive=log)
    height = TOP + len(values) * (BAR + GAP) + BOTTOM
    floor = min(numbers) / 1.0001 if log else min(0.0, *numbers)  # no bar of no length
    left = max(LABELS, _widest(bar.label for bar in values) + 2 * MARGIN)
    right = max(NUMBERS, _widest(_number(bar.value) for bar in values) + 2 * MARGIN)
    width = _total(left, right, title, unit)
    across = Scale(floor, max(numbers), left, width - right, log=log)
    parts = _across(across, unit, TOP - 6, height - BOTTOM, width)
    for number, bar in enumerate(values):
        top = TOP + number * (BAR + GAP)
        middle = top + BAR / 2
        start, end = sorted((across(across.ticks[0] if log else 0.0), across(bar.value)))
        parts.append(_text(left - MARGIN, middle + 4, bar.label, anchor="end"))
        parts.append(
            f'<rect x="{start}" y="{top}" width="{round(end - start, 2)}" height="{BAR}" rx="2" '
            f'fill="{COLOURS[0]}" fill-opacity=".75"/>'
        )
        furthest = end
        if bar.low is not None and bar.high is not None:
            low, furthest = across(bar.low), max(end, across(bar.high))
            parts.append(_stroke(low, middle, across(bar.high), middle, "whisker"))
            parts += [
                _stroke(x, middle - 4, x, middle + 4, "whisker") for x in (low, across(bar.high))
            ]
        parts.append(_text(furthest + 6, middle + 4, _number(bar.value)))
    return _svg(title, width, height, parts)


def lines(title: str, x: str, y: str, curves: Sequence[Line]) -> str:
    """Curves over the same axis; each has its name at its right end."""
    points = [point for curve in curves for point in curve.points]
    _check(title, [n for point in points for n in point])
    names = [curve.label for curve in curves if curve.points]
    across, down, width, parts = _frame(points, title, x, y, names)
    ends = []
    for number, curve in enumerate(curves):
        if not curve.points:
            continue
        colour = COLOURS[number % len(COLOURS)]
        places = " ".join(f"{across(a)},{down(b)}" for a, b in curve.points)
        parts.append(
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2" '
            'stroke-linejoin="round"/>'
        )
        last = curve.points[-1]
        parts.append(_circle(across(last[0]), down(last[1]), colour))
        ends.append((across(last[0]) + 8, down(last[1]) + 4, curve.label, colour))
    return _svg(title, width, HEIGHT, [*parts, *_labels(ends, width)])


def scatter(title: str, x: str, y: str, dots: Sequence[Dot], *, log_x: bool = False) -> str:
    """Points with their names beside them."""
    _check(title, [n for dot in dots for n in (dot.x, dot.y)])
    _check(title, [dot.x for dot in dots], positive=log_x)
    points = [(dot.x, dot.y) for dot in dots]
    labels = [dot.label for dot in dots]
    across, down, width, parts = _frame(points, title, x, y, labels, log_x=log_x)
    names = []
    for number, dot in enumerate(dots):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(_circle(across(dot.x), down(dot.y), colour))
        names.append((across(dot.x) + 8, down(dot.y) + 4, dot.label, colour))
    return _svg(title, width, HEIGHT, [*parts, *_labels(names, width)])


def _check(title: str, numbers: Sequence[float], *, positive: bool = False) -> None:
    """What cannot be drawn must not become an image that looks like a result."""
    if not numbers:
        raise ConfigError(f"the chart {title!r}", "there is nothing to draw", "Give it values.")
    if not all(map(math.isfinite, numbers)):
        raise ConfigError(f"the chart {title!r}", "a value is not finite", "Leave it out.")
    if positive and min(numbers) <= 0:
        why = "a logarithmic axis has no place for 0 or less"
        raise ConfigError(f"the chart {title!r}", why, "Draw it on a plain axis.")


def _width(text: str, size: int = TEXT) -> int:
    """Pixels that a text takes, in the widest of the usual fonts."""
    letters = sum(
        0.4 if sign in " iIjl.,:;'|!()[]" else 1.0 if sign in "mMwW%@" or sign > "\u2fff" else 0.7
        for sign in text
    )
    return math.ceil(size * letters)


def _widest(labels: Iterable[str]) -> int:
    return max(map(_width, labels), default=0)


def _total(left: int, right: int, title: str, unit: str) -> int:
    """The width of an image with so much room on both sides, that title and unit fit into."""
    texts = max(_width(title, TITLE), _width(unit)) + 2 * MARGIN
    return max(WIDTH, left + PLOT + right, texts)


def _frame(
    points: Sequence[tuple[float, float]],
    title: str,
    x: str,
    y: str,
    labels: Iterable[str],
    *,
    log_x: bool = False,
) -> tuple[Scale, Scale, int, list[str]]:
    """The two axes (y grows upwards, pixels downwards), the width, and what stands at the axes."""
    xs, ys = [x for x, _ in points], [y for _, y in points]
    down = Scale(min(ys), max(ys), HEIGHT - BOTTOM, TOP)
    left = max(LEFT, _widest(map(_number, down.ticks)) + 2 * MARGIN)
    right = max(RIGHT, _widest(labels) + 3 * MARGIN)
    width = _total(left, right, title, x)
    across = Scale(min(xs), max(xs), left, width - right, log=log_x)
    parts = _across(across, x, TOP, HEIGHT - BOTTOM, width)
    for tick in down.ticks:
        at = down(tick)
        parts.append(_stroke(left, at, width - right, at, "grid"))
        parts.append(_text(left - MARGIN, at + 4, _number(tick), anchor="end", kind="quiet"))
    parts.append(_text(MARGIN, TOP - 8, y, kind="quiet"))
    return across, down, width, parts


def _across(scale: Scale, unit: str, top: float, bottom: float, width: int) -> list[str]:
    """Upright grid lines with their numbers, and what they count."""
    parts = []
    for tick in scale.ticks:
        parts.append(_stroke(scale(tick), top, scale(tick), bottom, "grid"))
        parts.append(_text(scale(tick), bottom + 18, _number(tick), anchor="middle", kind="quiet"))
    middle = (scale(scale.ticks[0]) + scale(scale.ticks[-1])) / 2
    half = _width(unit) / 2 + MARGIN
    middle = min(max(middle, half), width - half)
    parts.append(_text(middle, bottom + 38, unit, anchor="middle", kind="quiet"))
    return parts


def _labels(wanted: Sequence[tuple[float, float, str, str]], width: int) -> list[str]:
    """Names at their places in their colours, moved down where two would lie over each other."""
    parts: list[str] = []
    placed: list[tuple[float, float, float]] = []  # left, right, height
    for x, y, label, colour in sorted(wanted, key=lambda item: (item[1], item[2])):
        left = min(x, width - MARGIN - _width(label))
        right = left + _width(label)
        below = y
        for start, end, at in placed:  # from the top downwards
            if left < end and start < right and below < at + LINE:
                below = at + LINE
        placed.append((left, right, below))
        parts.append(_text(left, below, label, colour=colour))
    return parts


def _round_step(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(n * power for n in (1.0, 2.0, 5.0, 10.0) if n * power >= step * (1 - 1e-9))


def _number(value: float) -> str:
    """Three or four figures; what is very large or small as a power."""
    if value and not 1e-3 <= abs(value) < 1e7:
        return f"{value:.2g}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _text(
    x: float, y: float, text: str, *, anchor: str = "start", kind: str = "", colour: str = ""
) -> str:
    look = f' class="{kind}"' if kind else ""
    look += f' style="fill:{colour}"' if colour else ""  # an attribute would yield to the style
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{look}>{escape(text)}</text>'


def _stroke(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    return f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" class="{kind}"/>'


def _circle(x: float, y: float, colour: str) -> str:
    return f'<circle cx="{x:g}" cy="{y:g}" r="4" fill="{colour}"/>'


def _svg(title: str, width: int, height: int, parts: Sequence[str]) -> str:
    inner = "\n".join(parts)
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
width="{width}" height="{height}" role="img">
<title>{escape(title)}</title>
<style>{STYLE}</style>
{_text(MARGIN, 20, title, kind="title")}
{inner}
</svg>
"""
