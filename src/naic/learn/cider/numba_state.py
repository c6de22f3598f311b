"""What the kernels of `numba_rewards` read and work on, and the smaller kernels they call."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from naic.learn.cider.ngrams import BITS, MULTIPLIER
from naic.learn.cider.references import References
from naic.metrics.cider import SIGMA, SMALL, TINY
from naic.metrics.ngrams import ORDERS
from naic.text import MAX_IDS

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])


def compiled(function: Function) -> Function:
    """Compile without counting references to arrays, since nothing is allocated in here.

    numba would count every array of a tuple at every call, at four times the cost of the work.
    What it compiled is kept beside this file, and not made anew when a constant changes that is
    imported from another one: delete __pycache__ then.
    """
    options: dict[str, Any] = {"cache": True, "nogil": True, "error_model": "numpy", "_nrt": False}
    return cast(Function, numba.njit(**options)(function))


class NumbaTables(NamedTuple):
    """What is known beforehand; see `References` and `Frequencies`."""

    starts: Ints
    keys: Ints
    documents: npt.NDArray[np.int32]
    counts: npt.NDArray[np.uint8]
    inverse_norms: Floats
    lengths: Ints
    amounts: Ints
    first: npt.NDArray[np.int32]
    bucket_keys: Ints
    bucket_documents: npt.NDArray[np.int32]
    shift: int
    weights: Floats  # (images + 1,) squared, by document frequency
    penalties: Floats  # the Gaussian of each difference in length
    mix: Floats  # (2,) how much CIDEr-D and BLEU-4 count


class Sums(NamedTuple):
    """The state of a sentence that is being scored."""

    norms: Floats  # (4,) squared norm of the tf-idf vector
    products: Floats  # (4, R) with each reference's vector, clipped
    correct: Floats  # (4,) n-grams that BLEU counts as right


class Scratch(NamedTuple):
    """A slot for each n-gram of an image's references, then for each other one of a row.

    The last sixteen slots are for the n-grams that only a counterfactual has.
    """

    keys: Ints  # (2^s,) a small table of the n-grams; 0 where nothing is
    slots: npt.NDArray[np.int32]  # (2^s,) their slots
    weights: Floats  # (slots,) squared
    seen: npt.NDArray[np.int32]  # (slots,) how often the sentence has had it so far
    row: npt.NDArray[np.int32]  # (N, 4) the slots of the row's n-grams that end at each word
    changed: npt.NDArray[np.int32]  # (4, 4) of a counterfactual's [words after the change, order]
    new_keys: Ints  # (4, 4) [order, words after the change]
    undo: npt.NDArray[np.int32]  # slots to count down again
    said: Ints  # (ids,) which agent's alternative a word last was,
    rewards: Floats  # (ids,) and its reward
    moment: Ints  # (1,) how many agents had their turn
    prefix: Sums  # of the n-grams before an agent,
    rest: Sums  # of those, and of the ones that begin after it,
    sums: Sums  # and of a whole counterfactual


def make_tables(references: References, mix: tuple[float, float], length: int) -> NumbaTables:
    """The arrays of the references as the kernels take them, for sentences of so many words."""
    frequencies = references.frequencies
    furthest = max(length, int(references.lengths.max(initial=0))) + 1
    return NumbaTables(
        references.starts,
        references.keys,
        references.documents,
        references.counts,
        references.inverse_norms,
        references.lengths,
        references.amounts,
        frequencies.first,
        frequencies.bucket_keys,
        frequencies.bucket_documents,
        frequencies.shift,
        frequencies.weights,
        np.exp(-(np.arange(furthest) ** 2) / (2 * SIGMA**2)),
        np.array(mix, np.float64),
    )


def make_scratch(references: References, length: int) -> Scratch:
    """Working space for sentences of so many words."""
    width = references.counts.shape[1]
    most = references.widest + ORDERS * length
    size = 1 << (2 * most).bit_length()
    prefix, rest, sums = (
        Sums(np.zeros(ORDERS), np.zeros((ORDERS, width)), np.zeros(ORDERS)) for _ in range(3)
    )
    return Scratch(
        np.zeros(size, np.int64),
        np.zeros(size, np.int32),
        np.zeros(most + ORDERS * ORDERS),
        np.zeros(most + ORDERS * ORDERS, np.int32),
        np.zeros((length, ORDERS), np.int32),
        np.zeros((ORDERS, ORDERS), np.int32),
        np.zeros((ORDERS, ORDERS), np.int64),
        np.zeros(ORDERS * length, np.int32),
        np.full(MAX_IDS, -1),
        np.zeros(MAX_IDS),
        np.zeros(1, np.int64),
        prefix,
        rest,
        sums,
    )


@compiled
def _weight(key: int, inner: float, tables: NumbaTables) -> float:
    """The squared weight of an n-gram that the image's references do not have.

    `inner` is the weight of the n-gram without its first word: where no two images have that, no
    two have the longer one, and there is no need to look.
    """
    unseen = tables.weights[0]
    if inner == unseen:
        return float(unseen)
    bucket = (key * MULTIPLIER >> tables.shift) & (len(tables.first) - 2)
    for place in range(tables.first[bucket], tables.first[bucket + 1]):
        if tables.bucket_keys[place] == key:
            return float(tables.weights[tables.bucket_documents[place]])
    return float(unseen)


@compiled
def _find(key: int, scratch: Scratch) -> int:
    """Where the key is in the small table, or the free place where it would be."""
    mask = len(scratch.keys) - 1
    place = (key * MULTIPLIER >> 40) & mask
    while scratch.keys[place] != 0 and scratch.keys[place] != key:
        place = (place + 1) & mask
    return place


@compiled
def enter(words: Ints, reach: int, image: int, tables: NumbaTables, scratch: Scratch) -> None:
    """Give slots to the image's n-grams and to those of the row's first `reach` words."""
    scratch.keys[:] = 0
    start = tables.starts[image]
    free = tables.starts[image + 1] - start
    for slot in range(free):
        place = _find(tables.keys[start + slot], scratch)
        scratch.keys[place] = tables.keys[start + slot]
        scratch.slots[place] = slot
        scratch.weights[slot] = tables.weights[tables.documents[start + slot]]
    for end in range(reach):
        key = 0
        weight = -1.0  # of no n-gram
        for n in range(min(ORDERS, end + 1)):
            key = (key << BITS) + words[end - n] + 1
            place = _find(key, scratch)
            if scratch.keys[place] == 0:
                scratch.keys[place] = key
                scratch.slots[place] = free
                scratch.weights[free] = _weight(key, weight, tables)
                free += 1
            slot = scratch.slots[place]
            scratch.row[end, n] = slot
            weight = scratch.weights[slot]
    scratch.seen[:] = 0


@compiled
def replace(
    words: Ints, agent: int, word: int, until: int, tables: NumbaTables, scratch: Scratch
) -> None:
    """Find the slots of the n-grams that hold the agent's new word."""
    spare = len(scratch.seen) - ORDERS * ORDERS
    scratch.new_keys[:] = 0
    for after in range(min(ORDERS, until - agent)):
        key = 0
        last = agent + after
        for n in range(after):
            key = (key << BITS) + words[last - n] + 1
        weight = scratch.weights[scratch.row[last, after - 1]] if after else -1.0
        for n in range(after, min(ORDERS, last + 1)):
            key = (key << BITS) + (word if n == after else words[last - n]) + 1
            place = _find(key, scratch)
            slot = scratch.slots[place]
            if scratch.keys[place] == 0:
                same = after
                for other in range(after):
                    if scratch.new_keys[n, other] == key:
                        same = other
                        break
                scratch.new_keys[n, after] = key
                slot = spare + ORDERS * n + same
                if same == after:
                    scratch.weights[slot] = _weight(key, weight, tables)
            scratch.changed[after, n] = slot
            weight = scratch.weights[slot]


