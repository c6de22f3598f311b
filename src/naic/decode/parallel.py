"""Parallel decoding: all agents say their word at the same moment."""

import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from naic.decode.policy import NEVER, log_policy
from naic.errors import ConfigError
from naic.models.transformer import Captioner

PIECE, MOST_OF_A_PIECE = 256, 16  # words that are looked through together, and taken of them
FEW = 256  # rows; more of them keep a GPU busy by themselves


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
    values, ids = likeliest(log_probs, alternatives)
    return Parallel(ids[..., 0], values[..., 0], ids, values)


def likeliest(log_probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest of (..., V) log-probabilities, best first, and their words."""
    words = log_probs.shape[-1]
    few = words >= 2 * PIECE and log_probs.numel() <= FEW * words and count <= MOST_OF_A_PIECE
    if log_probs.is_cuda and few:
        return by_pieces(log_probs, count)
    values, ids = log_probs.topk(count, dim=-1)
    return values, ids


def by_pieces(log_probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same, in two steps.

    On a GPU one block of threads looks through a whole row, and there are few rows: a vocabulary is
    cut in pieces that are looked through side by side, and then the best of these.
    """
    filled = F.pad(log_probs, (0, -log_probs.shape[-1] % PIECE), value=-math.inf)
    pieces = filled.view(*filled.shape[:-1], -1, PIECE)  # (..., V / P, P)
    best, places = pieces.topk(count, dim=-1, sorted=False)
    begins = torch.arange(0, filled.shape[-1], PIECE, device=log_probs.device)[:, None]
    values, chosen = best.flatten(-2).topk(count, dim=-1)
    return values, (places + begins).flatten(-2).gather(-1, chosen)
