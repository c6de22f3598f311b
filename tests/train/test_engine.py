"""One optimiser step: what it changes, by how much, and that a restored engine goes on alike."""

from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from naic.data.features import FeatureStore
from naic.errors import ConfigError
from naic.train.engine import TrainingEngine, check_engine, seed_noise
from naic.train.settings import EngineSettings, Settings
from naic.train.stages import STAGES
from tests.train.runs import make_engine, make_learnable_store, make_settings

RATE = 2e-3


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return make_learnable_store(tmp_path_factory.mktemp("stores") / "store")


def settings_of(store: FeatureStore, stage: str = "teacher_xe", **tables: Any) -> Settings:
    if not stage.endswith("_xe"):
        tables["start"] = "s"
    return make_settings(store.folder, Path("out"), stage, **tables)


def engine_of(store: FeatureStore, stage: str = "teacher_xe", **tables: Any) -> TrainingEngine:
    return make_engine(settings_of(store, stage, **tables), store)


def copies(tensors: list[Tensor]) -> list[Tensor]:
    return [tensor.detach().clone() for tensor in tensors]


def weights_of(engine: TrainingEngine) -> list[Tensor]:
    return copies(list(engine.plain.parameters()))


def gradients_of(engine: TrainingEngine) -> list[Tensor]:
    found = [p.grad for p in engine.plain.parameters()]
    return [gradient for gradient in found if gradient is not None]


def everything(engine: TrainingEngine) -> dict[str, Tensor]:
    kinds = zip(("model", "moments", "average"), engine.tensors(), strict=True)
    return {f"{k}/{name}": t.clone() for k, tensors in kinds for name, t in tensors.items()}


def norm(tensors: list[Tensor]) -> float:
    return float(torch.cat([tensor.flatten().double() for tensor in tensors]).norm())


@pytest.mark.parametrize("stage", ["teacher_xe", "student_xe"])
@pytest.mark.parametrize("clip", [0.0, 0.05])
def test_parts_make_the_same_update_as_the_whole(
    store: FeatureStore, stage: str, clip: float
) -> None:
    # A large epsilon: Adam would make a whole step out of the rounding of a gradient that is 0.
    optimiser = {"epsilon": 1e-2, "clip": clip}
    results = []
    for parts in (1, 4):
        settings = settings_of(
            store, stage, model={"dropout": 0.0}, optimiser=optimiser, run={"accumulate": parts}
        )
        engine = make_engine(settings, store, dtype=torch.float64)
        before = weights_of(engine)
        logs = [engine.step(number, RATE) for number in range(3)]
        moved = max(
            float((one - two).abs().max())
            for one, two in zip(before, weights_of(engine), strict=True)
        )
        assert moved > 1e-4
        results.append((engine, logs))
    (whole, all_at_once), (parted, bit_by_bit) = results
    for one, two in zip(weights_of(whole), weights_of(parted), strict=True):
        assert_close(one, two, rtol=0, atol=1e-6)
    for first, second in zip(all_at_once, bit_by_bit, strict=True):
        assert first.keys() == second.keys() == {"loss", "gradient"}
        for name, value in first.items():
            assert_close(value.double(), second[name].double(), rtol=1e-5, atol=0)


def test_the_first_step_is_adams(store: FeatureStore) -> None:
    """Every weight moves by the learning rate, against its gradient."""
    engine = engine_of(store, optimiser={"clip": 0.0, "epsilon": 1e-3})
    before = weights_of(engine)
    engine.step(0, RATE)
    pairs = zip(before, weights_of(engine), gradients_of(engine), strict=True)
    for old, new, gradient in pairs:
        expected = old - RATE * gradient / (gradient.abs() + 1e-3)
        assert_close(new, expected, rtol=1e-5, atol=1e-7)


