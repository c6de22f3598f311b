import sys
from pathlib import Path

import pytest

from tests.data.regions import files
from tests.tasks.kill import IMAGES, PER_SHARD, Words, command, trials


def check(kills: int, seed: int, folder: Path, words: Words = command) -> None:
    struck, identical = trials(kills, seed, folder, words)
    for kill in struck:
        print(f"killed after {kill.seconds:6.3f} s: {kill.hit}; {kill.shards} shards whole")
    assert len(struck) >= kills
    assert identical
    assert all(identical.values()), identical
    assert sum("writing" in kill.hit for kill in struck) >= len(struck) // 3


def test_killed_runs_resume_to_the_same_bytes(tmp_path: Path) -> None:
    check(3, seed=1, folder=tmp_path)


@pytest.mark.slow
def test_a_killed_import_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    ids = tuple(range(1, IMAGES + 1))
    (tmp_path / "given").mkdir()
    given = files.tsv(tmp_path / "given", files.see(ids))
    source = files.write_dataset(tmp_path / "dataset.json", ids)
    own = ["--features", given, "--per-shard", str(PER_SHARD), "--batch", "8"]
    naic = [sys.executable, "-m", "naic"]
    check(
        4,
        seed=2,
        folder=tmp_path,
        words=lambda out: [*naic, "prepare", "karpathy", str(source), *own, "--out", str(out)],
    )


@pytest.mark.slow
def test_twenty_kills(tmp_path: Path) -> None:
    check(20, seed=0, folder=tmp_path)