@compiled
def finish(length: int, image: int, tables: NumbaTables, sums: Sums) -> float:
    """The reward of a sentence of so many words with these sums."""
    reward = 0.0
    if tables.mix[0] != 0:
        reward += tables.mix[0] * _cider(length, image, tables, sums)
    if tables.mix[1] != 0:
        reward += tables.mix[1] * _bleu(length, image, tables, sums)
    return reward


@compiled
def _cider(length: int, image: int, tables: NumbaTables, sums: Sums) -> float:
    """CIDEr-D: the mean over orders and references of clipped cosines, shrunk by the length."""
    amount = tables.amounts[image]
    if amount == 0:
        return 0.0
    total = 0.0
    for n in range(ORDERS):
        if sums.norms[n] == 0:
            continue
        cosine = 0.0
        for r in range(amount):
            # The public code's length is the number of bigrams: no words and one word are alike.
            apart = abs(max(length, 1) - max(tables.lengths[image, r], 1))
            near = tables.penalties[apart] * tables.inverse_norms[image, r, n]
            cosine += sums.products[n, r] * near
        total += cosine / np.sqrt(sums.norms[n])
    return float(10.0 * total / (ORDERS * amount))


@compiled
def _bleu(length: int, image: int, tables: NumbaTables, sums: Sums) -> float:
    """The public code's BLEU-4 of a sentence, its two small constants included."""
    if tables.amounts[image] == 0:
        return 0.0
    product = 1.0
    for n in range(ORDERS):
        product *= (sums.correct[n] + TINY) / (max(0, length - n) + SMALL)
    nearest = tables.lengths[image, 0]
    for r in range(1, tables.amounts[image]):
        other = tables.lengths[image, r]
        apart, best = abs(other - length), abs(nearest - length)
        if apart < best or (apart == best and other < nearest):
            nearest = other
    ratio = (length + TINY) / (nearest + SMALL)
    brevity = np.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    return float(product**0.25 * brevity)
