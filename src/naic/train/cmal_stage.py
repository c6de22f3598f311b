"""The stage cmal: agents that learn as a team from the reward of their sentence."""

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from naic.decode.policy import choose, log_policy, spoken
from naic.errors import ConfigError
from naic.learn.loose_ends import LooseEnds
from naic.learn.losses import (
    MovingAverage,
    all_action_advantage,
    all_action_loss,
    bad_ending_table,
    bad_endings,
    counterfactual_advantage,
    leave_one_out,
    policy_loss,
    repeats,
    speakers_divergence,
    speakers_entropy,
    team_advantage,
)
from naic.text import Vocabulary
from naic.train.batches import Batch
from naic.train.settings import Settings
from naic.train.speed import compile_layers
from naic.train.tools import Logs, Tools


def cmal(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Counterfactuals-critical multi-agent learning (the paper's eq. 4 to 10).

    All agents speak at once, by chance and with dropout: one forward pass. What a word was worth
    is the reward of its sentence against a baseline, which for "cf" is the agent's own. With the
    gradient "all" the words that could have been said instead are learnt from as well.
    """
    settings = tools.settings.cmal
    logits = model(batch.features, batch.mask)  # (B, 1, N, V)
    log_probs = _policy(logits, settings.temperature)  # (B, N, V)
    policy = log_probs.detach()
    words = torch.stack([choose(policy) for _ in range(settings.samples)], 1)  # (B, S, N)
    judged = _judge(policy, words, batch, tools)
    share = batch.images * settings.samples
    rewarded = batch.judged * settings.samples  # images without references have no advantages
    loss = _policy_gradient(log_probs, words, judged) / rewarded
    unsure = speakers_entropy(log_probs if settings.entropy else policy, spoken(words)) / share
    if settings.entropy:
        loss = loss - settings.entropy * unsure
    anchors: Logs = {}
    if settings.xe:
        anchors["xe"] = tools.cross_entropy(logits, batch.words) / batch.normaliser
        loss = loss + settings.xe * anchors["xe"]
    if settings.kl:
        anchors["kl"] = _from_start(log_probs, words, batch, tools) / share
        loss = loss + settings.kl * anchors["kl"]
    sizes = judged.advantage.abs().sum((0, 1)).float() / rewarded  # (N,)
    return loss, {
        "loss": loss.detach(),
        "reward": judged.reward.sum().float() / rewarded,
        "baseline": judged.baseline.expand_as(judged.reward).sum().float() / rewarded,
        "entropy": unsure.detach(),
        **{name: value.detach() for name, value in anchors.items()},
        **habits(words, share, tools),
        "advantage": sizes.mean(),
        **{f"advantage_{agent:02d}": size for agent, size in enumerate(sizes.unbind(), 1)},
    }


def _policy(logits: Tensor, temperature: float) -> Tensor:
    """(B, N, V) log-probabilities at a temperature, from logits (B, 1, N, V)."""
    return log_policy(logits[:, 0] if temperature == 1 else logits[:, 0] / temperature)


def _from_start(log_probs: Tensor, words: Tensor, batch: Batch, tools: Tools) -> Tensor:
    """0-dim: how far the speakers have gone from where the run began, summed over the samples."""
    assert tools.start is not None
    with torch.no_grad():
        logits = tools.start(batch.features, batch.mask)  # (B, 1, N, V)
        start = _policy(logits, tools.settings.cmal.temperature)  # (B, N, V)
    return speakers_divergence(log_probs, start, spoken(words))


@dataclass(frozen=True)
class Judged:
    """What sampled sentences were worth.

    Attributes:
        reward: (B, S) of the sentences.
        baseline: broadcast to that: what they were compared with.
        advantage: (B, S, N) of the word of each agent.
        likely: (B, N, k) for the gradient "all": the words that are all learnt from; else None.
        worth: (B, S, N, k) of these words, said or not; else None.
    """

    reward: Tensor
    baseline: Tensor
    advantage: Tensor
    likely: Tensor | None = None
    worth: Tensor | None = None


def _policy_gradient(log_probs: Tensor, words: Tensor, judged: Judged) -> Tensor:
    """0-dim: what has the gradient of the expected reward, summed over images and samples."""
    if judged.likely is not None and judged.worth is not None:
        return all_action_loss(log_probs, judged.likely, words, judged.worth, judged.advantage)
    chosen = log_probs.gather(-1, words.transpose(1, 2)).transpose(1, 2)  # (B, S, N)
    # What nothing depends on has no advantage; no word needs to be left out.
    return policy_loss(chosen, judged.advantage, torch.ones_like(words, dtype=torch.bool))


def _judge(policy: Tensor, words: Tensor, batch: Batch, tools: Tools) -> Judged:
    """The rewards of sentences (B, S, N), against the baseline of the settings."""
    settings, rewards = tools.settings.cmal, tools.rewards
    assert rewards is not None
    sentences = words.flatten(0, 1)  # (B·S, N)
    rows = batch.rows.repeat_interleave(settings.samples)  # (B·S,)
    if settings.baseline == "cf":
        return _counterfactuals(policy, words, rows, tools)
    reward = rewards.score(sentences, rows).view_as(words[..., 0])
    baseline = team_baseline(reward, lambda: policy.argmax(-1), batch, tools)
    return Judged(reward, baseline, team_advantage(reward, baseline, spoken(words)))


def team_baseline(
    reward: Tensor, likeliest: Callable[[], Tensor], batch: Batch, tools: Tools
) -> Tensor:
    """What rewards (B, S) are compared with, for all agents alike (eq. 6); broadcast to that.

    `likeliest` gives the sentences (B, N) that would be said if nothing were left to chance.
    """
    rewards = tools.rewards
    assert rewards is not None
    match tools.settings.cmal.baseline:
        case "none":
            return torch.zeros_like(reward)
        case "ma":
            assert tools.moving is not None
            # One for all images; those without references are not compared.
            return tools.moving.value * rewards.judges(batch.rows)[:, None]  # (B, 1)
        case "sc":
            return rewards.score(likeliest(), batch.rows)[:, None]  # (B, 1)
        case "loo":
            return leave_one_out(reward)  # (B, S)
        case "cf":
            raise AssertionError("a counterfactual baseline is each agent's own")


def _counterfactuals(policy: Tensor, words: Tensor, rows: Tensor, tools: Tools) -> Judged:
    """The rewards of sentences (B, S, N), and of those with the word of one agent replaced."""
    settings, rewards = tools.settings.cmal, tools.rewards
    assert rewards is not None
    likely = policy.topk(settings.topk)  # (B, N, k)
    others = likely.indices[:, None].expand(-1, settings.samples, -1, -1)  # (B, S, N, k)
    reward, outcomes = rewards.judge(words.flatten(0, 1), others.flatten(0, 1), rows)
    reward, outcomes = reward.view_as(words[..., 0]), outcomes.view_as(others)
    advantage = counterfactual_advantage(reward, outcomes, likely.values)
    baseline = reward - advantage.mean(2)  # the mean baseline of all agents
    if settings.gradient == "sampled":
        return Judged(reward, baseline, advantage)
    worth = all_action_advantage(reward, outcomes, advantage)
    return Judged(reward, baseline, advantage, likely.indices, worth)


def habits(words: Tensor, share: Tensor, tools: Tools) -> Logs:
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
    settings, device = tools.settings.cmal, next(tools.plain.parameters()).device
    table = bad_ending_table(vocabulary, device)
    rewards = tools.rewards
    if settings.loose_ends:
        assert rewards is not None
        rewards = LooseEnds(rewards, table, settings.loose_ends)
    return replace(
        tools,
        rewards=rewards,
        bad_endings=table,
        moving=MovingAverage(device) if settings.baseline == "ma" else None,
        start=_frozen(tools) if settings.kl else None,
    )


def _frozen(tools: Tools) -> nn.Module:
    """A copy of the model as it is before the first step: no dropout, all regions, no gradients.

    A run that goes on takes the start model's weights first, and a checkpoint's only after its
    tools are there: the copy is the same one, and no checkpoint needs to have it.
    """
    frozen = copy.deepcopy(tools.plain).eval().requires_grad_(False)
    if tools.settings.engine.compile:
        compile_layers(frozen)
    return frozen


def check_cmal(settings: Settings, words: int) -> None:
    """Refuse settings that cannot be, of a model that can say so many words."""
    if settings.cmal.baseline == "loo" and settings.cmal.samples < 2:
        why = "the leave-one-out baseline needs the rewards of other samples"
        raise ConfigError("cmal.samples", why, 'Take 2 or more, or baseline = "cf".')
    if settings.cmal.gradient == "all" and settings.cmal.baseline != "cf":
        why = f'the baseline "{settings.cmal.baseline}" asks for no counterfactuals to learn from'
        raise ConfigError("cmal.gradient", why, 'Set cmal.baseline = "cf".')
    if settings.cmal.topk > words:
        why = f"{settings.cmal.topk} is more than the {words} words that can be said"
        raise ConfigError("cmal.topk", why, "Lower it.")
