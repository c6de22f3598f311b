"""Kills on the real loop with two processes: `tests/train/kill.py` has the trials."""

from pathlib import Path

import pytest

from tests.train.kill import trials


def check(count: int, seed: int, folder: Path, most: int) -> None:
    result = trials(count, seed, folder, most)
    assert result["different_files"] == {}
    assert result["identical"] == count
    for trial in range(count):
        assert sum(kill["trial"] == trial for kill in result["kills"]) >= 2
    assert result["phases"]["save"] * 3 >= len(result["kills"])
    assert result["slowest_end"] < 60


def test_killed_runs_end_like_the_unbroken_one(tmp_path: Path) -> None:
    check(2, seed=1, folder=tmp_path, most=2)


@pytest.mark.slow
def test_twenty_trials(tmp_path: Path) -> None:
    check(20, seed=0, folder=tmp_path, most=4)
