"""Rewards on any device: all rows at once, in tensors of fixed shape, without asking the host.

The arithmetic is that of `numba_rewards`: the c-th occurrence of an n-gram adds (2c − 1)·w² to the
squared norm and t·w² to the product with a reference that has it t ≥ c times. Each n-gram of a row
and of its counterfactuals is looked up once; which of them a counterfactual is made of depends on
nothing but its place, so that is an index computed beforehand. Outside a graph the time is that of
starting its kernels, so their number is kept low.

Shapes: B rows, N words, k alternatives, C = 1 + N·k sentences of a row (itself, then with one word
replaced), S n-grams to look up for a row, R references, 4 orders.
"""

import torch
from torch import Tensor

from naic.learn.cider.torch_state import NO_KEY, Pattern, Tables
from naic.metrics.bleu import SMALL, TINY
from naic.text import PERIOD

_SMALLEST = torch.finfo(torch.float64).tiny


def judge(
    words: Tensor,
    alternatives: Tensor,
    image_index: Tensor,
    tables: Tables,
    pattern: Pattern,
    mix: tuple[float, float],
) -> tuple[Tensor, Tensor]:
    """Rewards (B,) of the rows, and (B, N, k) of each row with one word replaced.

    A sentence that comes twice gets the same bits twice: sums run along one row of memory each,
    in the same order for all, and everything else is rounded as IEEE 754 says.
    """
    rows, length = words.shape
    ones = pattern.one.expand(rows, 1)
    said = torch.cat([words, alternatives.flatten(1), ones], 1)  # (B, T)
    said = said.index_select(1, pattern.words)
    packed = pattern.packing.numel()
    windows = said[:, :packed].view(rows, *pattern.packing.shape)  # (B, S, 5)
    # Windows that reach beyond the row are nonsense, and no sentence is long enough for them.
    keys = (windows * pattern.packing).sum(2)  # (B, S)
    amount = 1 + length * alternatives.shape[2]
    sentences = said[:, packed:].view(rows, amount, length)  # (B, C, N)
    lengths = torch.where(sentences == PERIOD, pattern.numbers, pattern.length).amin(2)  # (B, C)
    rewards = _rewards(keys, lengths, image_index, tables, pattern, mix)  # (B, C)
    return rewards[:, 0], rewards[:, 1:].view(alternatives.shape)


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
    shape = (rows, 1, sentences, *pattern.ends.shape)  # (B, 1, C, 4, N)
    times = _counts(keys, image_index, tables)  # (B, R, S)
    weights = _weights(keys, tables)  # (B, S)
    # (B, R, C, 4, N)
    times = times.index_select(2, pattern.sentences).view(rows, times.shape[1], *shape[2:])
    weights = weights.index_select(1, pattern.sentences).view(shape)
    keys = keys.index_select(1, pattern.sentences).view(shape)

    whole = pattern.ends <= lengths[:, None, :, None, None]  # (B, 1, C, 4, N)
    same = (keys[..., None] == keys[..., None, :]) & pattern.earlier  # (B, 1, C, 4, N, N)
    count = same.sum(5, dtype=torch.uint8)  # (B, 1, C, 4, N) c, for the c-th of its kind
    times = times * (times >= count)
    rewards = []
    if mix[0]:
        weights = weights * whole
        halves = (weights * (count - 0.5)).sum(4)  # (B, 1, C, 4) half the squared norm
        products = (weights * times).sum(4)  # (B, R, C, 4)
        cider = _cider(halves, products, lengths, image_index, tables)
        rewards.append(cider if mix[0] == 1 else mix[0] * cider)
    if mix[1]:
        correct = ((times.amax(1) > 0) & whole[:, 0]).sum(3)  # (B, C, 4)
        rewards.append(mix[1] * _bleu(correct, lengths, image_index, tables, pattern))
    return rewards[0] if len(rewards) == 1 else rewards[0] + rewards[1]


def _counts(keys: Tensor, image_index: Tensor, tables: Tables) -> Tensor:
    """(B, R, S) how often each of an image's references has each n-gram."""
    listed = tables.keys[image_index]  # (B, U + 1)
    place = torch.searchsorted(listed, keys)  # (B, S)
    found = listed.gather(1, place) == keys
    return (tables.counts[image_index[:, None], place] * found[..., None]).transpose(1, 2)


def _weights(keys: Tensor, tables: Tables) -> Tensor:
    """(B, S) squared weights: the known ones, or the largest, which all others have."""
    place = torch.searchsorted(tables.known, keys)
    return torch.where(tables.known[place] == keys, tables.weights[place], tables.unseen)


def _cider(
    halves: Tensor, products: Tensor, lengths: Tensor, image_index: Tensor, tables: Tables
) -> Tensor:
    """(B, C) CIDEr-D: the mean over orders and references of clipped cosines, shrunk by length.

    A share has the reference's norm, the square root of the two that `halves` lack, the mean over
    orders and references and CIDEr's factor 10 in it.
    """
    near = tables.nearness[lengths[..., None] - tables.offsets[image_index][:, None]]  # (B, C, R)
    shares = tables.shares[image_index][:, None] * near[..., None]  # (B, C, R, 4)
    norms = halves.transpose(1, 2).clamp(min=_SMALLEST).sqrt()  # (B, C, 1, 4)
    # In one row of memory: sums along other dimensions depend on how many rows there are.
    return (shares * products.transpose(1, 2) / norms).flatten(2).sum(2)


def _bleu(
    correct: Tensor, lengths: Tensor, image_index: Tensor, tables: Tables, pattern: Pattern
) -> Tensor:
    """(B, C) the public code's BLEU-4 of a sentence, its two small constants included."""
    guessed = (lengths[..., None] - pattern.ends[:, 0] + 1).clamp(min=0).double()  # (B, C, 4)
    one, two, three, four = ((correct.double() + TINY) / (guessed + SMALL)).unbind(2)
    # Roots, and a table of exponentials, as those are the same wherever in memory they are taken.
    precision = (one * two * three * four).sqrt().sqrt()  # (B, C)
    references = tables.lengths[image_index][:, None]  # (B, 1, R)
    absent = tables.absent[image_index][:, None]
    # The nearest length, the shorter of two that are as near: the least of both as one number.
    apart = (references - lengths[..., None]).abs() * 2**32 + references
    nearest = torch.where(absent, NO_KEY, apart).amin(2) & (2**32 - 1)
    return torch.where(absent.all(2), 0.0, precision * tables.brevity[lengths, nearest])
