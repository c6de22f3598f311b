"""The part of docs/results/light.md about confidences: it says what was measured, and no more."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from benchmarks.calibrate import compare, fit

from tests.test_calibrate import overconfident

ROOT = Path(__file__).parent.parent
PAGE = runpy.run_path(str(ROOT / "docs/results/light_calibration.py"))
PART: Callable[[dict[str, Any]], str] = PAGE["calibration_part"]
CHART: Callable[[dict[str, Any]], str] = PAGE["calibration_chart"]


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    captions = overconfident(2000)
    found = compare(captions, {name: fit(captions.half(name)) for name in ("even", "odd")})
    about = {"command": "it", "threshold": 0.411, "quantile": 0.25, "scored_images": 5000}
    about |= {"nouns": 4740, "people_right": 0.36, "sure": 0.8}
    return {
        **about,
        "map": {"slope": 0.5, "intercept": -1.0},
        "captions": found,
        "checks": {"int8": found},
    }


def test_it_tells_both_halves_before_and_after(run: dict[str, Any]) -> None:
    text = PART(run)
    assert "- logit" not in text
    assert "(0.5000 · logit p -1.0000)" in text
    table = [line for line in text.splitlines() if line.startswith(("| even, ", "| odd, "))]
    assert len(table) == 4
    before = run["captions"]["halves"]["even"]["before"]
    cells = table[0].split(" | ")
    assert cells[0] == "| even, probability"
    assert cells[2] == f"{before['ece']:.3f}"
    assert cells[7] == f"{100 * before['wrong_of_above']:.1f} %"
    checks = [line for line in text.splitlines() if line.startswith("| int8: ")]
    assert [line.split(" | ")[1:] for line in checks] == [line.split(" | ")[1:] for line in table]
    assert "int8" not in PART(run | {"checks": {}})
    widths = {line.count("|") for line in text.splitlines() if line[:3].strip("| ").isdigit()}
    assert widths == {10}


def test_what_was_set_beforehand_is_judged_by_the_worse_half(run: dict[str, Any]) -> None:
    halves = run["captions"]["halves"]
    for worse, verdict in ((0.049, "yes"), (0.051, "**no**")):
        after = {"even": 0.01, "odd": worse}
        changed = {
            name: half | {"after": half["after"] | {"ece": after[name]}}
            for name, half in halves.items()
        }
        text = PART(run | {"captions": run["captions"] | {"halves": changed}})
        assert f"| 0.010 and {worse} | {verdict} |" in text


def test_the_chart_has_both_curves_of_both_halves(run: dict[str, Any]) -> None:
    chart = CHART(run)
    assert chart.count("<polyline") == 5
    for name in ("probability, even", "confidence, odd", "as it should be"):
        assert name in chart
