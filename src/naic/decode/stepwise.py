"""Writing word by word: greedily, by chance, or by beam search, which follows a few sentences.

Nothing here knows a network: a captioner that writes word by word has the few methods of
`Stepwise`, and what it keeps of the images and of the sentences so far is its own affair.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from naic.decode.policy import choose, log_policy
from naic.errors import ConfigError
from naic.text.vocabulary import BOS, PAD, PERIOD


class EncodedImages(Protocol):
    """What a captioner keeps of B images while it writes about them."""

    @property
    def batch(self) -> int:
        """B, the images."""
        ...

    @property
    def device(self) -> torch.device:
        """Where they are."""
        ...


M = TypeVar("M", bound=EncodedImages)
ReadM = TypeVar("ReadM", bound=EncodedImages, contravariant=True)
C = TypeVar("C")  # what it keeps of the sentences so far


class Stepwise(Protocol[ReadM, C]):
    """A captioner that writes word by word.

    Attributes:
        length: N, the words of a sentence at most, its period counted.
        words: V, the size of the vocabulary.
    """

    length: int
    words: int

    def empty_cache(self, memory: ReadM, width: int = 1) -> C:
        """Room for writing `width` sentences an image."""
        ...

    def step(self, words: Tensor, position: Tensor, memory: ReadM, cache: C) -> Tensor:
        """(B, W, V) logits of word `position` (0-dim int64), after hearing `words` (B, W)."""
        ...

    def follow(self, cache: C, parents: Tensor, position: Tensor) -> C:
        """The cache when, after word `position`, sentence w goes on from sentence parents[b, w]."""
        ...


class Sentences(NamedTuple):
    """Sentences, and how sure the captioner was of each word.

    Attributes:
        words: (..., N) int64; PAD after the period.
        log_probs: (..., N) of the policy that picked the words; 0 after the period.
    """

    words: Tensor
    log_probs: Tensor


@torch.no_grad()
def greedy(
    model: Stepwise[M, C], memory: M, hear: Callable[[Tensor], None] | None = None
) -> Sentences:
    """One sentence for each image: the likeliest word, then the likeliest word after it, (B, N).

    `hear` is told of the words (B,) at once, as they are written.
    """

    def pick(log_probs: Tensor) -> Tensor:
        word = log_probs.argmax(-1)
        if hear is not None:
            hear(word[:, 0])
        return word

    found = _write(model, memory, 1, pick)
    return Sentences(found.words[:, 0], found.log_probs[:, 0])


@torch.no_grad()
def sample(model: Stepwise[M, C], memory: M, samples: int = 1) -> Sentences:
    """S sentences for each image, (B, S, N), each word drawn as often as the policy says."""
    if samples < 1:
        raise ConfigError("samples", f"{samples} is out of range", "Give at least 1.")
    return _write(model, memory, samples, choose)


def _write(
    model: Stepwise[M, C], memory: M, width: int, pick: Callable[[Tensor], Tensor]
) -> Sentences:
    """`width` sentences for each image, (B, W, N), that do not know of each other.

    All N steps have the same shapes, and on a GPU nothing waits for the host, so that the whole
    can be captured in a CUDA graph. On a CPU looking is free, so it stops when all have ended.

    Args:
        model: the captioner.
        memory: the images.
        width: sentences for each image.
        pick: log-probabilities (B, W, V) to words (B, W).
    """
    batch, device = memory.batch, memory.device
    cache = model.empty_cache(memory, width)
    word = torch.full((batch, width), BOS, device=device)
    ended = torch.zeros((batch, width), dtype=torch.bool, device=device)
    words, log_probs = [], []
    for position in torch.arange(model.length, device=device).unbind(0):
        choices = log_policy(model.step(word, position, memory, cache))
        word = pick(choices)
        log_prob = choices.gather(-1, word[..., None])[..., 0]
        word = word.masked_fill(ended, PAD)
        words.append(word)
        log_probs.append(log_prob.masked_fill(ended, 0.0))
        ended = ended | (word == PERIOD)
        if may_look(device) and bool(ended.all()):
            break
    return Sentences(_fill(words, model.length, PAD), _fill(log_probs, model.length, 0.0))


def may_look(device: torch.device) -> bool:
    """Whether the host can look at a value at no cost."""
    return device.type == "cpu" and not torch.compiler.is_compiling()


def _fill(columns: list[Tensor], length: int, value: float) -> Tensor:
    """The columns (B, W) side by side, filled up to (B, W, length)."""
    stacked = torch.stack(columns, dim=-1)
    return F.pad(stacked, (0, length - len(columns)), value=value)


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
    return best_of(words, scores, keep)


def _silence(words: int, device: torch.device) -> Tensor:
    """(V,) what follows a period for certain: PAD. Made on the device: a graph can hold it."""
    is_pad = torch.arange(words, device=device) == PAD
    return torch.zeros(words, device=device).masked_fill(~is_pad, -math.inf)


def best_of(words: Tensor, scores: Tensor, keep: int) -> Beams:
    """The first `keep`; places that no sentence fills say the period and nothing else."""
    words, scores = words[:, :keep], scores[:, :keep]
    empty = torch.full_like(words, PAD)
    empty[..., 0] = PERIOD
    return Beams(torch.where(scores.isneginf()[..., None], empty, words), scores)
