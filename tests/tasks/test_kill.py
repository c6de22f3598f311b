from pathlib import Path

import pytest

from tests.tasks.kill import trials


def check(kills: int, seed: int, folder: Path) -> None:
    struck, identical = trials(kills, seed, folder)
    for kill in struck:
        print(f"killed after {kill.seconds:6.3f} s: {kill.hit}; {kill.shards} shards whole")
    assert len(struck) >= kills
    assert identical
    assert all(identical.values()), identical
    assert sum("writing" in kill.hit for kill in struck) >= len(struck) // 3


def test_killed_runs_resume_to_the_same_bytes(tmp_path: Path) -> None:
    check(3, seed=1, folder=tmp_path)


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    check(20, seed=0, folder=tmp_path)
