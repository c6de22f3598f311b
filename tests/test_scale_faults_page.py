"""The page says what came of the trials, and what has not been tried."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parents[1] / "docs" / "results"
faults: Callable[[dict[str, Any] | None], str] = runpy.run_path(
    str(RESULTS / "scale_faults_page.py")
)["faults"]


def found(identical: bool = True) -> dict[str, Any]:
    same = {"shards": 12, "identical": identical, "different": [], "halves": 0}
    return {
        "command": "python -m benchmarks.scale_faults",
        "machine": {"device": "cpu", "cores": 2, "processor": "a processor"},
        "versions": {"ray": "2.60.0"},
        "shards": 12,
        "images": 1200,
        "two workers": same,
        "workers killed": same | {"kills": 3, "told": 2},
        "head killed": same
        | {"exit code": 1, "said": "", "seconds until it was said": 8.7, "shards before": 4},
        "shard damaged": same | {"exit code": 3, "named": "005.tar: cut.", "shards": 11},
        "runs to a bucket killed": {"kills": 11, "buckets": 4, "identical": identical},
    }


def test_what_has_not_run_is_named_with_its_command() -> None:
    assert "Not run yet: `python -m benchmarks.scale_faults --out docs/" in faults(None)


def test_what_came_of_the_trials() -> None:
    text = faults(found())
    assert text.count("| yes |") == 5
    assert "killed 3 times | all shards" in text
    assert "killed after 4 shards | exit code 1" in text
    assert "| exit code 3, 11 shards |" in text
    assert "killed 11 times with all its processes (4 buckets)" in text
    assert "A half-written file was left in\nnone of these folders" in text


def test_what_differs_is_told() -> None:
    broken = json.loads(json.dumps(found(identical=False)))
    broken["two workers"]["halves"] = 2
    text = faults(broken)
    assert text.count("| **no** |") == 5
    assert "left in\n1 of these folders" in text
