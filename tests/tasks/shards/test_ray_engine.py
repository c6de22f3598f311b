"""What naic does with what it hears of Ray; a process that has no Ray says it."""

import importlib.util
from pathlib import Path

import pytest

from naic.errors import ClusterError, MissingExtraError, Problem, WriteError
from naic.tasks.shards import ray_engine
from naic.tasks.shards.folder import OutFolder
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Outcome
from naic.tasks.shards.options import CaptionShards
from naic.tasks.shards.ray_engine import on_ray


@pytest.fixture(autouse=True)
def odd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "DRIVER", "tests.tasks.shards.odd_driver")
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    monkeypatch.delenv("NAIC_DEBUG", raising=False)


class Run:
    """Shards of these names on "Ray"; what was heard of it."""

    def __init__(self, folder: Path, *names: str) -> None:
        self.outcomes: list[Outcome] = []
        self.told: list[Problem] = []
        self.said: list[str] = []
        self.out = OutFolder(str(folder), "caption")
        self.shards = [Shard(str(folder / f"{name}.tar"), name) for name in names]

    def make(self) -> None:
        asked = CaptionShards(inputs=("x.tar",), out="elsewhere")
        hear, tell, say = self.outcomes.append, self.told.append, self.said.append
        on_ray(asked, self.out, self.shards, hear, tell, say)


def test_what_is_heard(tmp_path: Path) -> None:
    run = Run(tmp_path, "a", "again", "deadly", "b")
    run.make()
    assert [outcome.shard.name for outcome in run.outcomes] == ["a", "again", "deadly", "b"]
    assert [outcome.problem is None for outcome in run.outcomes] == [True, True, False, True]
    given_up = run.outcomes[2].problem
    assert given_up is not None
    assert "processes were killed while they made it" in given_up.why
    assert run.out.problem("deadly") == given_up
    assert [problem.where for problem in run.told] == ["--forbid"]
    assert run.said == [
        f"a cluster for {tmp_path}",
        f"a worker was killed, and {tmp_path}/again.tar begun again",
    ]


def test_a_cluster_that_is_lost(tmp_path: Path) -> None:
    run = Run(tmp_path, "a", "lost", "b")
    with pytest.raises(ClusterError) as told:
        run.make()
    assert [outcome.shard.name for outcome in run.outcomes] == ["a"]
    assert told.value.why.endswith("has ended, with exit code 1: Failed to connect to GCS")
    assert told.value.hint.endswith("give the same command again.")
    with pytest.raises(ClusterError, match="exit code -9"):
        Run(tmp_path, "killed").make()


def test_what_stops_all(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="the disk is full"):
        Run(tmp_path, "full", "a").make()


def test_a_cluster_that_does_not_let_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_engine, "_JOINING", 0.3)
    monkeypatch.setattr(ray_engine, "_ENDING", 0.1)
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    with pytest.raises(ClusterError, match=r"at 10\.0\.0\.1:6379: did not take us in .* token"):
        Run(tmp_path, "silent").make()


def test_without_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"Run: pip install 'naic\[ray\]'"):
        Run(tmp_path, "a").make()


def test_paths_hold_in_any_folder_and_names_of_the_hub_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("model").mkdir()
    out = OutFolder("s3://bucket/out", "caption")
    for model, expected in (("model", tmp_path / "model"), ("owner/name", Path("owner/name"))):
        asked = CaptionShards(inputs=("x.tar",), out="out", model=Path(model))
        moved = ray_engine._anywhere(asked, out)
        assert (moved.out, moved.model) == (out.where, expected)  # type: ignore[union-attr]
