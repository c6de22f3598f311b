"""The four stages side by side: what each of them does with a batch.

All have one signature, so the loop does not know which one it runs. A loss is this batch's share
of the loss of the whole step: the shares of all parts and processes add up to it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import assert_never

import torch
from torch import Tensor, nn

from naic.decode.decoding import Decoding
from naic.decode.policy import choose, log_policy, spoken
from naic.errors import ConfigError
from naic.learn.cider import Mix, Rewards
from naic.learn.losses import (
    MovingAverage,
    bad_ending_table,
    bad_endings,
    counterfactual_advantage,
    cross_entropy,
    leave_one_out,
    policy_loss,
    repeats,
    speakers_entropy,
    team_advantage,
)
from naic.models.contract import CaptionerSpec
from naic.text import Vocabulary
from naic.train.batches import Batch
from naic.train.glancing import glancing
from naic.train.settings import Settings

Logs = dict[str, Tensor]  # 0-dim each: this batch's share of the step's value


@dataclass(frozen=True)
class Tools:
    """What a stage needs beside the model and the batch."""

    settings: Settings
    spec: CaptionerSpec
    plain: nn.Module  # the model without its wrapper for several processes: for decoding
    rewards: Rewards | None = None  # for scst and cmal
    cross_entropy: Callable[..., Tensor] = cross_entropy  # or its compiled form
    bad_endings: Tensor | None = None  # for cmal: (V,) words that no sentence should end on
    moving: MovingAverage | None = None  # for the baseline "ma"; the engine feeds it


def make_tools(
    settings: Settings,
    spec: CaptionerSpec,
    model: nn.Module,
    vocabulary: Vocabulary,
    rewards: Rewards | None,
    cross_entropy: Callable[..., Tensor] = cross_entropy,
) -> Tools:
    """The tools of a stage that is about to begin, on the device of the model."""
    tools = Tools(settings, spec, model, rewards, cross_entropy)
    return stage_of(settings).equip(tools, vocabulary)


@dataclass(frozen=True)
class StageSpec:
    """One way to train: what a step does, and all that the rest of training knows of it.

    Attributes:
        step: the loss of a batch, and what is logged of it.
        table: where its own settings are in a run's, such as "cmal".
        reads_words: whether it is for captioners that are given the words before the next one.
        advice: what to change when a run of it has gone wrong.
        reward: of what it learns from rewards, how these are mixed; such a stage improves a model
            that can already caption. None: it learns from captions.
        samples: whether the captioner must be able to sample.
        dropout: whether the model is trained with it.
        fill: whether the places after the period are targets too.
        check: refuses settings that cannot be, of a model that can say so many words.
        equip: adds to the tools what only this stage needs.
    """

    step: Callable[[nn.Module, Batch, Tools], tuple[Tensor, Logs]]
    table: str
    reads_words: bool
    advice: str
    reward: Callable[[Settings], Mix] | None = None
    samples: bool = False
    dropout: Callable[[Settings], bool] = lambda _: True
    fill: Callable[[Settings], bool] = lambda _: False
    check: Callable[[Settings, int], None] = lambda _settings, _words: None
    equip: Callable[[Tools, Vocabulary], Tools] = lambda tools, _vocabulary: tools


def stage_of(settings: Settings) -> StageSpec:
    """The stage that these settings name."""
    if settings.stage not in STAGES:
        hint = f"One of: {', '.join(STAGES)}."
        raise ConfigError("stage", f"there is no {settings.stage!r}", hint)
    return STAGES[settings.stage]


def teacher_xe(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Each word of the captions people wrote, given the words before it (the paper's eq. 1)."""
    logits = model(batch.features, batch.mask, batch.words)  # (B, C, N, V)
    loss = tools.cross_entropy(logits, batch.words, smoothing=tools.settings.xe.smoothing)
    loss = loss / batch.normaliser
    return loss, {"loss": loss.detach()}


