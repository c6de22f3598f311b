"""The four stages side by side: what each of them does with a batch.

All have one signature, so the loop does not know which one it runs. A loss is this batch's share
of the loss of the whole step: the shares of all parts and processes add up to it.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from naic.decode.decoding import Decoding
from naic.decode.policy import log_policy, spoken
from naic.errors import ConfigError
from naic.learn.cider import Rewards
from naic.learn.losses import cross_entropy, leave_one_out, policy_loss
from naic.models.contract import CaptionerSpec
from naic.text import Vocabulary
from naic.train.batches import Batch
from naic.train.chain_stages import (
    chain_cmal,
    chain_xe,
    check_chain_cmal,
    check_chain_xe,
    transitions_of,
)
from naic.train.cmal_stage import check_cmal, cmal, equip_cmal
from naic.train.glancing import glancing
from naic.train.settings import Settings
from naic.train.tools import Logs, StageSpec, Tools


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


def stage_of(settings: Settings) -> StageSpec:
    """The stage that these settings name."""
    if settings.stage not in STAGES:
        hint = f"One of: {', '.join(STAGES)}."
        raise ConfigError("stage", f"there is no {settings.stage!r}", hint)
    return STAGES[settings.stage]


def teacher_xe(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Each word of the captions people wrote, given the words before it (the paper's eq. 1)."""
    if tools.spec.losses is not None:
        return _own_losses(model, batch, tools)
    logits = model(batch.features, batch.mask, batch.words)  # (B, C, N, V)
    loss = tools.cross_entropy(logits, batch.words, smoothing=tools.settings.xe.smoothing)
    loss = loss / batch.normaliser
    return loss, {"loss": loss.detach()}


def student_xe(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Each word by itself, given the image alone (the paper's eq. 2 and 3)."""
    if transitions_of(tools.plain) is not None:
        return chain_xe(model, batch, tools)
    if tools.spec.losses is not None:
        return _own_losses(model, batch, tools)
    xe = tools.settings.xe
    if xe.glance:
        return glancing(model, batch, tools)
    logits = model(batch.features, batch.mask)  # (B, 1, N, V): the same for all captions
    loss = tools.cross_entropy(logits, batch.words, smoothing=xe.smoothing, fill=xe.fill)
    loss = loss / batch.normaliser
    return loss, {"loss": loss.detach()}


def _own_losses(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """The losses that a captioner has of its own (`CaptionerSpec.losses`)."""
    assert tools.spec.losses is not None
    learn = partial(tools.cross_entropy, smoothing=tools.settings.xe.smoothing)
    sums = tools.spec.losses(model, batch.features, batch.mask, batch.words, learn)
    parts = {f"loss_{name}": value / batch.normaliser for name, value in sums.items()}
    loss = torch.stack(list(parts.values())).sum()
    return loss, {"loss": loss.detach(), **{name: part.detach() for name, part in parts.items()}}


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


def _cmal(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """For agents that hear each other, and for those that do not."""
    hear = transitions_of(tools.plain) is not None
    return chain_cmal(model, batch, tools) if hear else cmal(model, batch, tools)


def _check_cmal(settings: Settings, words: int) -> None:
    check_chain_cmal(settings)  # first: the other's hints are for agents that hear nobody
    check_cmal(settings, words)


def _check_scst(settings: Settings, words: int) -> None:
    if settings.scst.baseline == "loo" and settings.scst.samples < 2:
        why = "the leave-one-out baseline needs the rewards of other samples"
        raise ConfigError("scst.samples", why, 'Take 2 or more, or baseline = "greedy".')


_SLOWER = "Lower schedule.learning_rate, or warm up longer (schedule.warmup_steps)."
STAGES: dict[str, StageSpec] = {  # a new one is a line here, and a table in `settings.py`
    "teacher_xe": StageSpec(teacher_xe, "xe", reads_words=True, advice=_SLOWER),
    "scst": StageSpec(
        scst,
        "scst",
        reads_words=True,
        advice="Lower schedule.learning_rate (5e-6 to 1e-5 held where 3e-5 collapsed), start from "
        "a teacher trained without label smoothing, or take more scst.samples.",
        reward=lambda settings: settings.scst,
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
        check=lambda settings, _: check_chain_xe(settings),
    ),
    "cmal": StageSpec(
        _cmal,
        "cmal",
        reads_words=False,
        advice="Lower schedule.learning_rate, or train the student longer by cross-entropy first.",
        reward=lambda settings: settings.cmal,
        captions=lambda settings: settings.cmal.xe > 0,
        check=_check_cmal,
        equip=equip_cmal,
    ),
}
