"""Rewards on any device: all rows at once, in tensors of fixed shape, without asking the host.

The arithmetic is that of `numba_rewards`: the c-th occurrence of an n-gram adds (2c − 1)·w² to the
squared norm and t·w² to the product with a reference that has it t ≥ c times. Each n-gram of a row
and of its counterfactuals is looked up once; which of them a counterfactual is made of depends on
nothing but its place, so that is an index computed beforehand. Outside a graph the time is that of
starting its kernels, so their number is kept low.

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

from naic.errors import DataError
from naic.learn.cider.ngrams import BITS, Frequencies
from naic.learn.cider.references import References
from naic.metrics.cider import SIGMA, SMALL, TINY
from naic.metrics.ngrams import ORDERS
from naic.text import PERIOD

_SMALLEST = torch.finfo(torch.float64).tiny
NO_KEY = 2**62  # sorts behind every n-gram, and is exact as a float, which padding makes of it
LONGEST = 127  # words of a sentence: how often it has an n-gram is counted in eight bits
MOST_BYTES = 16e9  # of the rows of n-grams; COCO has 0.6e9
# The n-grams that hold the word of one agent: (words before it, order less one).
HOLDING = [(before, n) for before in range(ORDERS) for n in range(before, ORDERS)]


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTables:
    """The arrays of `References` and `Frequencies`, with a row of the same width for each image.

    The rows are more than twice as big as what is in them, 0.6 GB for all of COCO, and spare the
    kernels that would put them together.
    """

    keys: Tensor  # (I, U + 1) each image's n-grams, ascending, then NO_KEY
    counts: Tensor  # (I, U + 1, R)
    shares: Tensor  # (I, R, 4) what a product with a reference's vector is worth, see `_cider`
    lengths: Tensor  # (I, R)
    absent: Tensor  # (I, R) true where there is no such reference
    nearness: Tensor  # CIDEr-D's Gaussian of length − offset
    offsets: Tensor  # (I, R)
    brevity: Tensor  # (128, L + 1) BLEU's penalty, by words of the sentence and of the reference
    known: Tensor  # (K + 1,) the n-grams of two training images or more, ascending
    weights: Tensor  # (K + 1,) squared
    unseen: Tensor  # () the squared weight of all the others


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """Which words make up which n-gram, and which n-grams which sentence, for one N and k.

    Words are counted through a row and then through its alternatives, and the number one follows:
    T = N + N·k + 1 of them.
    """

    one: Tensor  # (1, 1) the number one
    words: Tensor  # (S * 5 + C * N,) of each n-gram, with a one; then of each sentence; in T
    packing: Tensor  # (S, 5) what those of an n-gram are multiplied by; 0 beyond its end
    sentences: Tensor  # (C * 4 * N,) the n-grams of each sentence, in S
    numbers: Tensor  # (N,) 1 to N
    length: Tensor  # () N
    ends: Tensor  # (4, N) how many words a sentence needs for the n-gram to be whole
    earlier: Tensor  # (N, N) true where the second place is not after the first


def make_tables(
    references: References, device: torch.device, like: DeviceTables | None = None
) -> DeviceTables:
    """Bring the tables to the device; what n-grams weigh may be there already, as in `like`."""
    frequencies = references.frequencies
    _check_size(references)

    def put(array: npt.NDArray[Any]) -> Tensor:
        return torch.as_tensor(array, device=device)

    amounts = np.maximum(1, references.amounts)[:, None, None]
    numbers = np.arange(references.lengths.shape[1])
    # The public code's length is the number of bigrams: no words and one word are alike.
    lengths = np.maximum(1, references.lengths)
    longest = int(lengths.max())
    known, weights = _known(frequencies, device) if like is None else (like.known, like.weights)
    return DeviceTables(
        keys=_in_rows(put(references.keys), put(references.starts), NO_KEY),
        counts=_in_rows(put(references.counts), put(references.starts), 0),
        shares=put(10 / (ORDERS * amounts * np.sqrt(2)) * references.inverse_norms),
        lengths=put(references.lengths),
        absent=put(numbers >= references.amounts[:, None]),
        nearness=put(np.exp(-(np.arange(-longest, LONGEST + 1) ** 2) / (2 * SIGMA**2))),
        offsets=put(lengths - longest),
        brevity=put(_brevity(longest)),
        known=known,
        weights=weights,
        unseen=torch.tensor(frequencies.weights[0], dtype=torch.float64, device=device),
    )


def _known(frequencies: Frequencies, device: torch.device) -> tuple[Tensor, Tensor]:
    """(K + 1,) the n-grams of two training images or more, and what they weigh."""
    order = np.argsort(frequencies.bucket_keys)
    weights = frequencies.squared_weights(frequencies.bucket_documents[order])
    keys = torch.as_tensor(frequencies.bucket_keys[order], device=device)
    return pad(keys, (0, 1), value=NO_KEY), pad(torch.as_tensor(weights, device=device), (0, 1))


def _check_size(references: References) -> None:
    """One image with far more references than the others makes all rows as long as its own."""
    row = (references.widest + 1) * (8 + references.counts.shape[1])
    if row * len(references) > MOST_BYTES:
        raise DataError(
            "references",
            f"{len(references):,} rows as long as the longest, of {references.widest:,} n-grams, "
            f"would take {row * len(references) / 1e9:.0f} GB",
            "Leave out some of the references of the images that have far more than the others.",
        )


def _brevity(longest: int) -> npt.NDArray[np.float64]:
    """The public code's, with its two small constants."""
    said, wanted = np.arange(LONGEST + 1.0)[:, None], np.arange(longest + 1.0)
    ratio = (said + TINY) / (wanted + SMALL)
    return np.exp(np.minimum(0, 1 - 1 / ratio))


