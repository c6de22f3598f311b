"""Rewards on any device: all rows at once, in tensors of fixed shape, without asking the host.

The arithmetic is that of `rewards_numba`: the c-th occurrence of an n-gram adds (2c − 1)·w² to the
squared norm and t·w² to the product with a reference that has it t ≥ c times. Each n-gram of a row
and of its counterfactuals is looked up once; which of them a counterfactual is made of depends on
nothing but its place, so that is an index computed beforehand.

Shapes: B rows, N words, k alternatives, C = 1 + N·k sentences of a row (itself, then with one word
replaced), S n-grams to look up for a row, R references, 4 orders.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad

from naic.learn.frequencies import MULTIPLIER
from naic.learn.ngrams import BITS, ORDERS
from naic.learn.references import SIGMA, SMALL, TINY, References
from naic.text import PERIOD

_NO_KEY = torch.iinfo(torch.int64).max  # sorts behind every n-gram
LONGEST = 127  # words: 2c − 1 fits eight bits
_SMALLEST = torch.finfo(torch.float64).tiny
# The n-grams that hold the word of one agent: (words before it, order less one).
_HOLDING = [(before, n) for before in range(ORDERS) for n in range(before, ORDERS)]


@dataclass(frozen=True, slots=True, eq=False)
class Tables:
    """The arrays of `References` and `Frequencies` on the device, padded against overrunning."""

    starts: Tensor  # (I,)
    sizes: Tensor  # (I,) n-grams of each image
    keys: Tensor  # (G + U,)
    counts: Tensor  # (G + U, R)
    shares: Tensor  # (I, R, 4) 10 / (4 · references · norm): what a product with it is worth
    lengths: Tensor  # (I, R)
    absent: Tensor  # (I, R) true where there is no such reference
    first: Tensor  # (2^b + 1,)
    shift: int
    bucket_keys: Tensor  # (K + W,)
    bucket_weights: Tensor  # (K + W,) squared
    unseen: float  # the squared weight of an n-gram that no two images have
    columns: Tensor  # (U,) 0 to the most n-grams of an image
    steps: Tensor  # (W,) 0 to the most keys of a bucket
    shifts: Tensor  # (4,) 1, 2^14, 2^28, 2^42


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Which n-grams make up which sentence, for one N and k."""

    holding: Tensor  # (N * 10,) the row's n-gram that each changed one comes from, in 4 * N
    shifts: Tensor  # (10,) what a difference in the word adds to the packed n-gram
    sentences: Tensor  # (C * 4 * N,) the n-grams of each sentence, in S
    others: Tensor  # (N, N) true but on the diagonal
    earlier: Tensor  # (N, N) true where the second place is not after the first
    ends: Tensor  # (4, N) how many words a sentence needs for the n-gram to be whole
    places: Tensor  # (N, 1)


def make_tables(references: References, device: torch.device) -> Tables:
    """Bring the tables to the device."""
    frequencies = references.frequencies

    def put(array: npt.NDArray[Any]) -> Tensor:
        return torch.as_tensor(array, device=device)

    most, widest = references.widest, frequencies.widest
    amounts = np.maximum(1, references.amounts)[:, None, None]
    shares = 10.0 / (ORDERS * amounts) * references.inverse_norms  # (I, R, 4)
    numbers = np.arange(references.lengths.shape[1])
    return Tables(
        starts=put(references.starts[:-1]),
        sizes=put(np.diff(references.starts)),
        keys=pad(put(references.keys), (0, most), value=_NO_KEY),
        counts=pad(put(references.counts), (0, 0, 0, most)),
        shares=put(shares),
        lengths=put(references.lengths),
        absent=put(numbers >= references.amounts[:, None]),
        first=put(frequencies.first),
        shift=frequencies.shift,
        bucket_keys=pad(put(frequencies.bucket_keys), (0, widest), value=_NO_KEY),
        bucket_weights=pad(
            put(frequencies.squared_weights(frequencies.bucket_documents)), (0, widest)
        ),
        unseen=float(frequencies.weights[0]),
        columns=torch.arange(most, device=device),
        steps=torch.arange(widest, device=device),
        shifts=1 << BITS * torch.arange(ORDERS, device=device),
    )


