"""Curves have few points, and all that matters of many."""

import math
import random
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.tasks.show.curves import BUCKETS, LARGEST, Chart, make_charts, make_curve
from naic.tasks.show.draw import WIDTH, draw_chart, draw_sheet
from naic.tasks.show.find import find
from tests.tasks.show.runs import LINES, make_run, training, validation

SVG = "{http://www.w3.org/2000/svg}"
ODD = '</text><script>alert(1)</script>\x07\u202e\ufffe"&]]>'
VALUES = st.floats(allow_nan=True, allow_infinity=True)


def texts(image: str) -> list[str]:
    root = ElementTree.fromstring(image)
    assert root.tag == f"{SVG}svg"
    return [element.text or "" for element in root.iter(f"{SVG}text")]


@given(st.lists(VALUES, min_size=1, max_size=700))
def test_extremes_and_ends_are_kept_and_points_are_few(ys: list[float]) -> None:
    curve = make_curve("c", [float(x) for x in range(len(ys))], ys)
    finite = [y for y in ys if abs(y) < LARGEST]
    if not finite:
        assert curve is None
        return
    assert curve is not None
    drawn = [point for point in curve.points if math.isfinite(point[1])]
    heights = [y for _, y in drawn]
    assert (min(heights), max(heights)) == (min(finite), max(finite))
    assert (drawn[0], drawn[-1]) == (curve.first, curve.last)
    assert (drawn[0][1], drawn[-1][1]) == (finite[0], finite[-1])
    assert len(drawn) <= 2 * BUCKETS + 2
    assert all(ys[int(x)] == y for x, y in drawn)
    assert all(a[0] <= b[0] for a, b in pairwise(curve.points))
    assert (curve.count, curve.broken) == (len(finite), len(ys) - len(finite))


@given(st.lists(VALUES, min_size=1, max_size=50), st.booleans())
def test_whatever_was_logged_can_be_drawn(ys: list[float], log: bool) -> None:
    curve = make_curve("c", [float(x) for x in range(len(ys))], ys)
    if curve is not None:
        log = log and curve.lowest[1] > 1 / LARGEST
        image = draw_chart(Chart("c", "C", "", "step", 50.0, (curve,), log, False, True))
        assert "nan" not in image
        assert len(texts(image)) < 30


def test_a_spike_among_many_points_is_seen() -> None:
    ys = [1.0] * 100_000
    ys[54_321] = 90.0
    curve = make_curve("c", [float(x) for x in range(len(ys))], ys)
    assert curve is not None
    assert curve.highest == (54_321.0, 90.0)
    assert curve.highest in curve.points


def test_what_is_noisy_is_smoothed_and_nothing_else() -> None:
    noise = random.Random(3)
    xs = [float(x) for x in range(1000)]
    falling = [math.exp(-x / 200) for x in xs]
    for ys, noisy in ((falling, False), ([y + noise.gauss(0, 0.1) for y in falling], True)):
        curve = make_curve("c", xs, ys)
        assert curve is not None
        assert bool(curve.smooth) == noisy
        off = [abs(y - math.exp(-x / 200)) for x, y in curve.smooth]
        assert max(off, default=0.0) < 0.1
    few = make_curve("c", xs[:20], [noise.random() for _ in range(20)])
    assert few is not None
    assert few.smooth == ()


def charts_of(folder: Path, lines: list[dict[str, Any]]) -> dict[str, Any]:
    return {chart.name: chart for chart in make_charts(find([make_run(folder, lines)]).runs)}


def test_values_that_belong_together_share_a_chart(tmp_path: Path) -> None:
    reward: dict[str, Any] = {
        "reward": 0.5,
        "baseline": 0.4,
        "loss_own": 1.0,
        "own": 2.0,
        "advantage_01": 1.0,
    }
    charts = charts_of(tmp_path, [training(5, **reward), training(10, **reward), validation(10, 1)])
    curves = {name: [curve.label for curve in chart.curves] for name, chart in charts.items()}
    assert curves == {
        "validation-cider": ["CIDEr"],
        "validation-repeats": ["repeats", "bad endings"],
        "training-loss": ["loss", "loss own"],
        "training-reward": ["reward", "baseline"],
        "training-gradient": ["gradient"],
        "training-learning-rate": ["learning rate"],
        "training-images-per-second": ["images a second"],
        "training-own": ["own"],
    }
    assert charts["validation-repeats"].curves[0].last == (10, 25.0)  # per cent
    assert charts["validation-cider"].curves[0].best == (10, 1)


