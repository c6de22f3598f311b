"""The stage cmal: agents that learn as a team from the reward of their sentence."""

from dataclasses import replace
from typing import assert_never

import torch
from torch import Tensor, nn

from naic.decode.policy import choose, log_policy, spoken
from naic.errors import ConfigError
from naic.learn.losses import (
    MovingAverage,
    bad_ending_table,
    bad_endings,
    counterfactual_advantage,
    leave_one_out,
    policy_loss,
    repeats,
    speakers_entropy,
    team_advantage,
)
from naic.text import Vocabulary
from naic.train.batches import Batch
from naic.train.settings import Settings
from naic.train.tools import Logs, Tools


def cmal(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Counterfactuals-critical multi-agent learning (the paper's eq. 4 to 10).

    All agents speak at once, by chance and with dropout: one forward pass. What a word was worth
    is the reward of its sentence against a baseline, which for "cf" is the agent's own.
    """
    settings = tools.settings.cmal
    logits = model(batch.features, batch.mask)  # (B, 1, N, V)
    log_probs = log_policy(logits[:, 0])  # (B, N, V)
    policy = log_probs.detach()
    words = torch.stack([choose(policy) for _ in range(settings.samples)], 1)  # (B, S, N)
    reward, baseline, advantage = _judge(policy, words, batch, tools)
    chosen = log_probs.gather(-1, words.transpose(1, 2)).transpose(1, 2)  # (B, S, N)
    share = batch.images * settings.samples
    # What nothing depends on has no advantage; no word needs to be left out.
    loss = policy_loss(chosen, advantage, torch.ones_like(words, dtype=torch.bool)) / share
    unsure = speakers_entropy(log_probs if settings.entropy else policy, spoken(words)) / share
    if settings.entropy:
        loss = loss - settings.entropy * unsure
    if settings.xe:
        xe = tools.cross_entropy(logits, batch.words) / batch.normaliser
        loss = loss + settings.xe * xe
    sizes = advantage.abs().sum((0, 1)).float() / share  # (N,)
    return loss, {
        "loss": loss.detach(),
        "reward": reward.sum().float() / share,
        "baseline": baseline.expand_as(reward).sum().float() / share,
        "entropy": unsure.detach(),
        **_habits(words, share, tools),
        "advantage": sizes.mean(),
        **{f"advantage_{agent:02d}": size for agent, size in enumerate(sizes.unbind(), 1)},
    }


def _judge(
    policy: Tensor, words: Tensor, batch: Batch, tools: Tools
) -> tuple[Tensor, Tensor, Tensor]:
    """Rewards (B, S), baselines broadcast to that, and the advantages (B, S, N) of all agents."""
    settings, rewards = tools.settings.cmal, tools.rewards
    assert rewards is not None
    sentences = words.flatten(0, 1)  # (B·S, N)
    rows = batch.rows.repeat_interleave(settings.samples)  # (B·S,)
    if settings.baseline == "cf":
        likely = policy.topk(settings.topk)  # (B, N, k)
        others = likely.indices[:, None].expand(-1, settings.samples, -1, -1)  # (B, S, N, k)
        reward, outcomes = rewards.judge(sentences, others.flatten(0, 1), rows)
        reward, outcomes = reward.view_as(words[..., 0]), outcomes.view_as(others)
        advantage = counterfactual_advantage(reward, outcomes, likely.values)
        return reward, reward - advantage.mean(2), advantage  # the mean baseline of all agents
    reward = rewards.score(sentences, rows).view_as(words[..., 0])
    match settings.baseline:
        case "none":
            baseline = torch.zeros_like(reward)
        case "ma":
            assert tools.moving is not None
            baseline = tools.moving.value  # ()
        case "sc":
            baseline = rewards.score(policy.argmax(-1), batch.rows)[:, None]  # (B, 1)
        case "loo":
            baseline = leave_one_out(reward)  # (B, S)
        case _:
            assert_never(settings.baseline)
    return reward, baseline, team_advantage(reward, baseline, spoken(words))


def _habits(words: Tensor, share: Tensor, tools: Tools) -> Logs:
    """How the sampled sentences are written: their length, and shares of those with bad habits.

    Under names of their own: a validation logs the habits of captions that are not sampled.
    """
    assert tools.bad_endings is not None
    return {
        "words": spoken(words).sum().float() / share,
        "sampled_repeats": repeats(words).sum().float() / share,
        "sampled_bad_endings": bad_endings(words, tools.bad_endings).sum().float() / share,
    }


def equip_cmal(tools: Tools, vocabulary: Vocabulary) -> Tools:
    """The tools with what only this stage needs."""
    device = next(tools.plain.parameters()).device
    moving = MovingAverage(device) if tools.settings.cmal.baseline == "ma" else None
    return replace(tools, bad_endings=bad_ending_table(vocabulary, device), moving=moving)


def check_cmal(settings: Settings, words: int) -> None:
    """Refuse settings that cannot be, of a model that can say so many words."""
    if settings.cmal.baseline == "loo" and settings.cmal.samples < 2:
        why = "the leave-one-out baseline needs the rewards of other samples"
        raise ConfigError("cmal.samples", why, 'Take 2 or more, or baseline = "cf".')
    if settings.cmal.topk > words:
        why = f"{settings.cmal.topk} is more than the {words} words that can be said"
        raise ConfigError("cmal.topk", why, "Lower it.")
