"""The four stages side by side: what each of them does with a batch.

All have one signature, so the loop does not know which one it runs. A loss is this batch's share
of the loss of the whole step: the shares of all parts and processes add up to it.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from naic.captioners.families import Family
from naic.decode.decoding import Decoding
from naic.decode.policy import log_policy
from naic.decode.said import spoken
from naic.decode.sample import choose
from naic.learn.policy_loss import policy_loss
from naic.learn.rewards import Rewards
from naic.learn.xe import cross_entropy
from naic.train.feed import Batch
from naic.train.settings import Settings

Logs = dict[str, Tensor]  # 0-dim each: this batch's share of the step's value


@dataclass(frozen=True)
class Tools:
    """What a stage needs beside the model and the batch."""

    settings: Settings
    family: Family
    plain: nn.Module  # the model without its wrapper for several processes: for decoding
    rewards: Rewards | None = None  # for scst and cmal
    cross_entropy: Callable[..., Tensor] = cross_entropy  # or its compiled form


Step = Callable[[nn.Module, Batch, Tools], tuple[Tensor, Logs]]


def teacher_xe(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Each word of the captions people wrote, given the words before it (the paper's eq. 1)."""
    logits = model(batch.features, batch.mask, batch.words)  # (B, C, N, V)
    loss = tools.cross_entropy(logits, batch.words, smoothing=tools.settings.xe.smoothing)
    loss = loss / batch.normaliser
    return loss, {"loss": loss.detach()}


def student_xe(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Each word by itself, given the image alone (the paper's eq. 2 and 3)."""
    xe = tools.settings.xe
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
    assert tools.family.sample is not None
    assert rewards is not None
    samples = settings.samples
    words = tools.family.sample(tools.plain, batch.features, batch.mask, samples)  # (B, S, N)
    rows = batch.rows.repeat_interleave(samples)  # (B·S,)
    reward = rewards.score(words.flatten(0, 1), rows).view(-1, samples)  # (B, S)
    if settings.baseline == "loo":
        baseline = (reward.sum(1, keepdim=True) - reward) / (samples - 1)  # (B, S)
    else:
        greedy = tools.family.caption(tools.plain, batch.features, batch.mask, Decoding())
        baseline = rewards.score(greedy, batch.rows)[:, None]  # (B, 1)
    said = spoken(words)  # (B, S, N)
    log_probs = _log_probs_of(model(batch.features, batch.mask, words), words)  # (B, S, N)
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
    """Counterfactuals-critical multi-agent learning (the paper's eq. 4, 9 and 10).

    All agents speak at once; each is judged by what the reward would have been on the average of
    its own most likely words, everybody else's words kept.
    """
    rewards, topk = tools.rewards, tools.settings.cmal.topk
    assert rewards is not None
    log_probs = log_policy(model(batch.features, batch.mask)[:, 0])  # (B, N, V)
    policy = log_probs.detach()
    words = choose(policy)  # (B, N)
    likely = policy.topk(topk)  # (B, N, k)
    weights = likely.values.softmax(-1).double()  # renormalised over the k words
    reward, outcomes = rewards.judge(words, likely.indices, batch.rows)  # (B,), (B, N, k)
    # Written as a sum of differences, it is exactly zero where nothing changes.
    advantage = (weights * (reward[:, None, None] - outcomes)).sum(-1).float()  # (B, N)
    chosen = log_probs.gather(-1, words[..., None])[..., 0]  # (B, N)
    # Agents after the period have no advantage; nothing needs to be masked.
    loss = policy_loss(chosen, advantage, torch.ones_like(words, dtype=torch.bool)) / batch.images
    return loss, {
        "loss": loss.detach(),
        "reward": reward.sum().float() / batch.images,
        "advantage": advantage.abs().mean(1).sum() / batch.images,
        "words": spoken(words).sum().float() / batch.images,
    }


STAGES: dict[str, Step] = {
    "teacher_xe": teacher_xe,
    "scst": scst,
    "student_xe": student_xe,
    "cmal": cmal,
}


def _log_probs_of(logits: Tensor, words: Tensor) -> Tensor:
    """(..., N) the policy's log-probabilities of the words; what is no word has -inf."""
    return log_policy(logits).gather(-1, words[..., None])[..., 0]