def _in_rows(values: Tensor, starts: Tensor, empty: int) -> Tensor:
    """(G, ...) the values of all images -> (I, U + 1, ...) a row for each, filled up."""
    sizes = starts.diff()  # (I,)
    owners = torch.arange(len(sizes), device=values.device).repeat_interleave(sizes)  # (G,)
    columns = torch.arange(len(values), device=values.device) - starts[owners]
    shape = (len(sizes), int(sizes.max()) + 1, *values.shape[1:])
    rows = torch.full(shape, empty, dtype=values.dtype, device=values.device)
    rows[owners, columns] = values
    return rows


def make_pattern(length: int, choices: int, device: torch.device) -> Pattern:
    """Everything about sentences that does not depend on the words they are made of."""
    if length > LONGEST:
        raise ValueError(f"sentences of {length} words; occurrences are counted up to {LONGEST}")
    places, steps = torch.arange(length), torch.arange(ORDERS)
    # The row itself, then agent by agent its alternatives: (C, N) words, in T.
    agent = places.repeat_interleave(choices)  # (N * k,)
    words = places.repeat(1 + len(agent), 1)
    words[1:][places == agent[:, None]] = length + torch.arange(len(agent))

    before, order = torch.tensor(HOLDING).T  # (10,)
    starts = (agent[:, None] - before).flatten()  # (N * k * 10,); below 0: nothing points to it
    sentence = (1 + torch.arange(len(agent))).repeat_interleave(len(HOLDING))
    orders = torch.cat([steps.repeat_interleave(length), order.repeat(len(agent))])  # (S,)
    starts = torch.cat([places.repeat(ORDERS), starts])
    sentence = torch.cat([torch.zeros(ORDERS * length, dtype=torch.int64), sentence])
    inside = (starts[:, None] + steps).clamp(0, length - 1)  # (S, 4)

    sentences = torch.arange(ORDERS * length).repeat(len(words), 1)  # (C, 4 * N)
    real = starts >= 0
    cell = orders * length + starts
    sentences[sentence[real], cell[real]] = torch.arange(len(starts))[real]
    # Ids are packed with one added, so that no word is zero: the factors' sum, times the one.
    factors = torch.where(steps <= orders[:, None], 1 << BITS * steps, 0)  # (S, 4)
    ngrams = words[sentence[:, None], inside]  # (S, 4)
    one = torch.full((len(ngrams), 1), length + len(agent))  # where the number one is, in T
    return Pattern(
        one=torch.ones(1, 1, dtype=torch.int64, device=device),
        words=torch.cat([torch.cat([ngrams, one], 1).flatten(), words.flatten()]).to(device),
        packing=torch.cat([factors, factors.sum(1, keepdim=True)], 1).to(device),
        sentences=sentences.flatten().to(device),
        numbers=(places + 1).to(device),
        length=torch.tensor(length, device=device),
        ends=(steps[:, None] + 1 + places).to(device),
        earlier=(places[:, None] >= places).to(device),
    )


def judge(
    words: Tensor,
    alternatives: Tensor,
    image_index: Tensor,
    tables: DeviceTables,
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
    tables: DeviceTables,
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


def _counts(keys: Tensor, image_index: Tensor, tables: DeviceTables) -> Tensor:
    """(B, R, S) how often each of an image's references has each n-gram."""
    listed = tables.keys[image_index]  # (B, U + 1)
    place = torch.searchsorted(listed, keys)  # (B, S)
    found = listed.gather(1, place) == keys
    return (tables.counts[image_index[:, None], place] * found[..., None]).transpose(1, 2)


def _weights(keys: Tensor, tables: DeviceTables) -> Tensor:
    """(B, S) squared weights: the known ones, or the largest, which all others have."""
    place = torch.searchsorted(tables.known, keys)
    return torch.where(tables.known[place] == keys, tables.weights[place], tables.unseen)


def _cider(
    halves: Tensor, products: Tensor, lengths: Tensor, image_index: Tensor, tables: DeviceTables
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
    correct: Tensor, lengths: Tensor, image_index: Tensor, tables: DeviceTables, pattern: Pattern
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
