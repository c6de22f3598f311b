"""What a reward is compared with: each baseline against its definition, number by number."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.testing import assert_close

from naic.learn.losses import (
    DECAY,
    MovingAverage,
    counterfactual_advantage,
    leave_one_out,
    team_advantage,
)

REWARDS = st.lists(st.floats(-10, 10), min_size=1, max_size=12)


def doubles(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_a_team_shares_one_advantage_up_to_its_period() -> None:
    reward = torch.tensor([[3.0, 1.0]], dtype=torch.float64)
    said = torch.tensor([[[True, True, False], [True, True, True]]])
    for baseline in (torch.tensor(0.5).double(), torch.tensor([[0.5]]).double()):
        found = team_advantage(reward, baseline, said)
        assert found.dtype == torch.float64
        assert found.tolist() == [[[2.5, 2.5, 0.0], [0.5, 0.5, 0.5]]]
    own = team_advantage(reward, torch.tensor([[1.0, 4.0]]).double(), said)
    assert own.tolist() == [[[2.0, 2.0, 0.0], [-3.0, -3.0, -3.0]]]


def test_counterfactuals_by_hand() -> None:
    """One image, one sentence, two agents with two alternatives each."""
    reward = torch.tensor([[2.0]], dtype=torch.float64)
    outcomes = torch.tensor([[[[2.0, 1.0], [4.0, 3.0]]]], dtype=torch.float64)
    chances = torch.tensor([[[0.6, 0.2], [0.1, 0.1]]], dtype=torch.float64)  # not of all words
    found = counterfactual_advantage(reward, outcomes, chances.log())
    expected = [[[0.25 * (2 - 1), 0.5 * (2 - 4) + 0.5 * (2 - 3)]]]
    assert_close(found, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("choices", [1, 2, 7])
def test_counterfactuals_are_the_reward_less_its_expectation(samples: int, choices: int) -> None:
    reward, outcomes = doubles(2, samples), doubles(2, samples, 5, choices, seed=1)
    log_probs = doubles(2, 5, choices, seed=2).log_softmax(-1)
    found = counterfactual_advantage(reward, outcomes, log_probs)
    for image, sample, agent in itertools.product(range(2), range(samples), range(5)):
        mean = float((log_probs[image, agent].exp() * outcomes[image, sample, agent]).sum())
        expected = float(reward[image, sample]) - mean
        assert float(found[image, sample, agent]) == pytest.approx(expected, abs=1e-13)


@given(st.floats(-1e3, 1e3), st.lists(st.floats(-80, 0), min_size=1, max_size=9))
def test_where_nothing_changes_it_is_exactly_zero(worth: float, chances: list[float]) -> None:
    """Whatever the rounding of the weights, which are half precision's at worst."""
    reward = torch.tensor([[worth]], dtype=torch.float64)
    outcomes = reward[..., None, None].expand(1, 1, 1, len(chances))
    for kind in (torch.float64, torch.float32):
        log_probs = torch.tensor([[chances]], dtype=kind)
        assert counterfactual_advantage(reward, outcomes, log_probs).tolist() == [[[0.0]]]


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=9))
def test_leave_one_out_is_the_mean_of_the_others(rewards: list[float]) -> None:
    found = leave_one_out(torch.tensor([rewards, rewards[::-1]], dtype=torch.float64))
    for i in range(len(rewards)):
        others = rewards[:i] + rewards[i + 1 :]
        assert float(found[0, i]) == pytest.approx(sum(others) / len(others), abs=1e-12)
        assert float(found[1, -1 - i]) == pytest.approx(float(found[0, i]), abs=1e-12)


@given(REWARDS)
def test_the_moving_average_weighs_the_newest_most(rewards: list[float]) -> None:
    average = MovingAverage("cpu")
    assert float(average.value) == 0
    for reward in rewards:
        average.update(torch.tensor(reward))
    weights = [DECAY**age for age in reversed(range(len(rewards)))]
    total = sum(w * float(torch.tensor(r)) for w, r in zip(weights, rewards, strict=True))
    assert float(average.value) == pytest.approx(total / sum(weights), abs=1e-12)


def test_the_first_reward_is_the_whole_average() -> None:
    """Not a tenth of it: there is nothing else yet."""
    average = MovingAverage("cpu")
    average.update(torch.tensor(3.0))
    assert float(average.value) == pytest.approx(3.0, abs=1e-15)
    average.update(torch.tensor(1.0))
    assert float(average.value) == pytest.approx((0.9 * 3 + 1) / 1.9, abs=1e-15)


def test_it_is_changed_in_place_and_keeps_no_history() -> None:
    average = MovingAverage("cpu")
    place = average.state.data_ptr()
    average.update(torch.tensor(2.0, requires_grad=True) * 3)
    assert average.state.data_ptr() == place
    assert average.state.dtype == torch.float64
    assert not average.state.requires_grad


def test_all_can_be_compiled_in_one_piece() -> None:
    def all_of_them(reward: Tensor, outcomes: Tensor, log_probs: Tensor, said: Tensor) -> Tensor:
        team = team_advantage(reward, leave_one_out(reward), said)
        return team + counterfactual_advantage(reward, outcomes, log_probs)

    given_ = (doubles(2, 3), doubles(2, 3, 4, 2), doubles(2, 4, 2).float(), doubles(2, 3, 4) > 0)
    compiled = torch.compile(all_of_them, fullgraph=True, backend="eager")
    assert torch.equal(compiled(*given_), all_of_them(*given_))
