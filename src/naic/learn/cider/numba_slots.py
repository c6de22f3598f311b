"""Which n-gram is which: a slot for each, and the weight that belongs to it."""

from naic.learn.cider.frequencies import MULTIPLIER
from naic.learn.cider.ngrams import BITS
from naic.learn.cider.numba_state import Ints, Scratch, Tables, compiled
from naic.metrics.ngrams import ORDERS


@compiled
def _weight(key: int, inner: float, tables: Tables) -> float:
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
def enter(words: Ints, reach: int, image: int, tables: Tables, scratch: Scratch) -> None:
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
    words: Ints, agent: int, word: int, until: int, tables: Tables, scratch: Scratch
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
