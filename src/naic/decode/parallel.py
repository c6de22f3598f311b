"""Parallel decoding: all agents say their word at the same moment."""

from typing import NamedTuple

import torch
from torch import Tensor

from naic.decode.policy import NEVER, log_policy
from naic.errors import ConfigError
from naic.models.captioner import Captioner


class Parallel(NamedTuple):
    """What the agents say.

    Attributes:
        words: (B, N) int64, the likeliest word of every agent; the sentence ends with the first
            period, and the words after it are kept: they count if the period is replaced.
        log_probs: (B, N) how sure each agent is.
        alternatives: (B, N, k) the likeliest words, best first, or None if none were asked for.
        alternative_log_probs: (B, N, k) likewise.
    """

    words: Tensor
    log_probs: Tensor
    alternatives: Tensor | None
    alternative_log_probs: Tensor | None


@torch.no_grad()
def parallel(
    model: Captioner, features: Tensor, mask: Tensor | None, alternatives: int = 0
) -> Parallel:
    """One caption for each image, in one pass, and on request each agent's likeliest words."""
    if model.causal:
        raise ConfigError(
            "captioner",
            "a causal one writes word by word, not all words at once",
            "Decode it with greedy, sample or beam_search of naic.decode.",
        )
    most = model.words - len(NEVER)
    if not 0 <= alternatives <= most:
        raise ConfigError(
            "alternatives", f"{alternatives} is out of range", f"Give a number from 0 to {most}."
        )
    log_probs = log_policy(model(features, mask)[:, 0])  # (B, N, V)
    if alternatives == 0:
        best, words = log_probs.max(-1)
        return Parallel(words, best, None, None)
    values, ids = log_probs.topk(alternatives, dim=-1)
    return Parallel(ids[..., 0], values[..., 0], ids, values)
