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
from naic.learn.losses import all_action_loss
from naic.text import PERIOD
from naic.train import cmal_stage
from naic.train.tools import Tools
from tests.train.games import (
    BATCH,
    FIVE,
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
    {"baseline": "cf", "topk": 1, "gradient": "all"},
    {"baseline": "cf", "topk": 2, "gradient": "all"},
    {"baseline": "cf", "topk": len(SAYABLE), "gradient": "all"},
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


def test_of_all_actions_with_several_samples() -> None:
    game = table_game(0)
    cmal = {"topk": 2, "samples": 2, "gradient": "all"}
    assert apart(game.expected_gradient(tools_of(game, cmal)), game.exact) < EXACT


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


@pytest.mark.parametrize(
    ("sayable", "topk", "most"), [(FIVE, 2, 0.9), (FIVE, 5, 0.3), (SAYABLE, 2, 0.9)]
)
def test_all_actions_vary_less_for_the_same_rewards(
    sayable: tuple[int, ...], topk: int, most: float
) -> None:
    """Mean and variance are exact, over all joint actions; nothing is sampled."""
    game = table_game(0, sayable)
    (exact,) = game.exact
    variances = []
    for gradient in ("sampled", "all"):
        tools = tools_of(game, {"topk": topk, "gradient": gradient})
        found = [(chance, own) for chance, (own,) in game.estimates(tools)]
        assert len(found) == len(sayable) ** LENGTH
        assert apart([torch.stack([chance * own for chance, own in found]).sum(0)], [exact]) < EXACT
        variances.append(sum(chance * float((own - exact).square().sum()) for chance, own in found))
    assert 0 < variances[1] < most * variances[0]


def without_the_period(reward: Tensor, baseline: Tensor, said: Tensor) -> Tensor:
    """Wrong: the agent that said the period decided on the length, and is left out."""
    last = said.long().cumsum(-1) == said.long().sum(-1, keepdim=True)
    return torch.where(said & ~last, (reward - baseline)[..., None], 0.0)


def of_its_own_word(reward: Tensor, outcomes: Tensor, log_probs: Tensor) -> Tensor:
    """Wrong: π' is not renormalised, so that a part of the baseline is the sampled reward."""
    weights = log_probs.exp()[:, None]
    return (weights * (reward[..., None, None] - outcomes)).sum(-1)


def without_the_sampled_term(
    log_probs: Tensor, likely: Tensor, words: Tensor, worth: Tensor, advantage: Tensor
) -> Tensor:
    """Wrong: the words outside the k likeliest are never learnt from."""
    return all_action_loss(log_probs, likely, words, worth, torch.zeros_like(advantage))


@pytest.mark.parametrize(
    ("cmal", "what", "wrong"),
    [
        ({"baseline": "sc"}, "team_advantage", without_the_period),
        ({"baseline": "cf", "topk": 2}, "counterfactual_advantage", of_its_own_word),
        ({"topk": 2, "gradient": "all"}, "all_action_loss", without_the_sampled_term),
    ],
    ids=["sc", "cf-2", "all-2"],
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


@pytest.mark.parametrize("team", [(A, PERIOD, B), (PERIOD, B, A)])
def test_all_actions_of_who_is_not_heard_are_worth_exactly_nothing(team: tuple[int, ...]) -> None:
    game = table_game(2)
    tools = tools_of(game, {"topk": 2, "gradient": "all"})
    with sampling(team):
        loss, logs = cmal_stage.cmal(game.model, BATCH, tools)
    (gradient,) = gradients(loss, game.model)
    silent = team.index(PERIOD) + 1
    assert gradient[0, 0, :silent].abs().amax(-1).min() > 1e-3
    assert not gradient[0, 0, silent:].any()
    assert float(logs["advantage_03"]) == 0


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