def make_pattern(length: int, choices: int, device: torch.device) -> Pattern:
    """The index of sentences into n-grams."""
    if length > LONGEST:
        raise ValueError(f"sentences of {length} words; occurrences are counted up to {LONGEST}")
    own = length * ORDERS
    sentences = torch.arange(own).repeat(1 + length * choices, 1)  # (C, 4 * N)
    holding = torch.zeros(length, len(_HOLDING), dtype=torch.int64)
    for agent in range(length):
        for i, (before, n) in enumerate(_HOLDING):
            if before > agent:  # it would begin before the sentence; nothing points to it
                continue
            place = n * length + agent - before
            holding[agent, i] = place
            changed = agent * choices + torch.arange(choices)
            sentences[1 + changed, place] = own + changed * len(_HOLDING) + i
    places = torch.arange(length)
    return Pattern(
        holding.flatten().to(device),
        torch.tensor([1 << BITS * before for before, _ in _HOLDING], device=device),
        sentences.flatten().to(device),
        (places[:, None] != places).to(device),
        (places[:, None] >= places).to(device),
        (torch.arange(1, ORDERS + 1)[:, None] + places).to(device),
        places[:, None].to(device),
    )


def judge(
    words: Tensor,
    alternatives: Tensor,
    image_index: Tensor,
    tables: Tables,
    pattern: Pattern,
    mix: tuple[float, float],
) -> tuple[Tensor, Tensor]:
    """Rewards (B,) of the rows, and (B, N, k) of each row with one word replaced."""
    rows, length, choices = alternatives.shape
    keys = _ngrams(words, alternatives, tables, pattern)  # (B, S)
    lengths = _lengths(words, alternatives, pattern)  # (B, C)
    rewards = _rewards(keys, lengths, image_index, tables, pattern, mix)  # (B, C)
    base = rewards[:, :1, None]  # (B, 1, 1)
    outcomes = rewards[:, 1:].view(rows, length, choices)
    # Equal sentences must have equal rewards to the last bit, whatever the order of additions.
    same = (alternatives == words[..., None]) | (pattern.places >= lengths[:, :1, None])
    return rewards[:, 0], torch.where(same, base, outcomes)


def _ngrams(words: Tensor, alternatives: Tensor, tables: Tables, pattern: Pattern) -> Tensor:
    """(B, S) the packed n-grams of the rows (4·N), then those with a word replaced (N·k·10)."""
    rows, length, _ = alternatives.shape
    windows = pad(words + 1, (0, ORDERS - 1)).unfold(1, ORDERS, 1)  # (B, N, 4)
    own = (windows * tables.shifts).cumsum(2).transpose(1, 2).flatten(1)  # (B, 4 * N)
    before = own.index_select(1, pattern.holding).view(
        rows, length, 1, len(_HOLDING)
    )  # (B, N, 1, 10)
    change = (alternatives - words[..., None])[..., None] * pattern.shifts  # (B, N, k, 10)
    return torch.cat([own, (before + change).flatten(1)], 1)


def _lengths(words: Tensor, alternatives: Tensor, pattern: Pattern) -> Tensor:
    """(B, C) the words of each sentence: up to its first period, that included."""
    length = words.shape[1]
    ends = torch.where(words == PERIOD, pattern.places[:, 0] + 1, length)  # (B, N)
    others = torch.where(pattern.others, ends[:, None], length).amin(2)  # (B, N)
    replaced = torch.where(alternatives == PERIOD, pattern.places + 1, length)  # (B, N, k)
    changed = torch.minimum(others[..., None], replaced).flatten(1)
    return torch.cat([ends.amin(1, keepdim=True), changed], 1)


