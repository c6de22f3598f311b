"""Curves as SVG: small charts that a telephone shows too, and one image of all of them."""

import math
from collections.abc import Sequence
from xml.sax.saxutils import escape

from naic.tasks.drawing import (
    COLOURS,
    LINE,
    MARGIN,
    TITLE,
    Scale,
    draw_dot,
    draw_line,
    draw_names,
    draw_text,
    make_svg,
    spell,
    widest,
    width_of,
)
from naic.tasks.show.curves import Chart, Curve, Point

WIDTH, PLOT = 420, 170  # of a chart; of the plot within, from bottom to top
HEAD, FOOT, RIGHT = 32, 44, 28
KEY = 18  # of the legend: a bit of the line before each name
LONGEST, LONGEST_TITLE = 44, 60  # letters of a name
DASHES = ("", "7 3", "2 3")  # further runs have the same colours, and other lines
COLUMNS = 2
MOST_TICKS = 12  # numbers beside an axis


def draw_chart(chart: Chart) -> str:
    """A chart; each curve says its name when it is pointed at."""
    title = _short(chart.title, LONGEST_TITLE)
    width = max(WIDTH, width_of(title, TITLE) + 2 * MARGIN)
    head = [draw_text(MARGIN, HEAD + 6, _unit(chart), kind="quiet")] if _unit(chart) else []
    top = HEAD + LINE * len(head)
    keys, rows = _legend(chart, top, width)
    top += LINE * rows + MARGIN
    ys = [y for curve in chart.curves for y in (curve.lowest[1], curve.highest[1])]
    down = Scale(min(ys), max(ys), top + PLOT, top, log=chart.log)
    left = widest(map(spell, down.ticks)) + 2 * MARGIN
    across = Scale(0.0, chart.until, left, width - RIGHT)
    parts = head + keys + _axes(chart, across, down, top, width)
    ends = []
    for curve in chart.curves:
        parts.append(_draw_curve(curve, across, down, marked=chart.marked))
        x, y = (curve.smooth or (curve.last,))[-1]
        ends.append((across(x) + MARGIN, down(y) + 4, str(curve.number + 1), _colour(curve)))
    parts += draw_names(ends, width) if chart.legend else []
    return make_svg(title, width, top + PLOT + FOOT, parts, describe(chart))


def draw_sheet(title: str, charts: Sequence[Chart]) -> str:
    """All charts in one image, in rows."""
    images = [_Image(draw_chart(chart)) for chart in charts]
    parts, top, wide = list[str](), HEAD + MARGIN, 0
    for first in range(0, len(images), COLUMNS):
        left = 0
        for image in (row := images[first : first + COLUMNS]):
            parts.append(image.placed(left, top))
            left += image.width + 2 * MARGIN
        top += max(image.height for image in row) + 2 * MARGIN
        wide = max(wide, left - 2 * MARGIN)
    return make_svg(title, max(wide, width_of(title, TITLE) + 2 * MARGIN), top, parts)


def describe(chart: Chart) -> str:
    """What the chart shows, in words."""
    said = []
    for curve in chart.curves:
        (x, y), (to_x, to_y) = curve.first, curve.last
        said.append(
            f"{curve.label}: from {spell(y)} at {chart.x} {spell(x)} to {spell(to_y)} "
            f"at {spell(to_x)}, lowest {spell(curve.lowest[1])}, highest {spell(curve.highest[1])}."
        )
    return " ".join(said)


class _Image:
    """An image, to be put into a larger one."""

    def __init__(self, text: str) -> None:
        self._text = text
        box = text.partition('viewBox="')[2].partition('"')[0]
        self.width, self.height = (int(number) for number in box.split()[2:])

    def placed(self, left: int, top: int) -> str:
        return self._text.replace("<svg ", f'<svg x="{left}" y="{top}" ', 1)


def _unit(chart: Chart) -> str:
    return ", ".join([*[chart.unit] * bool(chart.unit), *["logarithmic"] * chart.log])


def _legend(chart: Chart, top: int, width: int) -> tuple[list[str], int]:
    """The names of the curves where it is needed, and how many rows they take."""
    if not chart.legend:
        return [], 0
    parts, left, row = list[str](), MARGIN, 1
    for curve in chart.curves:
        name = f"{curve.number + 1} {_short(curve.label)}"
        long = KEY + width_of(name) + 2 * MARGIN
        if left > MARGIN and left + long > width:
            left, row = MARGIN, row + 1
        height = top + LINE * row - MARGIN
        parts.append(_stroked(curve, [(left, height), (left + KEY - 4, height)]))
        parts.append(draw_text(left + KEY, height + 4, name))
        left += long
    return parts, row


def _short(name: str, longest: int = LONGEST) -> str:
    half = longest // 2
    return name if len(name) <= longest else f"{name[:half]}…{name[-half:]}"


def _axes(chart: Chart, across: Scale, down: Scale, top: int, width: int) -> list[str]:
    left, right, bottom = across(across.ticks[0]), width - RIGHT, top + PLOT
    parts = []
    for tick in down.ticks[:: -(-len(down.ticks) // MOST_TICKS)]:
        parts.append(draw_line(left, down(tick), right, down(tick), "grid"))
        parts.append(
            draw_text(left - MARGIN, down(tick) + 4, spell(tick), anchor="end", kind="quiet")
        )
    for tick in across.ticks:
        at = "end" if tick == across.ticks[-1] else "middle"  # beyond it are the curves' numbers
        parts.append(draw_line(across(tick), top, across(tick), bottom, "grid"))
        parts.append(draw_text(across(tick), bottom + 16, _brief(tick), anchor=at, kind="quiet"))
    middle = (left + right) / 2
    parts.append(draw_text(middle, bottom + 34, chart.x, anchor="middle", kind="quiet"))
    return parts


def _brief(value: float) -> str:
    """As short as it can be: 200k, 1.5M."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return spell(value)


def _draw_curve(curve: Curve, across: Scale, down: Scale, *, marked: bool) -> str:
    parts, colour = [f"<g><title>{escape(curve.label)}</title>"], _colour(curve)
    faint = bool(curve.smooth)
    for piece in _pieces(curve.points):
        places = [(across(x), down(y)) for x, y in piece]
        parts.append(_stroked(curve, places, faint=faint))
        parts += [draw_dot(x, y, colour, 2.5) for x, y in places if marked or len(places) == 1]
    if curve.smooth:
        parts.append(_stroked(curve, [(across(x), down(y)) for x, y in curve.smooth]))
    if curve.best is not None:
        x, y = across(curve.best[0]), down(curve.best[1])
        parts.append(draw_dot(x, y, colour, 5))
    return "\n".join([*parts, "</g>"])


def _pieces(points: Sequence[Point]) -> list[list[Point]]:
    """The points between the breaks."""
    pieces: list[list[Point]] = [[]]
    for point in points:
        if math.isfinite(point[1]):
            pieces[-1].append(point)
        elif pieces[-1]:
            pieces.append([])
    return [piece for piece in pieces if piece]


def _stroked(curve: Curve, places: Sequence[Point], *, faint: bool = False) -> str:
    dash = DASHES[curve.number // len(COLOURS) % len(DASHES)]
    look = f'stroke="{_colour(curve)}" stroke-linejoin="round"'
    look += ' stroke-width="1" stroke-opacity=".35"' if faint else ' stroke-width="2"'
    look += f' stroke-dasharray="{dash}"' if dash else ""
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    return f'<polyline points="{points}" fill="none" {look}/>'


def _colour(curve: Curve) -> str:
    return COLOURS[curve.number % len(COLOURS)]
