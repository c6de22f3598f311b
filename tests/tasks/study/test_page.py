"""docs/results/student.md: made of a study's file, and nothing where there is none."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PAGES: Callable[[Path], dict[str, Callable[[], str]]] = runpy.run_path(
    str(ROOT / "docs/results/student_page.py")
)["student_pages"]
GATHERED: Callable[[Path, str | None], dict[str, Any]] = runpy.run_path(
    str(ROOT / "benchmarks/study_files.py")
)["gathered"]


def more(value: float, width: float = 0.004) -> dict[str, float]:
    return {"value": value, "low": value - width, "high": value + width}


def row(system: str, folder: str, cider: float, **over: Any) -> dict[str, Any]:
    figures = {"CIDEr": cider, "Bleu_4": 0.38, "METEOR": 0.285, "ROUGE_L": 0.58, "SPICE": None}
    return {
        "system": system,
        "folder": folder,
        **figures,
        "repeats": 0.004,
        "bad_endings": 0.0,
        "facts": None,
        "vocabulary": 512,
        "entropy": 0.05,
        "seconds": 600.0,
        "steps": 6019,
        "best_step": 6019,
        "device": "a card",
        "changes": {},
        "latency_ms": None,
        "rescored": 0,
        **over,
    }


def write_run(folder: Path) -> Path:
    """A study as `naic reproduce --study` leaves it, on a machine of its own."""
    gains = {"CIDEr": more(0.09), "Bleu_4": more(0.012), "METEOR": more(0.003)}
    all_gains = {"CIDEr": more(0.1), "Bleu_4": more(0.02), "METEOR": more(0.005)}
    rows = [
        row("start", "start", 1.21, entropy=None, seconds=None, steps=None, device=None),
        row("plain", "plain", 1.26, gap={"CIDEr": more(-0.058)}, from_start=gains),
        row("nothing", "nothing", 1.261, difference={"CIDEr": more(0.001)}),
        row("worse", "worse", 1.2, difference={"CIDEr": more(-0.06)}),
        row(
            "both",
            "both",
            1.3,
            difference={"CIDEr": more(0.04)},
            gap={"CIDEr": more(-0.018)},
            from_start=gains,
            over_start=all_gains,
            changes={"cmal.topk": 5},
            latency_ms=4.9,
        ),
        row("both + rescore 5", "both", 1.32, gap={"CIDEr": more(0.002)}, rescored=5, latency_ms=9),
        row("teacher, beam 3", "teacher", 1.318, latency_ms=40.1),
    ]
    study = {
        "study": "study.toml",
        "command": "naic reproduce --study study.toml --out /home/me/runs/out",
        "compare_with": "plain",
        "start": "/home/me/runs/kd/best",
        "splits": {"val": {"images": 4392, "rows": rows}},
        "people": {"val": {"bad_endings": 0.001, "repeats": 0.0}},
    }
    (folder / "both").mkdir()
    (folder / "study.json").write_text(json.dumps(study))
    note = {"runs": {"train": {"config": 'stage = "cmal"\nout = "/home/me/runs/both"\n'}}}
    (folder / "both" / "run.json").write_text(json.dumps(note))
    return folder


def test_without_studies_there_is_no_page(tmp_path: Path) -> None:
    assert PAGES(tmp_path) == {}


def test_the_page_of_a_study(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "student").mkdir()
    found = GATHERED(write_run(tmp_path / "run"), "both")
    assert "/home" not in json.dumps(found)
    (tmp_path / "student" / "levers.json").write_text(json.dumps(found))
    text = PAGES(tmp_path)["student.md"]()
    claims = [line for line in text.splitlines() if line.endswith(("| yes |", "| **no** |"))]
    found_yes = [line.endswith("yes |") for line in claims]
    assert found_yes == [False, True, True, True, True, False, True, True]
    assert "| both, from the student that all begin with | +10.0 (+9.6 to +10.4) |" in text
    assert "| plain, from the student that all begin with |" not in text
    assert (
        "| both + rescore 5 | 132.0 | 38.0 | 28.5 | 58.0 | n/a | +0.2 (-0.2 to +0.6) | 9.00 |"
        in text
    )
    assert "| the paper, on `test` | +8.5 | +2.0 | +0.8 |" in text
    assert "- More CIDEr than 'plain': both (+4.0).\n" in text
    assert "- Less CIDEr than 'plain': worse (-6.0).\n" in text
    assert "images: nothing (+0.1).\n" in text
    assert '```toml\nstage = "cmal"' in text
    assert "As it ships" not in text
    habits = {"captions": {"repeats": 0.003, "bad_endings": 0.0, "vocabulary": 530}}
    scored = {"CIDEr": 1.29, "habits": habits, "signature": {"images": 2407}}
    (tmp_path / "student" / "shipped-test.json").write_text(json.dumps(scored))
    text = PAGES(tmp_path)["student.md"]()
    assert "| `test` | 2,407 |" in text
    assert "| 129.0 | n/a | 0.30 | 0.00 | 530 |" in text


def test_a_study_may_be_there_for_its_table_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "student").mkdir()
    found = GATHERED(write_run(tmp_path / "run"), None)
    (tmp_path / "student" / "more.json").write_text(json.dumps(found))
    text = PAGES(tmp_path)["student.md"]()
    assert "| worse |" in text
    assert "What was asked for" not in text
    with pytest.raises(SystemExit, match="there is no row 'bset'"):
        GATHERED(tmp_path / "run", "bset")
