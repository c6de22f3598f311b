"""When a run is given up, what is said then, and that a checkpoint keeps what is remembered."""

import contextlib
import json
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import TrainingError
from naic.train.guard import Guard
from naic.train.settings import GuardSettings
from naic.train.stages import STAGES

CIDERS = st.lists(st.floats(0, 3), min_size=1, max_size=12)


def make_guard(stage: str = "teacher_xe", fraction: float = 0.5, from_epoch: float = 0.0) -> Guard:
    return Guard(GuardSettings(fraction, from_epoch), Path("runs/mine"), STAGES[stage].advice)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["loss", "gradient", "reward"])
def test_what_is_not_a_number_stops_the_run(name: str, value: float) -> None:
    guard = make_guard(fraction=0.0)
    guard.logged(1, 0.1, {"loss": 2.0, "gradient": 1.0, "reward": 0.5})
    with pytest.raises(TrainingError) as caught:
        guard.logged(7, 0.7, {"loss": 2.0, "gradient": 1.0, name: value})
    assert caught.value.what == "step 7"
    assert caught.value.why == f"{name} is not a finite number any more"


def test_a_collapsing_reward_stops_the_run() -> None:
    guard = make_guard("scst")
    for reward in (0.4, 0.8, 0.39, 0.41, 0.1):  # one bad window is none
        guard.logged(1, 1.0, {"loss": 0.0, "reward": reward})
    with pytest.raises(TrainingError, match=r"step 2: the reward collapsed from 0\.800 to 0\.390"):
        guard.logged(2, 1.0, {"loss": 0.0, "reward": 0.39})


def test_a_collapsing_validation_stops_the_run() -> None:
    guard = make_guard()
    assert guard.validated(10, 0.8)
    guard.judge(10, 1.0, 0.8)
    for cider in (0.0, 0.41, 0.38):  # an early validation of a healthy run may be bad
        guard.judge(20, 2.0, cider)
    with pytest.raises(TrainingError, match=r"step 30: CIDEr fell from 0\.800 at step 10 to 0\.39"):
        guard.judge(30, 3.0, 0.39)


def test_it_waits_for_its_epoch_and_can_be_told_to_let_be() -> None:
    late, never = make_guard("scst", from_epoch=2.0), make_guard("scst", fraction=0.0)
    for guard in (late, never):
        guard.validated(1, 1.0)
        guard.logged(1, 0.5, {"reward": 1.0})
        guard.judge(2, 1.99, 0.0)
        guard.logged(2, 1.99, {"reward": 0.0})
    for _ in range(9):
        never.judge(3, 9.0, 0.0)
    late.judge(3, 2.0, 0.0)  # the first one that counts
    with pytest.raises(TrainingError):
        late.judge(4, 3.0, 0.0)


def test_a_late_guard_has_seen_what_came_before() -> None:
    guard = make_guard("cmal", from_epoch=2.0)
    guard.logged(1, 0.5, {"reward": 1.0})
    guard.logged(8, 2.0, {"reward": 0.4})
    with pytest.raises(TrainingError, match="the reward collapsed"):
        guard.logged(9, 2.0, {"reward": 0.4})


@pytest.mark.parametrize("stage", STAGES)
def test_it_says_what_to_change_and_where_the_best_weights_are(stage: str) -> None:
    guard = make_guard(stage)
    with pytest.raises(TrainingError) as caught:
        guard.logged(1, 1.0, {"loss": math.nan})
    assert "schedule.learning_rate" in caught.value.hint
    assert caught.value.hint.endswith("Then begin a new run.")
    assert "best weights" not in caught.value.hint
    assert ("scst.samples" in caught.value.hint) == (stage == "scst")
    guard.validated(5, 0.3)
    with pytest.raises(TrainingError, match=r"The best weights are in runs/mine/best\. "):
        guard.logged(6, 1.0, {"loss": math.nan})


@given(CIDERS, st.floats(0.05, 1))
def test_the_best_is_the_first_of_the_highest(ciders: list[float], fraction: float) -> None:
    guard = make_guard(fraction=fraction)
    bad = [c < fraction * max(ciders[: i + 1]) for i, c in enumerate(ciders)]
    for step, cider in enumerate(ciders):
        seen = ciders[:step]
        assert guard.validated(step, cider) == (not seen or cider > max(seen))
        assert guard.best_step == ciders.index(max(ciders[: step + 1]))
        if bad[step] and bad[max(0, step - 1)] and step:
            with pytest.raises(TrainingError):
                guard.judge(step, 0.0, cider)
            return
        guard.judge(step, 0.0, cider)


@given(CIDERS, CIDERS, CIDERS)
def test_a_checkpoint_keeps_all_it_knows(
    before: list[float], rewards: list[float], after: list[float]
) -> None:
    guard = make_guard("scst")
    for step, cider in enumerate(before[1:]):  # perhaps none at all
        guard.validated(step, cider)
        with contextlib.suppress(TrainingError):
            guard.judge(step, 0.0, cider)
    for reward in rewards:
        with contextlib.suppress(TrainingError):
            guard.logged(0, 0.0, {"reward": reward})
    other = make_guard("scst")
    other.restore(json.loads(json.dumps(guard.state(), allow_nan=False)))
    assert other == guard
    assert other.kept == (len(before) > 1)
    for cider in after:
        assert other.validated(99, cider) == guard.validated(99, cider)


def test_the_best_may_be_chosen_by_more_than_cider() -> None:
    """It is still the CIDEr of the best weights that a collapse is told by."""
    guard = make_guard()
    assert guard.validated(0, 1.0, -3.0)
    assert guard.validated(5, 0.4, -1.0)
    assert not guard.validated(10, 0.9, -2.0)
    other = make_guard()
    other.restore(json.loads(json.dumps(guard.state(), allow_nan=False)))
    assert other == guard
    assert (other.best_step, other.best_cider, other.best_worth) == (5, 0.4, -1.0)
    for _ in range(3):
        other.judge(15, 1.0, 0.3)
    other.judge(20, 1.0, 0.1)
    with pytest.raises(TrainingError, match=r"CIDEr fell from 0\.400 at step 5 to 0\.100"):
        other.judge(25, 1.0, 0.1)


def test_a_reward_that_was_never_above_0_has_no_share() -> None:
    guard = make_guard("cmal")
    for reward in (-1.0, -4.0, -9.0, 0.0, -2.0, -2.0):
        guard.logged(1, 1.0, {"reward": reward})
    guard.logged(2, 1.0, {"reward": 0.5})
    guard.logged(3, 1.0, {"reward": 0.1})
    with pytest.raises(TrainingError, match="the reward collapsed"):
        guard.logged(4, 1.0, {"reward": 0.1})


def test_a_checkpoint_of_before_it_counted_can_be_gone_on_with() -> None:
    guard = make_guard()
    guard.validated(5, 0.9)
    new = ("bad_", "best_worth")
    old = {key: value for key, value in guard.state().items() if not key.startswith(new)}
    other = make_guard()
    other.restore(old)
    assert other == guard


def test_weights_that_are_no_numbers_stop_the_run() -> None:
    guard = make_guard(fraction=0.0)
    guard.weighed(1, finite=True)
    with pytest.raises(TrainingError, match="step 2: the weights are not finite numbers any more"):
        guard.weighed(2, finite=False)
