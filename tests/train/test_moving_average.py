"""The baseline "ma" remembers past rewards: between parts, after a break, over processes."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from naic.data.features import FeatureStore
from naic.errors import CheckpointError
from naic.learn.losses import DECAY
from naic.train import checkpoint, cmal_stage
from naic.train.engine import TrainingEngine
from naic.train.logs import read_metrics
from naic.train.loop import train
from tests.train.runs import (
    COMMAND,
    enter,
    make_engine,
    make_home,
    make_settings,
    refused,
    run_settings,
)
from tests.train.sameness import differences

RATE = 1e-3
RUN = Path("run")
MA: dict[str, Any] = {"baseline": "ma"}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(home, tmp_path, monkeypatch)


@pytest.fixture(scope="module")
def store(home: Path) -> FeatureStore:
    return FeatureStore(home / "store")


def engine_of(store: FeatureStore, **tables: Any) -> TrainingEngine:
    settings = make_settings(store.folder, Path("out"), "cmal", start="s", cmal=MA, **tables)
    return make_engine(settings, store)


def state_of(engine: TrainingEngine) -> list[float]:
    assert engine.tools.moving is not None
    found: list[float] = engine.tools.moving.state.tolist()
    return found


def test_it_is_used_and_then_updated(store: FeatureStore) -> None:
    """The first step has no past: its baseline is 0. Then that of the steps before."""
    engine = engine_of(store)
    rewards: list[float] = []
    for number in range(5):
        logs = engine.step(number, RATE)
        weights = [DECAY**age for age in reversed(range(len(rewards)))]
        total = sum(w * r for w, r in zip(weights, rewards, strict=True))
        expected = total / sum(weights) if rewards else 0.0
        assert float(logs["baseline"]) == pytest.approx(expected, rel=1e-6)
        rewards.append(float(logs["reward"]))
    assert len(set(rewards)) == 5


def test_all_parts_of_a_step_have_the_same(
    store: FeatureStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cmal_stage, "choose", lambda log_probs: log_probs.topk(2).indices[..., 1])
    quiet = {"model": {"dropout": 0.0}, "optimiser": {"epsilon": 1e-2}}
    whole, parted = (engine_of(store, run={"accumulate": parts}, **quiet) for parts in (1, 4))
    for number in range(4):
        one, two = (engine.step(number, RATE) for engine in (whole, parted))
        assert float(one["baseline"]) == pytest.approx(float(two["baseline"]), rel=1e-5)
        assert float(one["loss"]) == pytest.approx(float(two["loss"]), rel=1e-4, abs=1e-5)
    assert state_of(whole) == pytest.approx(state_of(parted), rel=1e-5)
    assert state_of(whole)[1] == pytest.approx(1 - DECAY**4)


def test_other_baselines_have_no_such_state(store: FeatureStore) -> None:
    settings = make_settings(store.folder, Path("out"), "cmal", start="s")
    engine = make_engine(settings, store)
    engine.step(0, RATE)
    assert engine.tools.moving is None
    assert {name.split("/")[0] for name in engine.tensors()[1]} == {"exp_avg", "exp_avg_sq", "step"}


def test_a_restored_engine_remembers_bit_by_bit(store: FeatureStore) -> None:
    unbroken = engine_of(store)
    for number in range(3):
        unbroken.step(number, RATE)
    model, moments, average = (
        {n: t.detach().clone() for n, t in part.items()} for part in unbroken.tensors()
    )
    assert moments["moving/reward"].dtype == torch.float64
    expected = [unbroken.step(number, RATE) for number in range(3, 6)]
    other = engine_of(store)
    other.restore(model, moments, average)
    for number, logs in zip(range(3, 6), expected, strict=True):
        found = other.step(number, RATE)
        assert all(torch.equal(found[name], value) for name, value in logs.items())
    assert state_of(other) == state_of(unbroken)


def test_a_run_that_goes_on_is_the_unbroken_one(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run_settings("cmal", epochs=2.0, cmal=MA), command=COMMAND)
    monkeypatch.chdir(here / "two")
    train(run_settings("cmal", epochs=1.0, cmal=MA), command=COMMAND)
    train(run_settings("cmal", epochs=2.0, cmal=MA), command=COMMAND, resume=True)
    assert differences(here / "one" / "run", here / "two" / "run") == []
    lines = [line for line in read_metrics(RUN) if "reward" in line]
    assert {f"advantage_{agent:02d}" for agent in range(1, 9)} <= lines[0].keys()
    assert [float(line["baseline"]) > 0 for line in lines] == [False] + [True] * 9


@pytest.mark.usefixtures("here")
def test_a_checkpoint_without_it_is_refused() -> None:
    train(run_settings("cmal", epochs=1.0, cmal=MA), command=COMMAND)
    path = checkpoint.latest(RUN)
    assert path is not None
    snapshot = checkpoint.load(path)
    assert snapshot.optimiser.pop("moving/reward").shape == (2,)
    shutil.rmtree(path)
    checkpoint.save(RUN, snapshot)
    error = refused(CheckpointError, run_settings("cmal", epochs=2.0, cmal=MA), resume=True)
    assert "1 missing (moving/reward)" in error.why