def student_xe(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Each word by itself, given the image alone (the paper's eq. 2 and 3)."""
    xe = tools.settings.xe
    if xe.glance:
        return glancing(model, batch, tools)
    logits = model(batch.features, batch.mask)  # (B, 1, N, V): the same for all captions
    loss = tools.cross_entropy(logits, batch.words, smoothing=xe.smoothing, fill=xe.fill)
    loss = loss / batch.normaliser
    return loss, {"loss": loss.detach()}


def scst(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Self-critical training of the teacher: a sampled caption against a baseline.

    Captions are sampled with the key-value cache first; one pass over the whole sentences then
    gives their log-probabilities with gradients.
    """
    settings, rewards = tools.settings.scst, tools.rewards
    assert tools.spec.sample is not None
    assert rewards is not None
    samples = settings.samples
    words = tools.spec.sample(tools.plain, batch.features, batch.mask, samples)  # (B, S, N)
    rows = batch.rows.repeat_interleave(samples)  # (B·S,)
    reward = rewards.score(words.flatten(0, 1), rows).view(-1, samples)  # (B, S)
    if settings.baseline == "loo":
        baseline = leave_one_out(reward)  # (B, S)
    else:
        greedy = tools.spec.caption(tools.plain, batch.features, batch.mask, Decoding())
        baseline = rewards.score(greedy, batch.rows)[:, None]  # (B, 1)
    said = spoken(words)  # (B, S, N)
    policy = log_policy(model(batch.features, batch.mask, words))  # what is no word has -inf
    log_probs = policy.gather(-1, words[..., None])[..., 0]  # (B, S, N)
    advantage = (reward - baseline).float()[..., None]  # (B, S, 1)
    share = batch.images * samples
    loss = policy_loss(log_probs, advantage, said) / share
    return loss, {
        "loss": loss.detach(),
        "reward": reward.sum().float() / share,
        "baseline": baseline.expand_as(reward).sum().float() / share,
        "words": said.sum().float() / share,
    }


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


def _equip_cmal(tools: Tools, vocabulary: Vocabulary) -> Tools:
    device = next(tools.plain.parameters()).device
    moving = MovingAverage(device) if tools.settings.cmal.baseline == "ma" else None
    return replace(tools, bad_endings=bad_ending_table(vocabulary, device), moving=moving)


def _check_scst(settings: Settings, words: int) -> None:
    if settings.scst.baseline == "loo" and settings.scst.samples < 2:
        why = "the leave-one-out baseline needs the rewards of other samples"
        raise ConfigError("scst.samples", why, 'Take 2 or more, or baseline = "greedy".')


def _check_cmal(settings: Settings, words: int) -> None:
    if settings.cmal.baseline == "loo" and settings.cmal.samples < 2:
        why = "the leave-one-out baseline needs the rewards of other samples"
        raise ConfigError("cmal.samples", why, 'Take 2 or more, or baseline = "cf".')
    if settings.cmal.topk > words:
        why = f"{settings.cmal.topk} is more than the {words} words that can be said"
        raise ConfigError("cmal.topk", why, "Lower it.")


_SLOWER = "Lower schedule.learning_rate, or warm up longer (schedule.warmup_steps)."
STAGES: dict[str, StageSpec] = {  # a new one is a line here, and a table in `settings.py`
    "teacher_xe": StageSpec(teacher_xe, "xe", reads_words=True, advice=_SLOWER),
    "scst": StageSpec(
        scst,
        "scst",
        reads_words=True,
        advice="Lower schedule.learning_rate (5e-6 to 1e-5 held where 3e-5 collapsed), start from "
        "a teacher trained without label smoothing, or take more scst.samples.",
        reward=lambda settings: Mix(bleu4=settings.scst.bleu4),
        samples=True,
        dropout=lambda settings: settings.scst.dropout,
        check=_check_scst,
    ),
    "student_xe": StageSpec(
        student_xe,
        "xe",
        reads_words=False,
        advice=_SLOWER,
        fill=lambda settings: settings.xe.fill,
    ),
    "cmal": StageSpec(
        cmal,
        "cmal",
        reads_words=False,
        advice="Lower schedule.learning_rate, or train the student longer by cross-entropy first.",
        reward=lambda settings: Mix(bleu4=settings.cmal.bleu4),
        check=_check_cmal,
        equip=_equip_cmal,
    ),
}
