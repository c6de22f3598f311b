"""Charts as SVG text: bars with intervals, lines, points.

Made here so that no plotting library is needed, and the same numbers always give the same bytes.
They have no background and take their ink from the reader's colour scheme: a page may be light or
dark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from naic.tasks.drawing import (
    COLOURS,
    MARGIN,
    TITLE,
    Scale,
    check_drawable,
    draw_dot,
    draw_line,
    draw_names,
    draw_text,
    make_svg,
    spell,
    widest,
    width_of,
)

WIDTH, HEIGHT = 760, 420  # wider where the labels need it
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 52, 48  # room for the labels around lines and points
BAR, GAP = 20, 12
LABELS, NUMBERS = 170, 70  # least room to the left of bars, and what comes after their ends
PLOT = 380  # least room for what is drawn between the labels


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


def bars(title: str, unit: str, values: Sequence[Bar], *, log: bool = False) -> str:
    """Horizontal bars from zero (with `log` from the next power of ten), each with its interval."""
    numbers = [n for bar in values for n in (bar.value, bar.low, bar.high) if n is not None]
    check_drawable(title, numbers, positive=log)
    height = TOP + len(values) * (BAR + GAP) + BOTTOM
    floor = min(numbers) / 1.0001 if log else min(0.0, *numbers)  # no bar of no length
    left = max(LABELS, widest(bar.label for bar in values) + 2 * MARGIN)
    right = max(NUMBERS, widest(spell(bar.value) for bar in values) + 2 * MARGIN)
    width = _total(left, right, title, unit)
    across = Scale(floor, max(numbers), left, width - right, log=log)
    parts = _across(across, unit, TOP - 6, height - BOTTOM, width)
    for number, bar in enumerate(values):
        top = TOP + number * (BAR + GAP)
        middle = top + BAR / 2
        start, end = sorted((across(across.ticks[0] if log else 0.0), across(bar.value)))
        parts.append(draw_text(left - MARGIN, middle + 4, bar.label, anchor="end"))
        parts.append(
            f'<rect x="{start}" y="{top}" width="{round(end - start, 2)}" height="{BAR}" rx="2" '
            f'fill="{COLOURS[0]}" fill-opacity=".75"/>'
        )
        furthest = end
        if bar.low is not None and bar.high is not None:
            low, furthest = across(bar.low), max(end, across(bar.high))
            parts.append(draw_line(low, middle, across(bar.high), middle, "whisker"))
            parts += [
                draw_line(x, middle - 4, x, middle + 4, "whisker") for x in (low, across(bar.high))
            ]
        parts.append(draw_text(furthest + 6, middle + 4, spell(bar.value)))
    return make_svg(title, width, height, parts)


def lines(title: str, x: str, y: str, curves: Sequence[Line]) -> str:
    """Curves over the same axis; each has its name at its right end."""
    points = [point for curve in curves for point in curve.points]
    check_drawable(title, [n for point in points for n in point])
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
        parts.append(draw_dot(across(last[0]), down(last[1]), colour))
        ends.append((across(last[0]) + 8, down(last[1]) + 4, curve.label, colour))
    return make_svg(title, width, HEIGHT, [*parts, *draw_names(ends, width)])


def scatter(title: str, x: str, y: str, dots: Sequence[Dot], *, log_x: bool = False) -> str:
    """Points with their names beside them."""
    check_drawable(title, [n for dot in dots for n in (dot.x, dot.y)])
    check_drawable(title, [dot.x for dot in dots], positive=log_x)
    points = [(dot.x, dot.y) for dot in dots]
    labels = [dot.label for dot in dots]
    across, down, width, parts = _frame(points, title, x, y, labels, log_x=log_x)
    names = []
    for number, dot in enumerate(dots):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(draw_dot(across(dot.x), down(dot.y), colour))
        names.append((across(dot.x) + 8, down(dot.y) + 4, dot.label, colour))
    return make_svg(title, width, HEIGHT, [*parts, *draw_names(names, width)])


def _total(left: int, right: int, title: str, unit: str) -> int:
    """The width of an image with so much room on both sides, that title and unit fit into."""
    texts = max(width_of(title, TITLE), width_of(unit)) + 2 * MARGIN
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
    left = max(LEFT, widest(map(spell, down.ticks)) + 2 * MARGIN)
    right = max(RIGHT, widest(labels) + 3 * MARGIN)
    width = _total(left, right, title, x)
    across = Scale(min(xs), max(xs), left, width - right, log=log_x)
    parts = _across(across, x, TOP, HEIGHT - BOTTOM, width)
    for tick in down.ticks:
        at = down(tick)
        parts.append(draw_line(left, at, width - right, at, "grid"))
        parts.append(draw_text(left - MARGIN, at + 4, spell(tick), anchor="end", kind="quiet"))
    parts.append(draw_text(MARGIN, TOP - 8, y, kind="quiet"))
    return across, down, width, parts


def _across(scale: Scale, unit: str, top: float, bottom: float, width: int) -> list[str]:
    """Upright grid lines with their numbers, and what they count."""
    parts = []
    for tick in scale.ticks:
        parts.append(draw_line(scale(tick), top, scale(tick), bottom, "grid"))
        parts.append(
            draw_text(scale(tick), bottom + 18, spell(tick), anchor="middle", kind="quiet")
        )
    middle = (scale(scale.ticks[0]) + scale(scale.ticks[-1])) / 2
    half = width_of(unit) / 2 + MARGIN
    middle = min(max(middle, half), width - half)
    parts.append(draw_text(middle, bottom + 38, unit, anchor="middle", kind="quiet"))
    return parts
