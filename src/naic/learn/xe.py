"""Word-level cross-entropy, for teacher and student alike (the paper's eq. 1 and 3)."""

import torch
import torch.nn.functional as F
from torch import Tensor

from naic.text import PAD, PERIOD


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
    targets = _fill(words) if fill else words
    if logits.shape[1] == words.shape[1]:
        return F.cross_entropy(
            logits.flatten(0, 2).float(),
            targets.flatten(),
            ignore_index=PAD,
            reduction="sum",
            label_smoothing=smoothing,
        )
    return _shared_cross_entropy(logits.squeeze(1).float(), targets.transpose(1, 2), smoothing)


def target_count(words: Tensor, *, fill: bool = False) -> Tensor:
    """0-dim float32, the target words that `cross_entropy` sums over."""
    targets = _fill(words) if fill else words
    return (targets != PAD).sum().float()


def _shared_cross_entropy(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """The same for (B, N, V) logits and (B, N, C) targets.

    The logits are not repeated for each caption: one normaliser serves all C words at a place.
    """
    normaliser = logits.logsumexp(-1, keepdim=True)  # (B, N, 1)
    loss = normaliser - (1 - smoothing) * logits.gather(-1, targets)  # (B, N, C)
    if smoothing:
        loss = loss - smoothing * logits.mean(-1, keepdim=True)
    return loss.where(targets != PAD, 0.0).sum()


def _fill(words: Tensor) -> Tensor:
    """PERIOD for PAD, but not in a caption that is not there, which begins with PAD."""
    after = (words == PAD) & (words[..., :1] != PAD)
    return torch.where(after, PERIOD, words)
