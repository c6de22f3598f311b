"""On a GPU: a step that is graphed or compiled does what the plain step does."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState
from torch import Tensor
from torch.testing import assert_close

from naic.data.features import FeatureStore
from naic.decode.decoding import Decoding
from naic.train.engine import TrainingEngine
from naic.train.stages import STAGES
from tests.train.runs import make_engine, make_learnable_store, make_settings

pytestmark = pytest.mark.gpu

RATE = 1e-3
BATCH = 8  # also all images of the small store: each step has the same ones, in another order
PLAIN: dict[str, Any] = {"device": "cuda"}
GRAPH: dict[str, Any] = {"device": "cuda", "graph": True}
STILL: dict[str, Any] = {"dropout": 0.0}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return make_learnable_store(tmp_path_factory.mktemp("stores") / "store")


@pytest.fixture(scope="module")
def small_store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return make_learnable_store(tmp_path_factory.mktemp("stores") / "small", BATCH)


@pytest.fixture(autouse=True)
def _fresh_accelerator() -> Iterator[None]:
    """accelerate remembers the first device of the process; other tests are on the CPU."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def engine_of(
    store: FeatureStore, stage: str, how: dict[str, Any], **tables: Any
) -> TrainingEngine:
    """An engine on the GPU, whose Adam makes no whole steps out of rounding."""
    if not stage.endswith("_xe"):
        tables["start"] = "s"
    tables["optimiser"] = {"epsilon": 1e-4, "average": 0.8, **tables.get("optimiser", {})}
    # All captions of an image in each step: they do not change from epoch to epoch.
    tables["data"] = {"captions": 3, **tables.get("data", {})}
    settings = make_settings(store.folder, Path("out"), stage, engine=how, **tables)
    return make_engine(settings, store, "cuda")


def rate_of(number: int) -> float:
    """Another one for each step: a graph must not hold on to its first."""
    return RATE * (1 + number % 3)


def steps(engine: TrainingEngine, numbers: range) -> list[dict[str, float]]:
    logs = [engine.step(number, rate_of(number)) for number in numbers]
    return [{name: float(value) for name, value in line.items()} for line in logs]


def assert_alike(
    one: list[dict[str, float]], two: list[dict[str, float]], tolerance: float = 1e-5
) -> None:
    assert len(one) == len(two)
    for first, second in zip(one, two, strict=True):
        assert first.keys() == second.keys()
        for name, value in first.items():
            # The loss of reinforcement learning is a sum of both signs: near 0 it has no scale.
            assert second[name] == pytest.approx(value, rel=tolerance, abs=tolerance), name


def everything(engine: TrainingEngine) -> dict[str, Tensor]:
    kinds = zip(("model", "moments", "average"), engine.tensors(), strict=True)
    return {f"{k}/{name}": t.clone() for k, tensors in kinds for name, t in tensors.items()}


def assert_same_state(one: TrainingEngine, two: TrainingEngine, tolerance: float = 1e-5) -> None:
    first, second = everything(one), everything(two)
    assert first.keys() == second.keys()
    for name, value in first.items():
        assert_close(second[name], value, rtol=tolerance, atol=tolerance, msg=name)


@pytest.mark.parametrize("stage", STAGES)
def test_graphed_steps_are_the_plain_ones(store: FeatureStore, stage: str) -> None:
    plain, graphed = (engine_of(store, stage, how, model=STILL) for how in (PLAIN, GRAPH))
    found = steps(graphed, range(10))
    assert_alike(steps(plain, range(10)), found)
    assert len({line["loss"] for line in found}) == 10
    assert_same_state(plain, graphed, 1e-4)


@pytest.mark.parametrize("stage", STAGES)
def test_the_warm_up_leaves_no_trace(store: FeatureStore, stage: str) -> None:
    plain, graphed = (engine_of(store, stage, how, model=STILL) for how in (PLAIN, GRAPH))
    for engine in (plain, graphed):
        engine.step(0, RATE)
    assert_same_state(plain, graphed)
    counted = {float(t) for name, t in graphed.tensors()[1].items() if name.startswith("step/")}
    assert counted == {1.0}


@pytest.mark.parametrize("stage", STAGES)
def test_a_graph_goes_on_after_a_restore(store: FeatureStore, stage: str) -> None:
    unbroken = engine_of(store, stage, GRAPH)
    steps(unbroken, range(3))
    saved = [{n: t.clone().cpu() for n, t in part.items()} for part in unbroken.tensors()]
    expected = steps(unbroken, range(3, 7))
    other = engine_of(store, stage, GRAPH)
    steps(other, range(0))
    with torch.no_grad():
        for parameter in other.plain.parameters():
            parameter.add_(0.1)
    other.restore(saved[0], saved[1], saved[2])
    assert_alike(expected, steps(other, range(3, 7)))
    assert_same_state(unbroken, other, 1e-4)
    counted = {float(t) for name, t in other.tensors()[1].items() if name.startswith("step/")}
    assert counted == {7.0}


