"""N-grams of word ids as single integers."""

import numpy as np
import numpy.typing as npt

from naic.metrics.ngrams import ORDERS

BITS = 14  # of one id; text.MAX_IDS says the same

Ints = npt.NDArray[np.int64]


def pack(words: Ints, sentences: Ints) -> tuple[Ints, Ints]:
    """All n-grams of 1 to 4 words that do not cross from one sentence to the next.

    Args:
        words: (T,) the ids of all sentences, one after the other.
        sentences: (T,) which sentence each word belongs to.

    Returns:
        The packed n-grams and the place of each one's first word.
    """
    keys, places = [], []
    packed = np.zeros(len(words), np.int64)
    for order in range(1, ORDERS + 1):
        last = len(words) - order + 1
        if last <= 0:
            break
        packed = packed[:last] + (words[order - 1 :] + 1 << BITS * (order - 1))
        whole = np.flatnonzero(sentences[:last] == sentences[order - 1 :])
        keys.append(packed[whole])
        places.append(whole)
    if not keys:
        return packed, packed
    return np.concatenate(keys), np.concatenate(places)


def order_of(keys: Ints) -> Ints:
    """How many words each packed n-gram has."""
    return sum((keys >> BITS * n != 0 for n in range(1, ORDERS)), np.ones_like(keys))
