"""Beam search: the likeliest sentences, found by following a few at a time."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from naic.decode.policy import log_policy
from naic.decode.stepwise import C, M, Stepwise, may_look
from naic.errors import ConfigError
from naic.text.vocabulary import BOS, PAD, PERIOD


class Beams(NamedTuple):
    """The sentences found, best first.

    Attributes:
        words: (B, keep, N) int64, PAD after the period.
        scores: (B, keep) the sum of the words' log-probabilities. Where there are fewer sentences
            at all than asked for, the rest are empty ones with -inf.
    """

    words: Tensor
    scores: Tensor


@torch.no_grad()
def beam_search(model: Stepwise[M, C], memory: M, width: int, keep: int = 1) -> Beams:
    """The `keep` likeliest of the sentences that a beam of `width` finds for each image.

    A sentence that has said its period keeps its place and its score; there is no length penalty.
    All steps have the same shapes, and on a GPU nothing waits for the host. On a CPU the search
    stops when the best `keep` have ended: the others' scores can only fall.
    """
    if not 0 < keep <= width:
        raise ConfigError(
            "beam", f"width {width} and keep {keep} do not fit", "Give 0 < keep <= width."
        )
    batch, device = memory.batch, memory.device
    cache = model.empty_cache(memory, width)
    word = torch.full((batch, width), BOS, device=device)
    words = torch.full((batch, width, model.length), PAD, device=device)
    ended = torch.zeros((batch, width), dtype=torch.bool, device=device)
    # All beams start out alike, so only the first one counts.
    scores = torch.zeros((batch, width), device=device)
    scores[:, 1:] = -math.inf
    silence = _silence(model.words, device)
    for position in torch.arange(model.length, device=device).unbind(0):
        log_probs = log_policy(model.step(word, position, memory, cache))
        log_probs = torch.where(ended[..., None], silence, log_probs)
        scores, best = (scores[..., None] + log_probs).flatten(1).topk(width)
        parents, word = best // model.words, best % model.words
        words = words.gather(1, parents[..., None].expand_as(words))
        words.index_copy_(2, position.view(1), word[..., None])
        ended = ended.gather(1, parents) | (word == PERIOD)
        cache = model.follow(cache, parents, position)
        if may_look(device) and bool((ended | scores.isneginf())[:, :keep].all()):
            break
    return _best(words, scores, keep)


def _silence(words: int, device: torch.device) -> Tensor:
    """(V,) what follows a period for certain: PAD. Made on the device: a graph can hold it."""
    is_pad = torch.arange(words, device=device) == PAD
    return torch.zeros(words, device=device).masked_fill(~is_pad, -math.inf)


def _best(words: Tensor, scores: Tensor, keep: int) -> Beams:
    """The first `keep`; places that no sentence fills say the period and nothing else."""
    words, scores = words[:, :keep], scores[:, :keep]
    empty = torch.full_like(words, PAD)
    empty[..., 0] = PERIOD
    return Beams(torch.where(scores.isneginf()[..., None], empty, words), scores)
