"""What is made smaller, and what a reward is compared with before it says what a word was worth.

Cross-entropy is for teacher and student alike (the paper's eq. 1 and 3). The policy gradient makes
what was said likelier by as much as it was worth (eq. 4); eq. 5, 6 and 8 leave out the minus sign
of 4, which `policy_loss` puts back. None of the baselines depends on what the agent itself said, so
none of them changes the expected gradient: the tests list all joint actions of small games and add
them up. Baselines and advantages are float64: B images, S sentences sampled for each, N agents, k
alternatives.

The habits of `metrics.habits` are counted here in ids, on the device, while a captioner learns: a
reward can be had by bad habits; seen early, they say so before a validation does.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from naic.decode.policy import spoken
from naic.text.vocabulary import BAD_ENDINGS, PAD, PERIOD, Vocabulary


def cross_entropy(
    logits: Tensor, words: Tensor, *, smoothing: float = 0.0, fill: bool = False
) -> Tensor:
    """The loss summed over all target words; PAD is no target.

    Summed, not averaged: only the caller knows how many words all processes have together. Always
    in float32, whatever the logits are.

    Args:
        logits: (B, C, N, V), or (B, 1, N, V) where all captions of an image share them.
        words: (B, C, N) int64 targets.
        smoothing: how much of the target's weight goes to all V words alike.
        fill: the places after the period are to say the period again.
    """
    targets = fill_periods(words) if fill else words
    if logits.shape[1] == words.shape[1]:
        return F.cross_entropy(
            logits.flatten(0, 2).float(),
            targets.flatten(),
            ignore_index=PAD,
            reduction="sum",
            label_smoothing=smoothing,
        )
    return _shared_cross_entropy(logits.squeeze(1).float(), targets.transpose(1, 2), smoothing)


def _shared_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The same for (B, N, V) logits and (B, N, C) targets.

    The logits are not repeated for each caption: one normaliser serves all C words at a place.
    """
    normaliser = logits.logsumexp(-1, keepdim=True)  # (B, N, 1)
    loss = normaliser - (1 - smoothing) * logits.gather(-1, targets)  # (B, N, C)
    if smoothing:
        loss = loss - smoothing * logits.mean(-1, keepdim=True)
    return loss.where(targets != PAD, 0.0).sum()


def fill_periods(words: Tensor) -> Tensor:
    """PERIOD for PAD, but not in a caption that is not there, which begins with PAD."""
    after = (words == PAD) & (words[..., :1] != PAD)
    return torch.where(after, PERIOD, words)


def policy_loss(log_probs: Tensor, advantages: Tensor, spoken: Tensor) -> Tensor:
    """-Σ A·log π over the words that were spoken; its gradient is that of the paper's eq. 4.

    Summed, not averaged: only the caller knows how many images all processes have together.

    Args:
        log_probs: (..., N) of the words said, with gradients.
        advantages: broadcast to that: (..., N) for agents, (..., 1) for whole sentences. They are
            what the words were worth, a number and no function of the model.
        spoken: (..., N) bool. The rest counts nothing, even where its log-probability is -inf.
    """
    worth = advantages.detach().to(log_probs.dtype)
    return -(log_probs.where(spoken, 0.0) * worth.where(spoken, 0.0)).sum()


def all_action_loss(
    log_probs: Tensor, likely: Tensor, words: Tensor, worth: Tensor, advantage: Tensor
) -> Tensor:
    """-Σ_a [Σ_w π_a(w)·D_a(w) + 1[u_a is none of them]·A_a·log π_a(u_a)], w an agent's k likeliest.

    Eq. 4 is Σ_w ∇π_a(w)·R(u with w at a) in the mean over the others. For the k words whose
    outcomes the counterfactual baseline asks for anyway, that sum is taken as it is: a word need
    not be sampled to be learnt from. The words outside keep the term of `policy_loss`. Unbiased, as
    the baseline in D and A depends on the others only, and Σ ∇π over all V words is zero. With
    k = 1 the one outcome is the baseline, D is zero, and this is `policy_loss`.

    Args:
        log_probs: (B, N, V) the policy, with gradients; no other argument has any.
        likely: (B, N, k) the ids of these words.
        words: (B, S, N) what was said.
        worth: (B, S, N, k) D of `all_action_advantage`.
        advantage: (B, S, N) A of `counterfactual_advantage`.
    """
    chances = log_probs.gather(-1, likely).exp()[:, None]  # (B, 1, N, k)
    summed = -(chances * worth.detach().to(log_probs.dtype)).sum()
    chosen = log_probs.gather(-1, words.transpose(1, 2)).transpose(1, 2)  # (B, S, N)
    outside = (words[..., None] != likely[:, None]).all(-1)  # (B, S, N)
    return summed + policy_loss(chosen, advantage, outside)


def entropy(log_probs: Tensor) -> Tensor:
    """(...) the entropy of each distribution (..., V), in nats; words with -inf add nothing.

    A policy that is sure of its words has little, and learns no others by sampling.
    """
    # 0·(-inf) would be no number, and neither would its gradient.
    finite = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)
    return -(log_probs.exp() * finite).sum(-1)


def speakers_entropy(log_probs: Tensor, said: Tensor) -> Tensor:
    """0-dim: the mean entropy of the agents that speak in a sampled sentence, summed over these.

    An agent after the period changes nothing whatever it says, so that a bonus for its entropy
    costs no reward: it would be spent there, and the sentences stay as they are. Who speaks is
    taken from the samples, as for the advantages: the bonus then goes where the policy gradient
    goes, to an agent as often as it speaks. It is a number and no function of the model, or longer
    sentences would be paid for; and a period before an agent does not depend on its own word.

    Args:
        log_probs: (B, N, V) the policy.
        said: (B, S, N) bool, the words of the sentences up to the period and with it.
    """
    return _over_speakers(entropy(log_probs), said)


