"""Charts are images of their numbers: parsed back, the numbers are there."""

import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import ImageFont

from naic.errors import ConfigError
from naic.tasks.charts import HEIGHT, WIDTH, Bar, Dot, Line, bars, lines, scatter
from naic.tasks.drawing import Scale

WIDE = ImageFont.load_default(12)
SVG = "{http://www.w3.org/2000/svg}"
NUMBERS = st.floats(-1e6, 1e6).map(lambda value: round(value, 3))


def parse(text: str) -> ElementTree.Element:
    root = ElementTree.fromstring(text)
    assert root.tag == f"{SVG}svg"
    return root


def texts(root: ElementTree.Element) -> list[str]:
    return [element.text or "" for element in root.iter(f"{SVG}text")]


def test_bars_are_as_long_as_their_values() -> None:
    root = parse(bars("B", "CIDEr", [Bar("a", 50.0), Bar("b", 100.0, 90.0, 110.0)]))
    first, second = (float(rect.get("width", "")) for rect in root.iter(f"{SVG}rect"))
    assert second == pytest.approx(2 * first, abs=0.02)
    assert {"B", "a", "b", "50", "100", "CIDEr", "0"} <= set(texts(root))


def test_a_whisker_spans_the_interval() -> None:
    root = parse(bars("B", "", [Bar("a", 100.0, 90.0, 110.0), Bar("b", 50.0)]))
    whiskers = [e for e in root.iter(f"{SVG}line") if e.get("class") == "whisker"]
    assert len(whiskers) == 3  # one bar has them
    bar = next(iter(root.iter(f"{SVG}rect")))
    start, width = float(bar.get("x", "")), float(bar.get("width", ""))
    left, right = float(whiskers[0].get("x1", "")), float(whiskers[0].get("x2", ""))
    assert (left - start) / width == pytest.approx(0.9, abs=1e-3)
    assert (right - start) / width == pytest.approx(1.1, abs=1e-3)


def test_bars_below_zero_go_the_other_way() -> None:
    root = parse(bars("B", "", [Bar("a", -1.0), Bar("b", 1.0)]))
    (low, lower), (high, upper) = (
        (float(r.get("x", "")), float(r.get("width", ""))) for r in root.iter(f"{SVG}rect")
    )
    assert low + lower == pytest.approx(high, abs=0.02)
    assert lower == pytest.approx(upper, abs=0.02)


def test_logarithmic_bars() -> None:
    root = parse(bars("B", "", [Bar("a", 100.0), Bar("b", 10_000.0)], log=True))
    first, second = (float(rect.get("width", "")) for rect in root.iter(f"{SVG}rect"))
    assert second == pytest.approx(3 * first, rel=1e-3)  # from 10, the power below all values


def test_lines_rise_and_fall() -> None:
    rising, falling = Line("up", ((0, 1), (1, 2))), Line("down", ((0, 2), (1, 1)))
    root = parse(lines("L", "epoch", "CIDEr", [rising, falling]))
    (up, down) = (
        [tuple(map(float, point.split(","))) for point in line.get("points", "").split()]
        for line in root.iter(f"{SVG}polyline")
    )
    assert up[0][1] > up[1][1]  # pixels count downwards
    assert down[0][1] < down[1][1]
    assert {"up", "down", "epoch", "CIDEr"} <= set(texts(root))


def test_an_empty_curve_is_left_out_of_lines() -> None:
    root = parse(lines("L", "x", "y", [Line("none", ()), Line("one", ((0, 1),))]))
    assert len(list(root.iter(f"{SVG}polyline"))) == 1
    assert "none" not in texts(root)


def test_a_logarithmic_scatter_is_even_in_ratios() -> None:
    dots = [Dot("a", 1.0, 1.0), Dot("b", 10.0, 2.0), Dot("c", 100.0, 3.0)]
    root = parse(scatter("S", "ms", "CIDEr", dots, log_x=True))
    a, b, c = (float(circle.get("cx", "")) for circle in root.iter(f"{SVG}circle"))
    assert b - a == pytest.approx(c - b, abs=0.02)


def test_names_do_not_lie_over_each_other() -> None:
    dots = [Dot(f"+system {i}", 16.0, 100 + i / 100) for i in range(6)]
    root = parse(scatter("S", "", "", [*dots, Dot("far", 16.0, 0.0)]))
    heights = sorted(
        float(e.get("y", "")) for e in root.iter(f"{SVG}text") if (e.text or "").startswith("+")
    )
    gaps = [b - a for a, b in pairwise(heights)]
    assert min(gaps) >= 15


