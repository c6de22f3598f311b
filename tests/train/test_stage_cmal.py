"""Counterfactuals-critical learning against every team of words, and every change to one."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.policy import choose, log_policy, spoken
from naic.learn.cider.rewards import Rewards
from naic.text import PAD, PERIOD
from naic.text.vocabulary import NEVER
from naic.train import cmal_stage
from naic.train.stages import STAGES
from tests.train.stage_cases import (
    LENGTH,
    A,
    B,
    Policy,
    Table,
    all_sentences,
    gradients,
    make_batch,
    make_tools,
    real_rewards,
    sentence,
)


@pytest.fixture(scope="module")
def rewards(tmp_path_factory: pytest.TempPathFactory) -> Rewards:
    return real_rewards(tmp_path_factory.mktemp("stores"))


def all_teams(length: int) -> list[tuple[int, ...]]:
    return list(itertools.product((PERIOD, A, B), repeat=length))


def test_cmal_climbs_the_expected_reward(monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent's baseline does not depend on its own word, so the mean over all is unbiased."""
    model = Policy(3, B + 1)
    batch = make_batch(1, words=torch.full((1, 1, 3), PAD), length=3)
    worth = {said: (i * 7 % 16) / 8 for i, said in enumerate(all_sentences(3))}
    policy = log_policy(model.logits[0, 0])
    chances = {
        team: torch.stack([policy[i, word] for i, word in enumerate(team)]).sum().exp()
        for team in all_teams(3)
    }
    expected = -sum(chances[team] * worth[sentence(list(team))] for team in chances)
    assert isinstance(expected, Tensor)
    (wanted,) = gradients(expected, model)
    tools = make_tools("cmal", model, Table(worth), cmal={"topk": 2})
    found = torch.zeros_like(wanted)
    for team, chance in chances.items():
        monkeypatch.setattr(cmal_stage, "choose", lambda _, team=team: torch.tensor([team]))
        loss, logs = STAGES["cmal"].step(model, batch, tools)
        found += chance.detach() * gradients(loss, model)[0]
        assert float(logs["reward"]) == worth[sentence(list(team))]
        assert float(logs["words"]) == len(sentence(list(team)))
    assert_close(found, wanted, rtol=0, atol=1e-7)  # advantages are float32


@pytest.mark.parametrize("topk", [1, 2, 4])
def test_cmal_gives_each_agent_its_own_advantage(
    rewards: Rewards, topk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, batch = Policy(LENGTH, 16, seed=topk), make_batch(3)
    words = torch.tensor(
        [[7, 4, 9, 10, 12, PERIOD], [4, 8, PERIOD, 9, 4, 5], [PERIOD, 7, 4, 5, 9, 10]]
    )
    monkeypatch.setattr(cmal_stage, "choose", lambda _: words)
    tools = make_tools("cmal", model, rewards, cmal={"topk": topk})
    loss, _ = STAGES["cmal"].step(model, batch, tools)
    (found,) = gradients(loss, model)
    policy = log_policy(model.logits.detach()[0, 0])
    expected = torch.zeros_like(policy)
    base = rewards.score(words, batch.rows)
    for image, agent in itertools.product(range(3), range(LENGTH)):
        likely = policy[agent].topk(topk)
        share = likely.values.exp() / likely.values.exp().sum()
        advantage = 0.0
        for weight, word in zip(share.tolist(), likely.indices.tolist(), strict=True):
            changed = words.clone()
            changed[image, agent] = word
            other = float(rewards.score(changed, batch.rows)[image])
            advantage += weight * (float(base[image]) - other)
        expected[agent] += advantage / 3 * policy[agent].exp()
        expected[agent, words[image, agent]] -= advantage / 3
    assert_close(found[0, 0], expected, rtol=0, atol=1e-6)
    assert float(found.abs().max()) > 1e-3
    assert torch.equal(found[0, 0, :, list(NEVER)], torch.zeros(LENGTH, len(NEVER)).double())


def test_cmal_is_exactly_zero_where_nothing_changes(
    rewards: Rewards, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the period; and, with one alternative, where that is what was said."""
    model = Policy(LENGTH, 16)
    batch = make_batch(1)
    words = torch.tensor([[7, 4, 8, PERIOD, 9, 10]])
    monkeypatch.setattr(cmal_stage, "choose", lambda _: words)
    loss, _ = STAGES["cmal"].step(
        model, batch, make_tools("cmal", model, rewards, cmal={"topk": 5})
    )
    (found,) = gradients(loss, model)
    assert (found[0, 0] != 0).any(-1).tolist() == [True] * 4 + [False] * 2
    likeliest = log_policy(model.logits.detach())[0].argmax(-1)
    monkeypatch.setattr(cmal_stage, "choose", lambda _: likeliest)
    loss, logs = STAGES["cmal"].step(
        model, batch, make_tools("cmal", model, rewards, cmal={"topk": 1})
    )
    (found,) = gradients(loss, model)
    assert torch.equal(found, torch.zeros_like(found))
    assert float(logs["advantage"]) == 0


def test_cmal_says_what_the_policy_says(rewards: Rewards) -> None:
    """Nothing stubbed: the words are drawn from the policy by the noise of the step."""
    model, batch = Policy(LENGTH, 16), make_batch(2)
    tools = make_tools("cmal", model, rewards)
    torch.manual_seed(2)
    _, logs = STAGES["cmal"].step(model, batch, tools)
    torch.manual_seed(2)
    words = choose(log_policy(model(batch.features, None)[:, 0].detach()))
    assert float(logs["reward"]) == pytest.approx(float(rewards.score(words, batch.rows).mean()))
    assert float(logs["words"]) == float(spoken(words).sum()) / 2
