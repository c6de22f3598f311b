"""A proof by listing everything: no baseline changes the gradient that CMAL is to follow.

The expected reward of a small game is differentiated exactly; the gradients of the real stage, over
all joint actions weighted by their chance, must add up to the same. A sentence ends with its first
period, and what is sampled after it is kept: it counts once the period itself is replaced.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from naic.decode.policy import log_policy
from naic.text import PERIOD
from naic.train import cmal_stage
from naic.train.tools import Tools
from tests.train.games import (
    BATCH,
    LENGTH,
    SAYABLE,
    Game,
    apart,
    captioner_game,
    sampling,
    table_game,
)
from tests.train.stage_cases import A, B, Policy, Table, gradients, make_tools

EXACT = 1e-12
SINGLE: list[dict[str, Any]] = [
    {"baseline": "none"},
    {"baseline": "sc"},
    {"baseline": "cf", "topk": 1},
    {"baseline": "cf", "topk": 2},
    {"baseline": "cf", "topk": len(SAYABLE)},
]
DOUBLE: list[dict[str, Any]] = [
    {"baseline": "loo", "samples": 2},
    {"baseline": "cf", "topk": 2, "samples": 2},
]


def tools_of(game: Game, cmal: dict[str, Any]) -> Tools:
    return make_tools("cmal", game.model, Table(game.worth), cmal=cmal)


def name(value: object) -> str:
    return "-".join(map(str, value.values())) if isinstance(value, dict) else str(value)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("cmal", SINGLE + DOUBLE, ids=name)
def test_no_baseline_changes_the_expected_gradient(cmal: dict[str, Any], seed: int) -> None:
    game = table_game(seed)
    found = game.expected_gradient(tools_of(game, cmal))
    assert max(float(part.abs().max()) for part in game.exact) > 0.05
    assert apart(found, game.exact) < EXACT


@pytest.mark.parametrize("fixed", [-3.7, 0.0, 1.9, 40.0])
def test_nor_does_a_moving_average_whatever_it_is(fixed: float) -> None:
    game = table_game(1)
    tools = tools_of(game, {"baseline": "ma"})
    assert tools.moving is not None
    state = torch.tensor([fixed * 0.3, 0.3], dtype=torch.float64)
    tools.moving.state.copy_(state)
    assert apart(game.expected_gradient(tools), game.exact) < EXACT
    assert torch.equal(tools.moving.state, state)  # it changes between steps, not within them


@pytest.mark.parametrize("cmal", [*SINGLE, DOUBLE[0], {"baseline": "ma"}], ids=name)
def test_of_a_real_captioner_whose_agents_share_their_weights(cmal: dict[str, Any]) -> None:
    game = captioner_game(0)
    found = game.expected_gradient(tools_of(game, cmal))
    assert max(float(part.abs().max()) for part in game.exact) > 0.05
    assert apart(found, game.exact) < EXACT


def without_the_period(reward: Tensor, baseline: Tensor, said: Tensor) -> Tensor:
    """Wrong: the agent that said the period decided on the length, and is left out."""
    last = said.long().cumsum(-1) == said.long().sum(-1, keepdim=True)
    return torch.where(said & ~last, (reward - baseline)[..., None], 0.0)


def of_its_own_word(reward: Tensor, outcomes: Tensor, log_probs: Tensor) -> Tensor:
    """Wrong: π' is not renormalised, so that a part of the baseline is the sampled reward."""
    weights = log_probs.exp()[:, None]
    return (weights * (reward[..., None, None] - outcomes)).sum(-1)


@pytest.mark.parametrize(
    ("cmal", "what", "wrong"),
    [
        ({"baseline": "sc"}, "team_advantage", without_the_period),
        ({"baseline": "cf", "topk": 2}, "counterfactual_advantage", of_its_own_word),
    ],
    ids=["sc", "cf-2"],
)
def test_what_is_biased_is_found_out(
    cmal: dict[str, Any],
    what: str,
    wrong: Callable[..., Tensor],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else the tests above would prove nothing."""
    game = table_game(0)
    monkeypatch.setattr(cmal_stage, what, wrong)
    assert apart(game.expected_gradient(tools_of(game, cmal)), game.exact) > 1e-2


def advantages(model: Policy, tools: Tools, team: tuple[int, ...]) -> list[float]:
    """Of each agent, from the gradient: −A·(1 − π) at the word that was said."""
    with sampling(team):
        loss, _ = cmal_stage.cmal(model, BATCH, tools)
    (gradient,) = gradients(loss, model)
    chances = log_policy(model.logits.detach()[0, 0]).exp()
    return [
        -float(gradient[0, 0, i, word]) / (1 - float(chances[i, word]))
        for i, word in enumerate(team)
    ]


@pytest.mark.parametrize("tail", [A, B, PERIOD])
def test_a_replaced_period_lets_the_kept_tail_be_heard(tail: int) -> None:
    game = table_game(2)
    assert isinstance(game.model, Policy)
    tools = tools_of(game, {"topk": len(SAYABLE)})
    found = advantages(game.model, tools, (A, PERIOD, tail))
    chances = log_policy(game.model.logits.detach()[0, 0]).exp()[1]
    reward = game.reward((A, PERIOD, tail))
    mean = sum(float(chances[word]) * game.reward((A, word, tail)) for word in SAYABLE)
    assert found[1] == pytest.approx(reward - mean, abs=1e-12)
    assert found[2] == 0  # what it says is not heard now


@pytest.mark.parametrize("baseline", ["none", "ma", "sc"])
def test_the_others_leave_out_who_is_not_heard(baseline: str) -> None:
    game = table_game(2)
    assert isinstance(game.model, Policy)
    tools = tools_of(game, {"baseline": baseline})
    if tools.moving is not None:
        tools.moving.update(torch.tensor(0.7))
    found = advantages(game.model, tools, (B, PERIOD, A))
    likeliest = log_argmax(game.model)
    against = {"none": 0.0, "ma": float(torch.tensor(0.7)), "sc": game.reward(likeliest)}
    assert found[0] == pytest.approx(game.reward((B, PERIOD, A)) - against[baseline], abs=1e-12)
    assert abs(found[0]) > 0.01
    assert found == pytest.approx([found[0], found[0], 0.0], abs=1e-12)
    assert len(found) == LENGTH


def log_argmax(model: Policy) -> tuple[int, ...]:
    scores = model.logits.detach()[0, 0]
    return tuple(max(SAYABLE, key=lambda word: float(row[word])) for row in scores)
