"""docs/results/house.md and the scripts behind it: two commits side by side."""

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
HOUSE: Callable[[dict[str, Any], dict[str, Any]], str] = runpy.run_path(
    str(ROOT / "docs/results/house_page.py")
)["house"]
MADE = {"old": "0c4671d", "new": "abc1234", "machine": "two cores"}


def size(files: int) -> dict[str, Any]:
    function = ["naic/a.py: long", 50]
    return {
        "files": files,
        "lines": 10_000,
        "median_file": 100,
        "longest_file": ["naic/a.py", 300],
        "files_over_300": 0,
        "functions": 7,
        "median_function": 8.0,
        "longest_function": function,
    }


def run(**parts: Any) -> dict[str, Any]:
    return {**parts, "made": dict.fromkeys(parts, MADE)}


def test_only_what_was_measured_is_on_the_page() -> None:
    text = HOUSE(run(sizes={"old": size(219), "new": size(150)}), {})
    assert "| Python files in `src` | 219 | 150 |" in text
    assert "| longest file | 300 (`naic/a.py`) | 300 (`naic/a.py`) |" in text
    assert "| longest function | 50 (`long`) | 50 (`long`) |" in text
    assert "Commits 0c4671d and abc1234; two cores." in text
    assert "## Speed" not in text


def test_files_that_are_entered() -> None:
    sides = {"old": ["a.py", "b.py", "c.py"], "new": ["a.py", "b.py"]}
    text = HOUSE(run(entered=dict.fromkeys(("caption", "train", "reproduce"), sides)), {})
    assert "| `naic caption` of one image | 3 | 2 | -33 % |" in text
    assert "A caption now enters: `a.py`, `b.py`." in text


@pytest.mark.parametrize(
    ("new", "verdict"), [([10.5, 11.0], "within"), ([20, 20], "**beyond**"), ([5, 5], "faster")]
)
def test_a_ratio_is_told_with_its_noise(new: list[float], verdict: str) -> None:
    times = {"old": [10.0, 11.0], "new": new}
    text = HOUSE(run(speed=dict.fromkeys(("caption", "teacher_xe", "cmal"), times)), {})
    assert "| 10.5 (10 to 11) ms |" in text
    assert text.count(f"| ±9.5 % | {verdict} |") == 3
    about = {"device": "a card", "packages": {"torch": "2.13"}}
    rows = {"NAIC, parallel, float16": times, "teacher, greedy": times}
    gpu = {"commits": MADE, "machine": about, "runtime": "graph", "times": {"shipped": rows}}
    text = HOUSE(run(speed=dict.fromkeys(("caption", "teacher_xe", "cmal"), times)), gpu)
    assert f"| ±9.5 % | {verdict} |" in text[text.index("shipped: NAIC, parallel") :]
    assert "teacher, greedy" not in text


def test_what_changed_is_named() -> None:
    captions = {"images": 3, "equal": 2, "confidence_apart": 0.5, "different": [["x", "a", "b"]]}
    checks = [{"what": "a store is read", "holds": True}, {"what": "a model", "holds": False}]
    text = HOUSE(run(captions=captions, stores=checks), {})
    assert "**2 of 3 captions" in text
    assert "| x | a | b |" in text
    assert "| a store is read | yes |\n| a model | **no** |" in text


def test_one_side_lists_the_files_it_enters(tmp_path: Path) -> None:
    sources, out = ROOT / "src", tmp_path / "entered.json"
    side = str(ROOT / "benchmarks" / "house_side.py")
    command = [sys.executable, "-P", side, str(sources), "entered", str(out), "--version"]
    environment = os.environ | {"PYTHONPATH": str(sources)}
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("naic ")
    files = json.loads(out.read_text())
    assert "cli/main.py" in files
    assert all((sources / "naic" / name).is_file() for name in files)
    command[3] = str(tmp_path)
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert f"not of {tmp_path}" in ran.stderr


def test_two_commits_can_be_compared(tmp_path: Path) -> None:
    out = tmp_path / "house.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "house.py"), "--old", ".", "--new", "."]
    subprocess.run([*command, "--parts", "sizes", "--out", str(out)], check=True)
    found = json.loads(out.read_text())
    assert found["sizes"]["old"] == found["sizes"]["new"]
    assert found["sizes"]["new"]["files"] > 100