@pytest.mark.parametrize("stage", ["teacher_xe", "student_xe", "cmal"])
def test_a_graphs_dropout_is_the_steps_own(small_store: FeatureStore, stage: str) -> None:
    """The same images in each step and no learning: what differs is the noise."""
    engine = engine_of(small_store, stage, GRAPH, model={"dropout": 0.3})
    losses = [float(engine.step(number, 0.0)["loss"]) for number in (0, 1, 2, 0, 1, 2)]
    assert losses[:3] == pytest.approx(losses[3:], rel=1e-5, abs=1e-6)
    assert min(abs(losses[i] - losses[i - 1]) for i in range(3)) > 1e-4
    twin = engine_of(small_store, stage, GRAPH, model={"dropout": 0.3})
    again = [float(twin.step(number, 0.0)["loss"]) for number in (0, 1, 2)]
    assert again == pytest.approx(losses[:3], rel=1e-5, abs=1e-6)


def test_without_noise_steps_on_the_same_images_are_alike(small_store: FeatureStore) -> None:
    """Else the test above would prove nothing."""
    engine = engine_of(small_store, "teacher_xe", GRAPH, model=STILL)
    losses = [float(engine.step(number, 0.0)["loss"]) for number in range(3)]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-5)


def test_a_graphs_samples_are_the_steps_own(small_store: FeatureStore) -> None:
    engine = engine_of(small_store, "scst", GRAPH, model=STILL)
    rewards = [float(engine.step(number, 0.0)["reward"]) for number in (0, 1, 2, 0, 1, 2)]
    assert rewards[:3] == pytest.approx(rewards[3:], rel=1e-6)
    assert len({round(reward, 6) for reward in rewards[:3]}) == 3


def test_a_graph_learns_at_the_rate_of_the_step(store: FeatureStore) -> None:
    engine = engine_of(store, "teacher_xe", GRAPH)
    engine.step(0, RATE)
    before = everything(engine)
    engine.step(1, 0.0)
    after = everything(engine)
    for name, value in before.items():
        if name.startswith("model/"):
            assert torch.equal(after[name], value), name
    engine.step(2, RATE)
    assert any(not torch.equal(everything(engine)[n], v) for n, v in after.items() if "model" in n)


def test_validation_between_two_steps_does_not_disturb_a_graph(store: FeatureStore) -> None:
    quiet, looked_at = (engine_of(store, "teacher_xe", GRAPH) for _ in range(2))
    expected = steps(quiet, range(6))
    found = steps(looked_at, range(3))
    features = torch.randn(4, 2, store.dim, device="cuda")
    with looked_at.averaged(), looked_at.autocast():
        looked_at.plain.eval()
        looked_at.tools.spec.caption(looked_at.plain, features, None, Decoding(3))
    found += steps(looked_at, range(3, 6))
    assert_alike(expected, found)


@pytest.mark.parametrize(
    "tables", [{"run": {"accumulate": 4}}, {"data": {"keep": "host"}}, {"optimiser": {"clip": 0.0}}]
)
def test_a_graph_of_parts_or_of_features_on_the_host(
    store: FeatureStore, tables: dict[str, Any]
) -> None:
    plain = engine_of(
        store, "teacher_xe", PLAIN, model=STILL, optimiser=tables.get("optimiser", {})
    )
    other = engine_of(store, "teacher_xe", GRAPH, model=STILL, **tables)
    try:
        assert_alike(steps(plain, range(6)), steps(other, range(6)))
    finally:
        other._feed.close()


@pytest.mark.parametrize("stage", STAGES)
def test_mixed_precision_in_a_graph(store: FeatureStore, stage: str) -> None:
    half = {"precision": "bfloat16"}
    plain, graphed = (
        engine_of(store, stage, {**how, **half}, model=STILL) for how in (PLAIN, GRAPH)
    )
    found = steps(graphed, range(5))
    assert_alike(steps(plain, range(5)), found, 1e-2)
    assert {t.dtype for t in everything(graphed).values()} == {torch.float32}
    if stage.endswith("_xe"):
        exact = steps(engine_of(store, stage, PLAIN, model=STILL), range(5))
        losses = [line["loss"] for line in exact]
        assert [line["loss"] for line in found] == pytest.approx(losses, rel=2e-2)
        assert [line["loss"] for line in found] != losses


