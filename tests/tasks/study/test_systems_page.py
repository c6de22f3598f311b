"""docs/results/systems.md: of a table that is not finished, too; nothing where there is none."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.study.test_page import more, row

ROOT = Path(__file__).parents[3]
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(ROOT / "docs/results"))
    SCRIPT = runpy.run_path(str(ROOT / "docs/results/systems_page.py"))
PAGES: Callable[[Path], dict[str, Callable[[], str]]] = SCRIPT["systems_pages"]


def timed(milliseconds: float, passes: int = 11) -> dict[str, Any]:
    own = {"median_ms": milliseconds, "images_per_second": 1000 / milliseconds}
    failed = {"failed": "RuntimeError: no room"}
    times = {"graph": {"1": own, "64": own}, "eager": {"1": own, "64": failed}}
    return {"passes": passes, "parameters": 12_300_000, "times": times}


def study(**over: Any) -> dict[str, Any]:
    ends = {"CIDEr": [1.0, 1.04], "SPICE": [0.2, 0.21]}
    figures = {"intervals": ends, "Bleu_1": 0.75, "Bleu_2": 0.6, "Bleu_3": 0.5}
    rows = [
        row("NIC, beam 3", "nic", 0.9, **figures),
        row("Up-Down, beam 3", "up-down", 1.02, difference={"CIDEr": more(-0.08)}, **figures),
        row("AIC, beam 3", "aic", 1.1, **figures),
        row("NAIC-base", "naic-base", 0.6, **figures),
        row("MNIC", "mnic", 0.5, **figures),
    ]
    speeds = {"NIC, beam 3": timed(2.0), "Up-Down, beam 3": timed(4.0)}
    speeds |= {"AIC, beam 3": timed(3.0), "NAIC-base": timed(0.6, 1), "MNIC": timed(1.2, 4)}
    machine = {"device": "a card", "packages": {"torch": "2.13"}}
    speed = {"words": 11, "precision": "float16", "runtimes": ["graph", "eager"]}
    return {
        "study": "systems.toml",
        "command": "naic reproduce --study systems.toml --out out",
        "compare_with": "AIC",
        "splits": {split: {"images": 100, "rows": rows} for split in ("test", "val")},
        "people": {"test": {"bad_endings": 0.001, "repeats": 0.0}},
        "left_out": ["FNIC", "VSUA"],
        "speed": {**speed, "machine": machine, "rows": speeds},
        **over,
    }


def pages(folder: Path, **over: Any) -> dict[str, str]:
    (folder / "systems").mkdir()
    (folder / "systems" / "systems.json").write_text(json.dumps(study(**over)))
    return {name: make() for name, make in PAGES(folder).items()}


def test_without_a_table_there_is_no_page(tmp_path: Path) -> None:
    assert PAGES(tmp_path) == {}


def test_the_page_of_a_table_that_is_not_finished(tmp_path: Path) -> None:
    text = pages(tmp_path)["systems.md"]
    assert "Not run yet: FNIC, VSUA.\n" in text
    assert text.count("| FNIC | not run |") == 4  # quality of both splits, time, beside the paper
    assert "\n50 minutes of runs (5 of them" in text
    assert (
        "| Up-Down, beam 3 | 75.0 | 60.0 | 50.0 | 38.0 | 28.5 | 58.0 | 102.0 (100.0 to 104.0) | -8."
        in text
    )
    assert "| NAIC-base | 1 | 12.3 | 0.60 | 1,667 | 0.60 | n/a | 10.0 |" in text
    assert "is both faster and better: NIC, beam 3, AIC, beam 3, NAIC-base." in text
    assert "| NIC, beam 3 | 75.0 | 38.0 [32.1] | 28.5 [25.7] | 58.0 | 90.0 [99.8] | n/a |" in text
    assert "| FNIC | not run | not run [36.2]" in text
    assert "61 ms, 2.8×" in text
    assert (
        "| NIC, beam 3 < Up-Down, beam 3 < AIC, beam 3 | 90.0 and 102.0 and 110.0 | yes |" in text
    )
    assert "| NAIC-base < MNIC < AIC, beam 3 | 60.0 and 50.0 and 110.0 | **no** |" in text
    assert "| NAIC-base < FNIC < AIC, beam 3 | 60.0 and 110.0 | not run |" in text


def test_the_chart_marks_the_front(tmp_path: Path) -> None:
    chart = pages(tmp_path)["systems/front.svg"]
    assert "NAIC-base (front)" in chart
    assert "Up-Down, beam 3<" in chart
    assert "graph, a card" in chart


def test_a_table_without_times_has_no_chart(tmp_path: Path) -> None:
    found = pages(tmp_path, speed={})
    assert list(found) == ["systems.md"]
    assert "Passes, size and time" not in found["systems.md"]


@pytest.mark.parametrize("name", ["shapes", "coco"])
def test_rows_beside_a_paper_are_rows_of_ours(name: str) -> None:
    text = (ROOT / "configs" / name / "systems.toml").read_text()
    for row_name in SCRIPT["PAPERS"]:
        assert f'name = "{row_name.removesuffix(", beam 3")}"' in text
