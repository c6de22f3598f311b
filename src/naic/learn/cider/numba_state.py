"""What the kernels of `numba_rewards` read and work on: named tuples of arrays."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar, cast

import numba
import numpy as np
import numpy.typing as npt

from naic.learn.cider.references import References
from naic.metrics.cider import SIGMA
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


class Tables(NamedTuple):
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


def make_tables(references: References, mix: tuple[float, float], length: int) -> Tables:
    """The arrays of the references as the kernels take them, for sentences of so many words."""
    frequencies = references.frequencies
    furthest = max(length, int(references.lengths.max(initial=0))) + 1
    return Tables(
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