def test_the_learning_rate_is_that_of_the_step(store: FeatureStore) -> None:
    engine = engine_of(store, optimiser={"weight_decay": 0.1})
    before = weights_of(engine)
    engine.step(0, 0.0)
    for old, new in zip(before, weights_of(engine), strict=True):
        assert torch.equal(old, new)
    engine.step(1, RATE)
    changed = [
        not torch.equal(old, new) for old, new in zip(before, weights_of(engine), strict=True)
    ]
    assert all(changed)


def test_clipping(store: FeatureStore) -> None:
    free, bound, loose = (engine_of(store, optimiser={"clip": clip}) for clip in (0.0, 0.01, 1e6))
    logs = [engine.step(0, RATE) for engine in (free, bound, loose)]
    length = norm(gradients_of(free))
    assert length > 0.1
    assert [float(log["gradient"]) for log in logs] == pytest.approx([length] * 3, rel=1e-5)
    assert norm(gradients_of(bound)) == pytest.approx(0.01, rel=1e-3)
    for one, two in zip(gradients_of(free), gradients_of(bound), strict=True):
        assert_close(one * 0.01 / length, two, rtol=1e-3, atol=1e-9)
    assert norm(gradients_of(loose)) == pytest.approx(length, rel=1e-5)


def test_the_average_is_a_moving_one(store: FeatureStore) -> None:
    engine = engine_of(store, optimiser={"average": 0.7})
    expected = weights_of(engine)
    for number in range(4):
        engine.step(number, RATE)
        weights = weights_of(engine)
        expected = [0.7 * old + 0.3 * new for old, new in zip(expected, weights, strict=True)]
    for one, two, own in zip(engine.average, expected, weights_of(engine), strict=True):
        assert_close(one, two, rtol=1e-5, atol=1e-7)
        assert not torch.equal(one, own)


def test_averaged_puts_the_weights_back_whatever_happens(store: FeatureStore) -> None:
    engine = engine_of(store)
    engine.step(0, RATE)
    own, average = weights_of(engine), copies(engine.average)
    inside: list[Tensor] = []

    def interrupted() -> None:
        with engine.averaged():
            inside.extend(weights_of(engine))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    for there, expected in zip(inside, average, strict=True):
        assert torch.equal(there, expected)
    for after, before in zip(weights_of(engine), own, strict=True):
        assert torch.equal(after, before)
    for after, before in zip(engine.average, average, strict=True):
        assert torch.equal(after, before)
    assert torch.is_grad_enabled()


def test_without_an_average_there_is_none(store: FeatureStore) -> None:
    engine = engine_of(store, optimiser={"average": 0.0})
    engine.step(0, RATE)
    own = weights_of(engine)
    with engine.averaged():
        for inside, expected in zip(weights_of(engine), own, strict=True):
            assert torch.equal(inside, expected)
    assert engine.average == []
    assert engine.tensors()[2] == {}


@given(st.integers(0, 2**63 - 1), st.integers(0, 10**9), st.integers(0, 10**4))
def test_noise_depends_on_seed_step_and_rank_alone(seed: int, step: int, rank: int) -> None:
    def noise(*where: int) -> list[float]:
        seed_noise(*where)
        drawn: list[float] = torch.rand(4).tolist()
        return drawn

    first = noise(seed, step, rank)
    torch.rand(5)
    assert noise(seed, step, rank) == first
    for other in ((seed + 1, step, rank), (seed, step + 1, rank), (seed, step, rank + 1)):
        assert noise(*other) != first


def test_a_step_does_not_depend_on_what_was_drawn_before(store: FeatureStore) -> None:
    losses = []
    for draws in (0, 100):
        engine = engine_of(store)
        torch.rand(draws)
        losses.append(float(engine.step(7, RATE)["loss"]))
    assert losses[0] == losses[1]


