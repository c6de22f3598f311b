import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import ConfigError
from naic.learn.schedules import Schedule, learning_rate

# The paper's XE training, epochs 1 to 30: min(t·1e-4, 3e-4), halved every 3 epochs after the 6th.
PAPER = [
    *(1e-4, 2e-4, 3e-4, 3e-4, 3e-4, 3e-4, 3e-4, 3e-4),
    *(1.5e-4, 1.5e-4, 1.5e-4),
    *(7.5e-5, 7.5e-5, 7.5e-5),
    *(3.75e-5, 3.75e-5, 3.75e-5),
    *(1.875e-5, 1.875e-5, 1.875e-5),
    *(9.375e-6, 9.375e-6, 9.375e-6),
    *(4.6875e-6, 4.6875e-6, 4.6875e-6),
    *(2.34375e-6, 2.34375e-6, 2.34375e-6),
    1.171875e-6,
]


def rates(schedule: Schedule, epochs: int, within: float = 0.0) -> list[float]:
    return [learning_rate(schedule, 0, epoch + within) for epoch in range(epochs)]


@pytest.mark.parametrize("within", [0.0, 0.5, 0.999])
def test_the_papers_schedule(within: float) -> None:
    assert len(PAPER) == 30
    assert rates(Schedule("paper"), 30, within) == pytest.approx(PAPER, rel=1e-12)
    double = [2 * rate for rate in PAPER]
    assert rates(Schedule("paper", 6e-4), 30, within) == pytest.approx(double, rel=1e-12)


def test_constant() -> None:
    assert rates(Schedule(learning_rate=5e-6), 3) == [5e-6] * 3


def test_decay_is_cmals_by_default() -> None:
    schedule = Schedule("decay", 7.5e-5)
    steps = [learning_rate(schedule, 0, epoch) for epoch in (0, 9.99, 10, 19.99, 20, 69)]
    expected = [7.5e-5, 7.5e-5, 6e-5, 6e-5, 4.8e-5, 7.5e-5 * 0.8**6]
    assert steps == pytest.approx(expected, rel=1e-12)
    halved = Schedule("decay", 1.0, factor=0.5, every=2)
    assert rates(halved, 6) == [1.0, 1.0, 0.5, 0.5, 0.25, 0.25]


def test_cosine_falls_to_the_floor_and_stays_there() -> None:
    schedule = Schedule("cosine", 1.0, floor=0.2, total_epochs=8.0)
    found = [learning_rate(schedule, 0, epoch) for epoch in (0, 2, 4, 6, 8, 11)]
    quarter = 0.4 * math.cos(math.pi / 4)
    assert found == pytest.approx([1.0, 0.6 + quarter, 0.6, 0.6 - quarter, 0.2, 0.2], rel=1e-12)


@pytest.mark.parametrize("kind", ["constant", "paper", "decay", "cosine"])
def test_every_kind_can_warm_up(kind: Any) -> None:
    plain = Schedule(kind, 1e-3)
    warm = replace(plain, warmup_steps=4)
    shares = [learning_rate(warm, step, 3.5) / learning_rate(plain, 0, 3.5) for step in range(6)]
    assert shares == pytest.approx([0.25, 0.5, 0.75, 1.0, 1.0, 1.0], rel=1e-12)


@given(
    schedule=st.builds(
        Schedule,
        kind=st.sampled_from(["constant", "paper", "decay", "cosine"]),
        learning_rate=st.floats(1e-6, 1.0),
        warmup_steps=st.integers(0, 100),
        factor=st.floats(0.1, 1.0),
        every=st.integers(1, 20),
        total_epochs=st.floats(0.1, 100),
    ),
    step=st.integers(0, 10**6),
    epoch=st.floats(0, 100),
)
def test_a_rate_is_never_negative_and_never_above_the_peak(
    schedule: Schedule, step: int, epoch: float
) -> None:
    assert 0 <= learning_rate(schedule, step, epoch) <= schedule.learning_rate * (1 + 1e-12)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("learning_rate", {"learning_rate": 0.0}),
        ("learning_rate", {"learning_rate": math.nan}),
        ("learning_rate", {"learning_rate": math.inf}),
        ("warmup_steps", {"warmup_steps": -1}),
        ("factor", {"factor": 0.0}),
        ("factor", {"factor": 1.5}),
        ("every", {"every": 0}),
        ("floor", {"learning_rate": 1e-4, "floor": 2e-4}),
        ("floor", {"floor": -1.0}),
        ("total_epochs", {"total_epochs": 0.0}),
    ],
)
def test_values_that_make_no_schedule_are_refused(name: str, values: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"^schedule\.{name}: it is {values[name]}\."):
        Schedule(**values)
