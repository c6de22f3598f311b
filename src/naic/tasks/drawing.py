"""What charts are drawn with, as SVG text: scales, strokes, names that do not lie on each other."""

import math
from collections.abc import Iterable, Sequence
from xml.sax.saxutils import escape

from naic.errors import ConfigError

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


def check_drawable(title: str, numbers: Sequence[float], *, positive: bool = False) -> None:
    """What cannot be drawn must not become an image that looks like a result."""
    if not numbers:
        raise ConfigError(f"the chart {title!r}", "there is nothing to draw", "Give it values.")
    if not all(map(math.isfinite, numbers)):
        raise ConfigError(f"the chart {title!r}", "a value is not finite", "Leave it out.")
    if positive and min(numbers) <= 0:
        why = "a logarithmic axis has no place for 0 or less"
        raise ConfigError(f"the chart {title!r}", why, "Draw it on a plain axis.")


def width_of(text: str, size: int = TEXT) -> int:
    """Pixels that a text takes, in the widest of the usual fonts."""
    letters = sum(
        0.4 if sign in " iIjl.,:;'|!()[]" else 1.0 if sign in "mMwW%@" or sign > "\u2fff" else 0.7
        for sign in text
    )
    return math.ceil(size * letters)


def widest(labels: Iterable[str]) -> int:
    """The pixels of the longest of them."""
    return max(map(width_of, labels), default=0)


def draw_names(wanted: Sequence[tuple[float, float, str, str]], width: int) -> list[str]:
    """Names at their places in their colours, moved down where two would lie over each other."""
    parts: list[str] = []
    placed: list[tuple[float, float, float]] = []  # left, right, height
    for x, y, label, colour in sorted(wanted, key=lambda item: (item[1], item[2])):
        left = min(x, width - MARGIN - width_of(label))
        right = left + width_of(label)
        below = y
        for start, end, at in placed:  # from the top downwards
            if left < end and start < right and below < at + LINE:
                below = at + LINE
        placed.append((left, right, below))
        parts.append(draw_text(left, below, label, colour=colour))
    return parts


_LEAST_STEP = 1e-300


def _round_step(step: float) -> float:
    """The next of 1, 2, 5 times a power of ten, but no number that is as good as 0."""
    step = max(step, _LEAST_STEP)
    power = 10.0 ** math.floor(math.log10(step))
    return next(n * power for n in (1.0, 2.0, 5.0, 10.0) if n * power >= step * (1 - 1e-9))


def spell(value: float) -> str:
    """Three or four figures; what is very large or small as a power."""
    if value and not 1e-3 <= abs(value) < 1e7:
        return f"{value:.2g}"
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def draw_text(
    x: float, y: float, text: str, *, anchor: str = "start", kind: str = "", colour: str = ""
) -> str:
    """A line of text, which is never markup."""
    look = f' class="{kind}"' if kind else ""
    look += f' style="fill:{colour}"' if colour else ""  # an attribute would yield to the style
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{look}>{escape(text)}</text>'


def draw_line(x: float, y: float, to_x: float, to_y: float, kind: str) -> str:
    """A straight line."""
    return f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" class="{kind}"/>'


def draw_dot(x: float, y: float, colour: str, radius: float = 4) -> str:
    """A filled circle."""
    return f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{colour}"/>'


def make_svg(title: str, width: int, height: int, parts: Sequence[str], described: str = "") -> str:
    """The whole image; what it shows can be told to those who do not see it."""
    inner = "\n".join(parts)
    told = f"\n<desc>{escape(described)}</desc>" if described else ""
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" \
width="{width}" height="{height}" role="img">
<title>{escape(title)}</title>{told}
<style>{STYLE}</style>
{draw_text(MARGIN, 20, title, kind="title")}
{inner}
</svg>
"""
