"""The page of docs/results/scale.md says what has run, and what has not."""

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "docs" / "results"
scale: Callable[[dict[str, Any]], str] = runpy.run_path(str(RESULTS / "scale_page.py"))["scale"]


def run(images: int = 1_000_000) -> dict[str, Any]:
    return {
        "command": "python benchmarks/scale.py",
        "machine": {"device": "cpu", "cores": 2, "processor": "a processor"},
        "workers": 0,
        "shards": 1000,
        "images": images,
        "bytes of an image": 15_000,
        "seconds until a shard is read": 1.25,
        "seconds": images / 500,
        "seconds of processors": images / 250,
        "images a second": 500.0,
        "parts": [{"seconds": 200.0, "peak MiB": 300}] * 10,
        "samples": [],
    }


def test_what_has_not_run_is_named_with_its_command() -> None:
    text = scale({})
    assert text.count("This has not been run yet: `python benchmarks/scale.py") == 2
    assert "hours for a million" not in text


def test_a_million_images_in_hours() -> None:
    text = scale({"tiny": run()})
    assert "| tiny | 2 cores of a processor | 500 | **0.56** | 1.11 |" in text
    assert text.count("| 200.0 | 300 |") == 10
    assert text.count("has not been run yet") == 1
    assert "A short run" not in text


def test_a_short_run_is_called_so() -> None:
    assert "A short run" in scale({"tiny": run(1000)})
    assert "A short run" not in scale({"shipped": run(1000)})


def test_other_runs_have_their_place() -> None:
    assert "Another run: h200" in scale({"h200": run(1000)})
