"""student_xe and cmal of agents that hear each other a little (`models/chain.py`).

What is learnt is the probability of whole sentences: captions by their likelihood, sampled
sentences by their reward. The rest is as for agents that do not hear each other.
"""

from dataclasses import fields

import torch
from torch import Tensor, nn

from naic.decode.policy import spoken
from naic.errors import ConfigError
from naic.learn.chain_losses import sentence_loss
from naic.learn.losses import policy_loss, team_advantage
from naic.models.chain import (
    Chain,
    Steps,
    Transitions,
    divergence,
    entropy,
    log_prob,
    marginals,
    sample,
    steps,
    tempered,
    viterbi,
)
from naic.train.batches import Batch
from naic.train.cmal_stage import habits, team_baseline
from naic.train.settings import CMALSettings, Settings
from naic.train.tools import Logs, Tools

# Of [cmal], what a chain knows.
_KNOWN = (
    *("topk", "baseline", "samples", "temperature", "entropy", "xe", "kl"),
    *("cider", "bleu4", "loose_ends", "reward"),
)


def transitions_of(model: nn.Module) -> Transitions | None:
    """What the agents of a captioner hear of each other; None: nothing."""
    found = getattr(model, "transitions", None)
    return found if isinstance(found, Transitions) else None


def chain_xe(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """Each caption as a whole, and a little of each word by itself (`xe.words`).

    Without the latter an agent could leave it to its neighbours which words go with the image, and
    the likeliest words, which are all that the chain is over, would be no good choice.
    """
    xe, transitions = tools.settings.xe, transitions_of(tools.plain)
    assert transitions is not None
    logits, context = model(batch.features, batch.mask)  # (B, 1, N, V), (B, 1, N, r)
    sentences = sentence_loss(transitions, logits, context, batch.words) / batch.normaliser
    words = tools.cross_entropy(logits, batch.words, smoothing=xe.smoothing) / batch.normaliser
    loss = sentences + xe.words * words
    return loss, {
        "loss": loss.detach(),
        "loss_sentences": sentences.detach(),
        "loss_words": words.detach(),
    }


def chain_cmal(model: nn.Module, batch: Batch, tools: Tools) -> tuple[Tensor, Logs]:
    """The policy gradient of the team (eq. 6) on the exact log-probability of its sentences.

    The sum over agents of eq. 5 becomes that of the chain: what an agent says given the one before.
    """
    settings, transitions = tools.settings.cmal, transitions_of(tools.plain)
    assert transitions is not None
    logits, context = model(batch.features, batch.mask)  # (B, 1, N, V), (B, 1, N, r)
    chain = tempered(transitions.chain(logits[:, 0], context[:, 0]), settings.temperature)
    policy = steps(chain)
    words = sample(policy, settings.samples)  # (B, S, N)
    reward, baseline = _judge(chain, words, batch, tools)
    said = spoken(words)
    advantage = team_advantage(reward, baseline, said)  # (B, S, N)
    share = batch.images * settings.samples
    rewarded = batch.judged * settings.samples  # images without references have no advantages
    loss = policy_loss(log_prob(policy, words), advantage, said) / rewarded
    unsure = _unsure(policy if settings.entropy else _detached(policy)) / batch.images
    if settings.entropy:
        loss = loss - settings.entropy * unsure
    anchors: Logs = {}
    if settings.xe:
        anchors["xe"] = sentence_loss(transitions, logits, context, batch.words) / batch.normaliser
        loss = loss + settings.xe * anchors["xe"]
    if settings.kl:
        anchors["kl"] = _from_start(policy, batch, tools) / batch.images
        loss = loss + settings.kl * anchors["kl"]
    sizes = advantage.abs().sum((0, 1)).float() / rewarded  # (N,)
    return loss, {
        "loss": loss.detach(),
        "reward": reward.sum().float() / rewarded,
        "baseline": baseline.expand_as(reward).sum().float() / rewarded,
        "entropy": unsure.detach(),
        **{name: value.detach() for name, value in anchors.items()},
        **habits(words, share, tools),
        "advantage": sizes.mean(),
        **{f"advantage_{agent:02d}": size for agent, size in enumerate(sizes.unbind(), 1)},
    }


def _judge(chain: Chain, words: Tensor, batch: Batch, tools: Tools) -> tuple[Tensor, Tensor]:
    """Rewards (B, S) of sentences (B, S, N), and the baseline, broadcast to that."""
    settings, rewards = tools.settings.cmal, tools.rewards
    assert rewards is not None
    if settings.baseline == "cf":
        raise _no_counterfactuals()
    rows = batch.rows.repeat_interleave(settings.samples)  # (B·S,)
    reward = rewards.score(words.flatten(0, 1), rows).view_as(words[..., 0])
    return reward, team_baseline(reward, lambda: viterbi(chain), batch, tools)


def _unsure(policy: Steps) -> Tensor:
    """0-dim: the mean entropy of the agents that speak, given the word before, summed over images.

    Exact, not by what was sampled. How often an agent speaks is a number and no function of the
    model, as in `speakers_entropy`: longer sentences are not paid for.
    """
    reached = marginals(_detached(policy))  # (B, N, K)
    return (entropy(policy, reached).sum(1) / reached.sum((1, 2))).sum()


def _from_start(policy: Steps, batch: Batch, tools: Tools) -> Tensor:
    """0-dim: how far the speakers have gone from where the run began, summed over images.

    As for `_unsure`, exact; the start model's chain is over the same candidates.
    """
    assert tools.start is not None
    transitions = transitions_of(tools.start)
    assert transitions is not None
    with torch.no_grad():
        logits, context = tools.start(batch.features, batch.mask)
        chain = transitions.chain(logits[:, 0], context[:, 0], policy.words)
        start = steps(tempered(chain, tools.settings.cmal.temperature))
    reached = marginals(_detached(policy))  # (B, N, K)
    return (divergence(policy, start, reached).sum(1) / reached.sum((1, 2))).sum()


def _detached(policy: Steps) -> Steps:
    return Steps(*(part.detach() for part in policy))


def check_chain_xe(settings: Settings) -> None:
    """Refuse what a chain cannot learn from captions."""
    if settings.model.get("transitions") and settings.xe.fill:
        why = "with model.transitions, what is said after the period is no part of the sentence"
        raise ConfigError("xe.fill", why, "Leave it out.")
    if settings.model.get("transitions") and settings.xe.glance:
        why = "with model.transitions an agent hears its neighbours, and is not told words as well"
        raise ConfigError("xe.glance", why, "Leave one of the two out.")


def check_chain_cmal(settings: Settings) -> None:
    """Refuse what cannot be said of agents that hear each other, or not yet."""
    if not settings.model.get("transitions"):
        return
    if settings.cmal.baseline == "cf":
        raise _no_counterfactuals()
    plain = CMALSettings()
    for one in fields(plain):
        if one.name not in _KNOWN and getattr(settings.cmal, one.name) != getattr(plain, one.name):
            why = "is not for agents that hear each other (model.transitions)"
            raise ConfigError(f"cmal.{one.name}", why, "Leave it out.")


def _no_counterfactuals() -> ConfigError:
    why = (
        "with model.transitions the agents after one depend on its word: a reward with their words "
        "kept does too, and would be no baseline but a bias"
    )
    return ConfigError("cmal.baseline", f'"cf" cannot be: {why}', 'Use "loo", samples = 5.')