ANCHORED: dict[str, Any] = {
    "gradient": "all",
    "topk": 5,
    "samples": 2,
    "entropy": 0.01,
    "xe": 0.2,
    "kl": 0.1,
    "loose_ends": 0.3,
}


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize(
    ("stage", "cmal"), [*((stage, {}) for stage in STAGES), ("cmal", ANCHORED)]
)
def test_compiled_steps_are_the_plain_ones(
    store: FeatureStore, stage: str, cmal: dict[str, Any], graph: bool
) -> None:
    torch.compiler.reset()
    how = {**PLAIN, "compile": True, "graph": graph}
    plain, compiled = (engine_of(store, stage, own, model=STILL, cmal=cmal) for own in (PLAIN, how))
    assert_alike(steps(plain, range(5)), steps(compiled, range(5)), 1e-4)
    assert_same_state(plain, compiled, 1e-3)


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("fill", [False, True])
def test_glancing_in_a_graph(store: FeatureStore, compiled: bool, fill: bool) -> None:
    """What is shown is the step's own, and the loss of the rest."""
    torch.compiler.reset()
    xe = {"glance": 0.5, "fill": fill}
    how = {**GRAPH, "compile": compiled}
    plain, graphed = (
        engine_of(store, "student_xe", own, model=STILL, xe=xe) for own in (PLAIN, how)
    )
    found = steps(graphed, range(6))
    assert_alike(steps(plain, range(6)), found, 1e-4)
    assert_same_state(plain, graphed, 1e-3)
    assert min(line["shown"] for line in found) > 0.05


BASELINES: list[dict[str, Any]] = [
    {"baseline": "none"},
    {"baseline": "ma"},
    {"baseline": "sc"},
    {"baseline": "loo", "samples": 3},
    {"baseline": "cf", "samples": 2, "topk": 5, "entropy": 0.1, "xe": 0.2},
    {"baseline": "cf", **ANCHORED},
]


@pytest.mark.parametrize("cmal", BASELINES, ids=lambda cmal: str(cmal["baseline"]))
def test_every_baseline_in_a_graph(store: FeatureStore, cmal: dict[str, Any]) -> None:
    """Its memory of rewards as well: the warm-up leaves no trace there, and each step does."""
    plain, graphed = (
        engine_of(store, "cmal", how, model=STILL, cmal=cmal) for how in (PLAIN, GRAPH)
    )
    assert_alike(steps(plain, range(6)), steps(graphed, range(6)), 1e-4)
    assert_same_state(plain, graphed, 1e-4)
    if "kl" in cmal:  # of the frozen copy nothing is learnt, and the graph has it too
        assert float(graphed.step(6, RATE)["kl"]) > 0
    if cmal["baseline"] == "ma":
        weight = float(graphed.tensors()[1]["moving/reward"][1])
        assert weight == pytest.approx(1 - 0.9**6)


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_compiled_rewards_leave_zeros_where_nothing_changes(store: FeatureStore) -> None:
    """Every word a period: no agent but the first is heard, so no other has an advantage."""
    torch.compiler.reset()
    engine = engine_of(store, "cmal", {**PLAIN, "compile": True, "graph": True}, model=STILL)
    with torch.no_grad():
        engine.plain.decoder.output.bias[0] += 50  # type: ignore[union-attr, index, operator]
    logs = steps(engine, range(2))[1]
    assert [logs[f"advantage_{agent:02d}"] for agent in range(2, 9)] == [0.0] * 7


CHAIN: dict[str, Any] = {**STILL, "transitions": 4, "choices": 5}
HEARD: list[tuple[str, dict[str, Any]]] = [
    ("student_xe", {}),
    ("cmal", {"cmal": {"baseline": "loo", "samples": 3, "entropy": 0.1, "xe": 0.2}}),
    ("cmal", {"cmal": {"baseline": "sc"}}),
]


@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize(("stage", "tables"), HEARD, ids=["xe", "loo", "sc"])
def test_agents_that_hear_each_other_compiled_in_a_graph(
    store: FeatureStore, stage: str, tables: dict[str, Any]
) -> None:
    torch.compiler.reset()
    how = {**GRAPH, "compile": True}
    plain, compiled = (engine_of(store, stage, own, model=CHAIN, **tables) for own in (PLAIN, how))
    assert_alike(steps(plain, range(5)), steps(compiled, range(5)), 1e-4)
    assert_same_state(plain, compiled, 1e-3)
    transitions = {n: t for n, t in everything(compiled).items() if "model/decoder.tr" in n}
    assert len(transitions) == 4
    assert all(bool(tensor.any()) for tensor in transitions.values()), "all have learnt"