@pytest.mark.parametrize("stage", STAGES)
def test_a_restored_engine_goes_on_bit_by_bit(store: FeatureStore, stage: str) -> None:
    tables = {"scst": {"dropout": True}} if stage == "scst" else {}
    unbroken = engine_of(store, stage, **tables)
    logs = [unbroken.step(number, RATE) for number in range(3)]
    saved = [{n: t.clone() for n, t in part.items()} for part in unbroken.tensors()]
    logs = [unbroken.step(number, RATE) for number in range(3, 6)]
    other = engine_of(store, stage, seed=99, **tables)
    other._seed = unbroken._seed  # its weights shall be strange, not its noise
    other._feed = unbroken._feed
    other.restore(saved[0], saved[1], saved[2])
    for number, expected in zip(range(3, 6), logs, strict=True):
        found = other.step(number, RATE)
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert torch.equal(found[name], value), name
    one, two = everything(unbroken), everything(other)
    assert one.keys() == two.keys()
    assert {name.split("/")[0] for name in one} == {"model", "moments", "average"}
    for name, value in one.items():
        assert torch.equal(two[name], value), name


def test_what_is_restored_is_a_copy(store: FeatureStore) -> None:
    engine = engine_of(store)
    engine.step(0, RATE)
    saved = [{n: t.clone() for n, t in part.items()} for part in engine.tensors()]
    kept = [{n: t.clone() for n, t in part.items()} for part in saved]
    other = engine_of(store)
    other.restore(saved[0], saved[1], saved[2])
    other.step(1, RATE)
    for part, expected in zip(saved, kept, strict=True):
        for name, value in expected.items():
            assert torch.equal(part[name], value), name


@pytest.mark.parametrize("stage", STAGES)
def test_the_gradient_reaches_every_parameter(store: FeatureStore, stage: str) -> None:
    engine = engine_of(store, stage)
    engine.step(0, RATE)
    for name, parameter in engine.plain.named_parameters():
        assert parameter.grad is not None, name
        assert float(parameter.grad.abs().max()) > 0, name


@pytest.mark.parametrize(
    ("stage", "tables", "on"),
    [
        ("teacher_xe", {}, True),
        ("student_xe", {}, True),
        ("cmal", {}, True),
        ("scst", {}, False),
        ("scst", {"scst": {"dropout": True}}, True),
    ],
)
def test_dropout_is_on_where_it_should_be(
    store: FeatureStore, stage: str, tables: dict[str, Any], on: bool
) -> None:
    engine = engine_of(store, stage, **tables)
    engine.plain.train(not on)
    engine.step(0, RATE)
    assert {module.training for module in engine.plain.modules()} == {on}


def test_features_on_the_host_teach_the_same(store: FeatureStore) -> None:
    losses = []
    for keep in ("device", "host"):
        engine = engine_of(store, data={"keep": keep})
        losses.append([float(engine.step(number, RATE)["loss"]) for number in range(6)])
        engine._feed.close()
    assert losses[0] == losses[1]


@pytest.mark.parametrize("stage", ["teacher_xe", "student_xe"])
def test_it_learns(store: FeatureStore, stage: str) -> None:
    engine = engine_of(store, stage)
    losses = [float(engine.step(number, 5e-3)["loss"]) for number in range(80)]
    assert losses[0] > 2.5
    assert sum(losses[-5:]) / 5 < 0.6 * losses[0]


def test_scst_learns(store: FeatureStore) -> None:
    """The reward of a model that knows nothing rises."""
    engine = engine_of(store, "scst", scst={"samples": 8})
    rewards = [float(engine.step(number, 1e-2)["reward"]) for number in range(60)]
    assert sum(rewards[-10:]) > 2 * sum(rewards[:10])


@pytest.mark.parametrize(
    ("settings", "what"),
    [
        (EngineSettings(graph=True), "engine.graph"),
        (EngineSettings(precision="tf32"), "engine.precision"),
    ],
)
def test_what_a_cpu_cannot_do(settings: EngineSettings, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        check_engine(settings, "cpu", 1)
    assert caught.value.what == what
    assert "cpu" in caught.value.why