def _rewards(
    keys: Tensor,
    lengths: Tensor,
    image_index: Tensor,
    tables: Tables,
    pattern: Pattern,
    mix: tuple[float, float],
) -> Tensor:
    """(B, C) the reward of each sentence."""
    rows, sentences = lengths.shape
    times = _counts(keys, image_index, tables)  # (B, R, S)
    shape = (rows, 1, sentences, *pattern.ends.shape)  # (B, 1, C, 4, N)
    weights = _weights(keys, tables)  # (B, S)
    # (B, R, C, 4, N)
    times = times.index_select(2, pattern.sentences).view(rows, times.shape[1], *shape[2:])
    weights = weights.index_select(1, pattern.sentences).view(shape)
    keys = keys.index_select(1, pattern.sentences).view(shape)

    whole = pattern.ends <= lengths[:, None, :, None, None]  # (B, 1, C, 4, N)
    same = (keys[..., None] == keys[..., None, :]) & pattern.earlier  # (B, 1, C, 4, N, N)
    count = same.sum(5, dtype=torch.uint8)  # (B, 1, C, 4, N) c, for the c-th of its kind
    times = times * (times >= count)
    rewards = torch.zeros_like(lengths, dtype=torch.float64)
    if mix[0]:
        weights = weights * whole
        norms = (weights * (2 * count - 1)).sum(4)  # (B, 1, C, 4)
        products = (weights * times).sum(4)  # (B, R, C, 4)
        rewards = rewards + mix[0] * _cider(norms, products, lengths, image_index, tables)
    if mix[1]:
        correct = ((times.amax(1) > 0) & whole[:, 0]).sum(3)  # (B, C, 4)
        rewards = rewards + mix[1] * _bleu(correct, lengths, image_index, tables, pattern)
    return rewards


def _counts(keys: Tensor, image_index: Tensor, tables: Tables) -> Tensor:
    """(B, R, S) how often each of an image's references has each n-gram."""
    starts = tables.starts[image_index][:, None]  # (B, 1)
    listed = tables.keys[starts + tables.columns]  # (B, U)
    inside = tables.columns < tables.sizes[image_index][:, None]
    listed = torch.where(inside, listed, _NO_KEY)
    place = torch.searchsorted(listed, keys).clamp(max=listed.shape[1] - 1)  # (B, S)
    found = listed.gather(1, place) == keys
    return (tables.counts[starts + place] * found[..., None]).transpose(1, 2)


def _weights(keys: Tensor, tables: Tables) -> Tensor:
    """(B, S) squared weights: those found in the bucket, or the largest, which the others have."""
    bucket = (keys * MULTIPLIER >> tables.shift) & (len(tables.first) - 2)
    place = tables.first[bucket][..., None] + tables.steps  # (B, S, W)
    found = tables.bucket_keys[place] == keys[..., None]
    return torch.where(found, tables.bucket_weights[place], tables.unseen).amin(2)


def _cider(
    norms: Tensor, products: Tensor, lengths: Tensor, image_index: Tensor, tables: Tables
) -> Tensor:
    """(B, C) CIDEr-D: the mean over orders and references of clipped cosines, shrunk by length."""
    # The public code's length is the number of bigrams: no words and one word are alike.
    references = tables.lengths[image_index].clamp(min=1)[:, None]  # (B, 1, R)
    apart = lengths.clamp(min=1)[..., None] - references  # (B, C, R)
    near = torch.exp(apart.double().square() * (-0.5 / SIGMA**2))
    shares = tables.shares[image_index][:, None] * near[..., None]  # (B, C, R, 4)
    norms = norms.transpose(1, 2).clamp(min=_SMALLEST).sqrt()  # (B, C, 1, 4)
    # In one row of memory: sums along other dimensions depend on how many rows there are.
    return (shares * products.transpose(1, 2) / norms).flatten(2).sum(2)


def _bleu(
    correct: Tensor, lengths: Tensor, image_index: Tensor, tables: Tables, pattern: Pattern
) -> Tensor:
    """(B, C) the public code's BLEU-4 of a sentence, its two small constants included."""
    guessed = (lengths[..., None] - pattern.ends[:, 0] + 1).clamp(min=0).double()  # (B, C, 4)
    precision = ((correct.double() + TINY) / (guessed + SMALL)).prod(2) ** 0.25
    references = tables.lengths[image_index][:, None]  # (B, 1, R)
    absent = tables.absent[image_index][:, None]
    # The nearest length, the shorter of two that are as near: the least of both as one number.
    apart = (references - lengths[..., None]).abs() * 2**32 + references
    nearest = torch.where(absent, _NO_KEY, apart).amin(2) & (2**32 - 1)
    ratio = (lengths.double() + TINY) / (nearest.double() + SMALL)
    return torch.where(absent.all(2), 0.0, precision * torch.exp((1 - 1 / ratio).clamp(max=0)))
