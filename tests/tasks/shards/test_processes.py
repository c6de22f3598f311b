"""The launcher, with processes that make nothing and some of which are brought down."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from naic.errors import BackboneError, Problem, WriteError
from naic.tasks.shards import processes
from naic.tasks.shards.folder import OutFolder
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Outcome
from naic.tasks.shards.options import CaptionShards
from naic.tasks.shards.processes import Crew, in_processes

TRIES = 2  # here: each takes a quarter of a second


@pytest.fixture(autouse=True)
def odd(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "TRIES", TRIES)
    monkeypatch.setattr(processes, "PROCESS", "tests.tasks.shards.odd_process")


class Run:
    """Shards of these names, made; what was heard of it."""

    def __init__(self, folder: Path, *names: str, workers: int = 1) -> None:
        self.asked = CaptionShards(inputs=("x.tar",), out=str(folder), workers=workers)
        self.out = OutFolder(str(folder), "caption")
        self.shards = [Shard(str(folder / f"{name}.tar"), name) for name in names]
        self.outcomes: dict[str, Outcome] = {}
        self.told: list[Problem] = []

    def make(self) -> "Run":
        in_processes(self.asked, self.out, self.shards, self.hear, self.told.append)
        return self

    def hear(self, outcome: Outcome) -> None:
        assert outcome.shard.name not in self.outcomes
        self.outcomes[outcome.shard.name] = outcome

    def deadly(self, name: str, times: int) -> None:
        Path(self.out.where, f"{name}.tar").write_text(f"{times}")


def test_all_shards_are_made_by_as_many_processes_as_were_asked_for(tmp_path: Path) -> None:
    run = Run(tmp_path, "a", "b", "damaged", "c", workers=2).make()
    assert sorted(run.outcomes) == ["a", "b", "c", "damaged"]
    assert run.outcomes["a"].statistics is not None
    problem = run.outcomes["damaged"].problem
    assert problem is not None
    assert problem.why == "it is damaged"
    assert [own.where for own in run.told] == ["--forbid"]  # once, however many tell of it


def test_a_process_that_is_killed_is_replaced_and_its_shard_tried_again(tmp_path: Path) -> None:
    run = Run(tmp_path, "a", "deadly", "b")
    run.deadly("deadly", TRIES - 1)
    run.make()
    assert all(outcome.statistics for outcome in run.outcomes.values())
    assert list(tmp_path.glob("*.part")) == []


def test_a_shard_that_brings_down_one_after_another_is_given_up_by_name(tmp_path: Path) -> None:
    run = Run(tmp_path, "deadly")
    run.deadly("deadly", TRIES)
    run.make()
    problem = run.outcomes["deadly"].problem
    assert problem is not None
    assert "were killed" in problem.why
    assert run.out.problem("deadly") == problem


def test_what_would_stop_the_next_shard_too_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="the disk is full"):
        Run(tmp_path, "full", "a").make()


def test_a_mistake_of_ours_stops_the_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BackboneError, match="exit code 1"):
        Run(tmp_path, "wrong", "a").make()
    assert "a mistake in naic" in capfd.readouterr().err


def test_an_interruption_ends_processes_in_the_middle_of_a_shard(tmp_path: Path) -> None:
    class Interrupted(Run):
        def hear(self, outcome: Outcome) -> None:
            raise KeyboardInterrupt

    run = Interrupted(tmp_path, "slow", "a", workers=2)
    begin = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        run.make()
    assert time.monotonic() - begin < 30
    assert not Path(run.out.output("slow")).exists()


def test_cores_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "usable_cores", lambda: 8)
    monkeypatch.setattr(processes, "may_have_gpu", lambda: False)

    def crew(workers: int, shards: int = 100) -> tuple[int, str]:
        asked = CaptionShards(inputs=("x.tar",), out="out", workers=workers)
        found = Crew.of(asked, shards)
        return len(found.sees), found.threads

    monkeypatch.setenv("OMP_NUM_THREADS", "4")  # as of a scheduler
    assert crew(0) == (8, "1")
    assert crew(2) == (2, "1")  # what is made does not depend on how many make it
    assert crew(16) == (16, "1")
    assert crew(0, shards=3) == (3, "1")


def test_each_gpu_gets_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = CaptionShards(inputs=("x.tar",), out="out")
    monkeypatch.setattr(processes, "may_have_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert Crew.of(asked, 100).sees == ("0", "1")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5,7")
    assert Crew.of(asked, 100).sees == ("5", "7")
    monkeypatch.setattr(processes, "usable_cores", lambda: 8)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert Crew.of(asked, 100).threads == "4"
    assert Crew.of(replace(asked, workers=3), 100).sees == ("5", "7", "5")
    assert Crew.of(replace(asked, device="cpu", workers=2), 100).sees == (None, None)
