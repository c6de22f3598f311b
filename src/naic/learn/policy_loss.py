"""The policy gradient: what was said, made likelier by as much as it was worth."""

import torch
from torch import Tensor


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


def entropy(log_probs: Tensor) -> Tensor:
    """(...) the entropy of each distribution (..., V), in nats; words with -inf add nothing.

    A policy that is sure of its words has little, and learns no others by sampling.
    """
    # 0·(-inf) would be no number, and neither would its gradient.
    finite = log_probs.clamp(min=torch.finfo(log_probs.dtype).min)
    return -(log_probs.exp() * finite).sum(-1)