def test_several_runs_over_each_other(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [training(20)])
    make_run(tmp_path / "b", [*LINES])
    charts = {chart.name: chart for chart in make_charts(find([tmp_path]).runs)}
    assert [curve.label for curve in charts["training-loss"].curves] == ["a", "b"]
    assert [curve.label for curve in charts["validation-cider"].curves] == ["b"]
    assert "2 b" in texts(draw_chart(charts["validation-cider"]))  # as in the other charts
    assert {chart.x for chart in charts.values()} == {"step"}
    assert {chart.until for chart in charts.values()} == {20.0}
    image = draw_chart(charts["training-loss"])
    assert {"1 a", "2 b", "step", "Training: loss"} <= set(texts(image))
    assert "b: from 3 at step 5 to 1.5 at 15, lowest 1.5, highest 3." in image


def test_runs_of_other_batches_are_drawn_over_epochs(tmp_path: Path) -> None:
    make_run(tmp_path / "a", [training(10), training(20)])
    make_run(tmp_path / "b", [training(10, per_epoch=5), training(20, per_epoch=5)])
    charts = make_charts(find([tmp_path]).runs)
    assert {(chart.x, chart.until) for chart in charts} == {("epoch", 4.0)}


def test_a_line_breaks_where_a_value_is_none(tmp_path: Path) -> None:
    losses = [1.0, 2.0, "nan", "inf", 3.0, 2.0]
    lines = [training(step, loss=loss) for step, loss in enumerate(losses, 1)]
    chart = charts_of(tmp_path, lines)["training-loss"]
    assert chart.curves[0].broken == 2
    root = ElementTree.fromstring(draw_chart(chart))
    pieces = [line.get("points", "").split() for line in root.iter(f"{SVG}polyline")]
    assert [len(piece) for piece in pieces] == [2, 2]


def test_steep_values_have_a_logarithmic_axis(tmp_path: Path) -> None:
    lines = [training(step, gradient=1e4 if step == 1 else 1.0) for step in range(1, 60)]
    charts = charts_of(tmp_path, lines)
    assert [name for name, chart in charts.items() if chart.log] == ["training-gradient"]
    assert "logarithmic" in texts(draw_chart(charts["training-gradient"]))


@pytest.mark.parametrize("runs", [1, 3, 25])
def test_all_is_within_the_image(tmp_path: Path, runs: int) -> None:
    for number in range(runs):
        lines = [training(1_000_000 * step, loss=1e6 / step) for step in range(1, 40)]
        make_run(tmp_path / f"a run with a long name, which is its {number}th", lines)
    for chart in make_charts(find([tmp_path]).runs):
        root = ElementTree.fromstring(draw_chart(chart))
        width, height = (float(number) for number in root.get("viewBox", "").split()[2:])
        assert width >= WIDTH
        for line in root.iter(f"{SVG}polyline"):
            for x, y in re.findall(r"([\d.-]+),([\d.-]+)", line.get("points", "")):
                assert 0 <= float(x) <= width
                assert 0 <= float(y) <= height
        looks = {
            (line.get("stroke"), line.get("stroke-dasharray"))
            for line in root.iter(f"{SVG}polyline")
        }
        assert len(looks) == min(runs, 21)


def test_hostile_names_are_text(tmp_path: Path) -> None:
    values: dict[str, Any] = {ODD: 1.0}
    make_run(tmp_path / "x" / "a</text><script>b\x07\u202e", [training(5, **values)], out="x")
    charts = make_charts(find([tmp_path]).runs)
    odd = charts[-1]
    assert re.fullmatch(r"[a-z0-9-]+", odd.name)
    sheet = draw_sheet("all", charts)
    assert "<script" not in sheet
    assert any("<script>alert(1)</script>\\x07\\u202e\\ufffe" in text for text in texts(sheet))


def test_a_sheet_has_all_charts_beside_each_other(tmp_path: Path) -> None:
    charts = make_charts(find([make_run(tmp_path)]).runs)
    root = ElementTree.fromstring(draw_sheet("mine", charts))
    inner = list(root.iter(f"{SVG}svg"))[1:]
    assert len(inner) == len(charts) > 2
    boxes = [[float(one.get(key, "")) for key in ("x", "y", "width", "height")] for one in inner]
    for i, (x, y, width, height) in enumerate(boxes):
        assert x + width <= float(root.get("width", ""))
        assert y + height <= float(root.get("height", ""))
        for to_x, to_y, *_ in boxes[i + 1 :]:
            assert to_x >= x + width or to_y >= y + height or to_x + 1 <= x
