"""A reproduction that is killed for good, again and again, by the kernel."""

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.tasks.reproduce.micro import write_preset

KILLS = 8


def run(folder: Path, preset: Path, seconds: float | None = None) -> int | None:
    """The command in a folder; None if it was killed after so many seconds."""
    words = ["reproduce", "--preset", str(preset), "--out", "out", "--device", "cpu", "--fast"]
    with subprocess.Popen(
        [sys.executable, "-m", "naic", *words],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            return None


def figures(folder: Path) -> list[dict[str, Any]]:
    rows = json.loads((folder / "out" / "table1.json").read_text())
    return [{k: v for k, v in row.items() if k not in ("latency_ms", "speedup")} for row in rows]


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_with_the_same_table(tmp_path: Path) -> None:
    preset = write_preset(tmp_path / "preset")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    assert run(whole, preset) == 0
    moment = random.Random(5)
    ends = [run(broken, preset, moment.uniform(4, 9)) for _ in range(KILLS)]
    assert {*ends} <= {None, 0}
    assert None in ends
    assert run(broken, preset) == 0
    assert figures(broken) == figures(whole)
    for path in (whole / "out" / "captions").iterdir():
        assert (broken / "out" / "captions" / path.name).read_bytes() == path.read_bytes()