def test_names_are_text_and_no_markup() -> None:
    evil = '<script>alert("&")</script>'
    assert evil in texts(parse(bars(evil, evil, [Bar(evil, 1.0)])))


def test_they_suit_light_and_dark_pages() -> None:
    text = bars("B", "", [Bar("a", 1.0)])
    assert "prefers-color-scheme:dark" in text
    assert 'width="100%"' not in text  # no background of our own


@pytest.mark.parametrize(
    ("draw", "told"),
    [
        (lambda: bars("B", "", []), "there is nothing to draw"),
        (lambda: lines("L", "", "", [Line("a", ())]), "there is nothing to draw"),
        (lambda: scatter("S", "", "", [Dot("a", math.nan, 1.0)]), "a value is not finite"),
        (lambda: bars("B", "", [Bar("a", 1.0, 0.0, math.inf)]), "a value is not finite"),
        (lambda: bars("B", "", [Bar("a", 0.0)], log=True), "no place for 0"),
        (lambda: scatter("S", "", "", [Dot("a", -1.0, 1.0)], log_x=True), "no place for 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draw: object, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        draw()  # type: ignore[operator]


@given(st.lists(NUMBERS, min_size=1, max_size=8))
def test_all_is_within_the_image(values: list[float]) -> None:
    root = parse(scatter("S", "x", "y", [Dot("d", value, value) for value in values]))
    for circle in root.iter(f"{SVG}circle"):
        assert 0 <= float(circle.get("cx", "")) <= WIDTH
        assert 0 <= float(circle.get("cy", "")) <= HEIGHT


@given(NUMBERS, NUMBERS)
def test_a_scale_keeps_order_and_ends(one: float, other: float) -> None:
    low, high = sorted((one, other))
    scale = Scale(low, high, 10, 110)
    assert scale.ticks[0] <= low + 1e-6 * abs(low)
    assert scale.ticks[-1] >= high - 1e-6 * abs(high)
    assert scale(scale.ticks[0]) == 10
    assert scale(scale.ticks[-1]) == 110
    assert 9.9 <= scale(low) <= scale(high) <= 110.1


@pytest.mark.parametrize(
    "ends", [(36.0, 36.00000000000001), (0.0, 1e-14), (1e-13, 1e-13), (-3.00000000000001, -3.0)]
)
def test_a_scale_of_numbers_that_hardly_differ(ends: tuple[float, float]) -> None:
    scale = Scale(*ends, 10, 110)
    assert scale.ticks[0] < scale.ticks[-1]
    assert 10 <= scale(ends[0]) <= scale(ends[1]) <= 110


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_a_logarithmic_scale_keeps_order_and_ends(one: float, other: float) -> None:
    low, high = sorted((one, other))
    scale = Scale(low, high, 10, 110, log=True)
    assert len(scale.ticks) >= 2
    assert 9.9 <= scale(low) <= scale(high) <= 110.1


NAMES = ["teacher, beam 3, no cache", "ViT-B/16 and GPT-2, greedy, eager", "W" * 40, "i"]


def ends(root: ElementTree.Element) -> Iterator[tuple[float, float]]:
    """Where each text begins and ends, in a font as wide as the usual ones."""
    for text in root.iter(f"{SVG}text"):
        x, long = float(text.get("x", "")), WIDE.getlength(text.text or "")
        long *= 15 / 12 * 1.1 if text.get("class") == "title" else 1  # bold
        start = {"start": x, "middle": x - long / 2, "end": x - long}[text.get("text-anchor", "")]
        yield start, start + long


@pytest.mark.parametrize(
    "draw",
    [
        lambda: bars("B", "ms", [Bar(name, 1e6 * n) for n, name in enumerate(NAMES, 1)]),
        lambda: bars("B", "ms", [Bar(name, n) for n, name in enumerate(NAMES, 1)], log=True),
        lambda: lines("L", "x", "y", [Line(name, ((0, 1), (1, 1e6))) for name in NAMES]),
        lambda: scatter("S", "x", "y", [Dot(name, 1.0, -123456.0) for name in NAMES]),
        lambda: bars("A long title " * 12, "and a long unit " * 12, [Bar("a", 1.0)]),
    ],
)
def test_no_label_is_cut_off(draw: Callable[[], str]) -> None:
    root = parse(draw())
    width = float(root.get("width", ""))
    assert root.get("viewBox", "").split()[2] == root.get("width")
    for start, end in ends(root):
        assert 0 <= start <= end <= width
