"""On a GPU: other people's captioners learn in one graph what they learn step by step."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from accelerate.state import AcceleratorState

from naic.data.features import FeatureStore
from naic.train.engine import TrainingEngine
from tests.models.writers import SIZES, TRANSFORMER
from tests.train.runs import LENGTH, make_engine, make_learnable_store, make_settings

pytestmark = pytest.mark.gpu

DEVICE = "cuda"
STUDENTS = ("mnic", "fnic", "ctc")
CASES = [(name, stage) for name in SIZES for stage in ("teacher_xe", "scst")]
CASES += [(name, "student_xe") for name in STUDENTS]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> FeatureStore:
    return make_learnable_store(tmp_path_factory.mktemp("stores") / "store", regions=4)


@pytest.fixture(autouse=True)
def _fresh_accelerator() -> Iterator[None]:
    """accelerate remembers the first device of the process; other tests are on the CPU."""
    AcceleratorState._reset_state(reset_partial_state=True)
    yield
    AcceleratorState._reset_state(reset_partial_state=True)


def engine_of(store: FeatureStore, name: str, stage: str, **how: Any) -> TrainingEngine:
    start: dict[str, Any] = {"start": "s"} if stage == "scst" else {}
    settings = make_settings(
        store.folder,
        Path("out"),
        stage,
        captioner=name,
        engine={"device": DEVICE, **how},
        optimiser={"epsilon": 1e-4, "average": 0.8},  # no whole steps out of rounding
        **start,
    )
    sizes = {**SIZES.get(name, TRANSFORMER), "dropout": 0.0, "length": LENGTH}
    return make_engine(replace(settings, model=sizes), store, DEVICE)


def steps(engine: TrainingEngine, count: int = 6) -> list[dict[str, float]]:
    logs = [engine.step(number, 1e-3) for number in range(count)]
    return [{name: float(value) for name, value in line.items()} for line in logs]


@pytest.mark.parametrize(("name", "stage"), CASES)
def test_graphed_steps_are_the_plain_ones(store: FeatureStore, name: str, stage: str) -> None:
    plain = steps(engine_of(store, name, stage))
    graphed = steps(engine_of(store, name, stage, graph=True))
    for one, other in zip(plain, graphed, strict=True):
        assert other == pytest.approx(one, rel=1e-4, abs=1e-4)
    assert len({line["loss"] for line in graphed}) == 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles
@pytest.mark.parametrize(("name", "stage"), CASES)
def test_as_the_configs_of_coco_have_it(store: FeatureStore, name: str, stage: str) -> None:
    """In bfloat16, compiled and recorded: nearly the same losses."""
    plain = steps(engine_of(store, name, stage), 3)
    fast = steps(engine_of(store, name, stage, precision="bfloat16", compile=True, graph=True), 3)
    if stage != "scst":  # by chance other sentences are drawn from other probabilities
        for one, other in zip(plain, fast, strict=True):
            assert other["loss"] == pytest.approx(one["loss"], rel=0.02)
    assert all(abs(line["gradient"]) < 100 for line in fast)