def divergence(log_probs: Tensor, others: Tensor) -> Tensor:
    """(...) KL(π ‖ π_others) of distributions (..., V), in nats; words with -inf add nothing.

    Summed over all words in closed form, so that it has no noise of its own.
    """
    lowest = torch.finfo(log_probs.dtype).min  # as in `entropy`
    apart = log_probs.clamp(min=lowest) - others.clamp(min=lowest)
    return (log_probs.exp() * apart).sum(-1)


def speakers_divergence(log_probs: Tensor, others: Tensor, said: Tensor) -> Tensor:
    """0-dim: the mean KL(π ‖ π_others) of the agents that speak in a sampled sentence, summed.

    For the speakers only, as `speakers_entropy` is: what is said after the period is heard by no
    one, and there is nothing to hold on to.

    Args:
        log_probs: (B, N, V) the policy.
        others: (B, N, V) the one that it is not to leave.
        said: (B, S, N) bool, the words of the sentences up to the period and with it.
    """
    return _over_speakers(divergence(log_probs, others), said)


def _over_speakers(values: Tensor, said: Tensor) -> Tensor:
    """0-dim: the mean of (B, N) over the agents that speak, summed over the sentences (B, S, N)."""
    shares = said.to(values.dtype)
    shares = shares / shares.sum(-1, keepdim=True)  # the first agent always speaks
    return (shares.sum(1) * values).sum()


DECAY = 0.9  # of the moving average
_SMALLEST = torch.finfo(torch.float64).tiny


def team_advantage(reward: Tensor, baseline: Tensor, said: Tensor) -> Tensor:
    """(B, S, N) R(u) − b, the same for all agents of a sentence (eq. 6; with b = 0 eq. 5).

    An agent after the period changes nothing whatever it says, so its advantage is noise without
    a meaning, and is left out. That keeps the gradient unbiased: whether there was a period before
    it does not depend on its own word.

    Args:
        reward: (B, S) of the sentences.
        baseline: broadcast to that.
        said: (B, S, N) the words up to the period and with it.
    """
    return torch.where(said, (reward - baseline)[..., None], 0.0)


def counterfactual_advantage(reward: Tensor, outcomes: Tensor, log_probs: Tensor) -> Tensor:
    """(B, S, N) Σ π'(w)·(R(u) − R(u with w at a)), each agent its own (eq. 7, 9 and 10).

    As a sum of differences it is exactly zero where nothing changes, after the period as well, so
    that no agent needs to be left out.

    Args:
        reward: (B, S) of the sentences.
        outcomes: (B, S, N, k) the rewards with one agent's word replaced by its alternatives.
        log_probs: (B, N, k) of these. π' is renormalised over them: in float64, or else what is
            missing from a sum of one would bring the agent's own word into its baseline.
    """
    weights = log_probs.double().softmax(-1)[:, None]  # (B, 1, N, k)
    return (weights * (reward[..., None, None] - outcomes)).sum(-1)


def all_action_advantage(reward: Tensor, outcomes: Tensor, advantage: Tensor) -> Tensor:
    """(B, S, N, k) D: each outcome against the same baseline, R(u with w at a) − b_a.

    As R(u with w at a) − R(u) + A: exactly zero where nothing changes, like A itself.

    Args:
        reward: (B, S) of the sentences.
        outcomes: (B, S, N, k) the rewards with one agent's word replaced by its alternatives.
        advantage: (B, S, N) A of `counterfactual_advantage`, which is R(u) − b_a.
    """
    return outcomes - reward[..., None, None] + advantage[..., None]


def leave_one_out(reward: Tensor) -> Tensor:
    """(B, S) the mean reward of the image's other sentences: b of eq. 6. Needs S of 2 or more."""
    return (reward.sum(1, keepdim=True) - reward) / (reward.shape[1] - 1)


class MovingAverage:
    """The mean reward of past steps, the newest counting most: b of eq. 6, alike for all images.

    Two numbers on the device, changed in place: a CUDA graph can hold it, and nothing waits for
    the host. The weights of the steps so far are summed beside the rewards, so that the first
    steps are not compared with an average that still holds zeros.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.state = torch.zeros(2, dtype=torch.float64, device=device)  # rewards, their weights

    @property
    def value(self) -> Tensor:
        """0-dim, the average; 0 before the first step."""
        total, weight = self.state.unbind()
        return total / weight.clamp(min=_SMALLEST)

    def update(self, reward: Tensor) -> None:
        """Take in the mean reward of a whole step, 0-dim; after the step has used the average."""
        new = torch.stack([reward.detach().double(), torch.ones_like(self.state[0])])
        self.state.lerp_(new, 1 - DECAY)


def bad_ending_table(vocabulary: Vocabulary, device: torch.device | str) -> Tensor:
    """(V,) True for the words that no sentence should end on."""
    bad = [word in BAD_ENDINGS for word in vocabulary.words]
    return torch.tensor(bad, device=device)


def repeats(words: Tensor) -> Tensor:
    """(...) whether a sentence of (..., N) has a word twice in a row ("a girl girl riding")."""
    twice = words[..., 1:] == words[..., :-1]
    return (twice & spoken(words)[..., 1:]).any(-1)


def bad_endings(words: Tensor, table: Tensor) -> Tensor:
    """(...) whether the last word of (..., N) is in the table; an empty sentence has none."""
    length = (spoken(words) & (words != PERIOD)).sum(-1, keepdim=True)
    # Of an empty sentence the first word is the period, which is in no table of words.
    last = words.gather(-1, (length - 1).clamp(min=0))[..., 0]
    return table[last]
