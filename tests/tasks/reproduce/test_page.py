"""The page of docs/results that is made from a run's files, and how these are collected."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from naic.train.logs import read_metrics

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "results" / "ladder_page.py"
COLLECT = ROOT / "benchmarks" / "ladder_files.py"


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def page(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that makes the page, and the files of a run beside it."""
    monkeypatch.syspath_prepend(PAGE.parent)
    module = load(PAGE)
    monkeypatch.setattr(sys, "argv", ["x", str(whole), "--out", str(tmp_path / "micro")])
    load(COLLECT).main()
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


def test_it_holds_the_tables_and_the_verdicts(page: ModuleType, whole: Path) -> None:
    text = page.ladder("micro")
    for name in ("table1", "table3", "table4", "table5", "table_fill"):
        table = (whole / f"{name}.md").read_text().partition("\n\n")[2]
        assert table in text
    rows = {row["system"]: row for row in json.loads((whole / "table1.json").read_text())}
    low, high = (rows[name]["CIDEr"] for name in ("NAIC-base", "+KD"))
    verdict = "yes" if low < high else "**no**"
    assert f"| NAIC-base < +KD | {100 * low:.1f} and {100 * high:.1f} | {verdict} |" in text
    assert "| `naic-cmal` |" in text
    assert "![ladder](micro/figures/ladder.svg)" in text
    assert "![baselines-scratch](micro/figures/baselines-scratch.svg)" in text


def test_what_the_baselines_had_learnt_on_the_way(page: ModuleType, whole: Path) -> None:
    """Each validation of a run is a column; of several seeds it is the mean."""
    own = [
        100 * float(line["cider"])
        for line in read_metrics(whole / "naic-cmal-none")
        if "cider" in line
    ]
    values = " | ".join(f"{value:.1f}" for value in own)
    assert f"| weight-init, none | {values} |" in page.ladder("micro")


@pytest.mark.parametrize(
    ("spread", "interval", "verdict"),
    [
        ((0.1, 0.1), None, "yes, too close to tell"),
        ((0.05, 0.05), None, "yes"),
        ((None, None), [0.9, 1.3], "yes, too close to tell"),
        ((None, 0.5), [0.95, 1.05], "yes"),  # the teacher has one seed: images decide
        ((None, None), None, "yes"),
    ],
)
def test_a_verdict_knows_the_spread(
    spread: tuple[Any, Any], interval: list[float] | None, verdict: str
) -> None:
    order = load(PAGE.parent / "claims.py").order
    rows = {
        name: {
            "CIDEr": cider,
            "spread": {} if own is None else {"CIDEr": own},
            "intervals": {"CIDEr": interval},
        }
        for name, cider, own in zip(("a", "b"), (1.0, 1.1), spread, strict=True)
    }
    assert order(rows, "a", "b")[2] == verdict
    rows["b"]["CIDEr"] = 0.9
    assert order(rows, "a", "b")[2] == verdict.replace("yes", "**no**")


def test_the_mean_of_several_seeds() -> None:
    curve = load(COLLECT).mean_curve([[(0.0, 10.0), (1.0, 20.0)], [(0.0, 30.0), (1.0, 60.0)]])
    assert curve == ((0.0, 20.0), (1.0, 40.0))


def test_the_variance_of_the_gradient(page: ModuleType, tmp_path: Path) -> None:
    found: dict[str, Any] = {
        "command": "python x",
        "batches": 2,
        "batch": 8,
        "samplings": 4,
        "samples": 2,
        "topk": 2,
        "parameters": 10,
        "baselines": {
            "none": {"variance": 10.0, "relative": 50.0, "relatives": [40.0, 60.0]},
            "cf": {"variance": 1.0, "relative": 5.0, "relatives": [4.0, 6.0]},
        },
    }
    (tmp_path / "micro" / "gradient-variance.json").write_text(json.dumps(found))
    assert "| cf | 1 | 5 |" in page.ladder("micro")
    assert page.variance_figure("micro").count("<rect") == 2
