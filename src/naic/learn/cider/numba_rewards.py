"""Rewards on a CPU: one row after the other, with only what a changed word changes looked up.

A sentence is scored one n-gram at a time, and each adds to the sums as the c-th of its kind:
(2c − 1)·w² to the squared norm, since c² is the sum of the first c odd numbers, and t·w² to the
product with a reference that has it t ≥ c times. The order does not matter, so the n-grams that do
not hold an agent's word are added up once for all its alternatives; and as nothing is ever
subtracted, no digit is lost: a norm that is zero is exactly zero.
"""

from naic.learn.cider.ngrams import MULTIPLIER
from naic.learn.cider.numba_state import (
    Floats,
    Ints,
    NumbaTables,
    Scratch,
    Sums,
    compiled,
    enter,
    finish,
    replace,
)
from naic.metrics.ngrams import ORDERS
from naic.text import PERIOD


@compiled
def all_below(values: Ints, limit: int) -> bool:
    """Whether all of the values are from 0 to below the limit."""
    for value in values.flat:  # noqa: SIM110 (numba has no all())
        if not 0 <= value < limit:
            return False
    return True


@compiled
def score_rows(
    words: Ints,
    image_index: Ints,
    tables: NumbaTables,
    scratch: Scratch,
    known: Ints,
    rewards: Floats,
) -> None:
    """Score each row; a sentence that an image already has had is not scored again.

    `known` is a hash table of rows, twice as many places as rows or more, a power of two, all -1.
    """
    size = len(known)
    for row in range(len(words)):
        end = _sentence_end(words[row], 0)
        mixed = image_index[row]
        for place in range(end):
            mixed = (mixed + words[row, place] + 1) * MULTIPLIER
            mixed ^= mixed >> 29
        place = mixed & (size - 1)
        while known[place] >= 0 and not _same(words, image_index, known[place], row, end):
            place = (place + 1) & (size - 1)
        if known[place] >= 0:
            rewards[row] = rewards[known[place]]
            continue
        known[place] = row
        enter(words[row], end, image_index[row], tables, scratch)
        rewards[row] = _score_row(end, image_index[row], tables, scratch)


@compiled
def judge_rows(
    words: Ints,
    alternatives: Ints,
    image_index: Ints,
    tables: NumbaTables,
    scratch: Scratch,
    rewards: Floats,
    outcomes: Floats,
) -> None:
    """Score each row, and each row with one agent's word replaced by one of its alternatives."""
    for row in range(len(words)):
        end = _sentence_end(words[row], 0)
        reach = _sentence_end(words[row], end)  # how far it goes when its period is replaced
        image = image_index[row]
        enter(words[row], reach, image, tables, scratch)
        rewards[row] = _score_row(end, image, tables, scratch)
        outcomes[row, end:] = rewards[row]
        _clear(scratch.prefix)
        scratch.seen[:] = 0
        for agent in range(end):
            scratch.moment[0] += 1
            until = reach if agent == end - 1 else end
            _judge_agent(
                words[row],
                alternatives[row, agent],
                agent,
                until,
                image,
                tables,
                scratch,
                rewards[row],
                outcomes[row, agent],
            )
            _add_word(agent, image, tables, scratch, scratch.prefix)


@compiled
def _judge_agent(
    words: Ints,
    alternatives: Ints,
    agent: int,
    until: int,
    image: int,
    tables: NumbaTables,
    scratch: Scratch,
    reward: float,
    outcomes: Floats,
) -> None:
    """One agent's alternatives, in a sentence that goes `until` there unless one is a period.

    All of them share the n-grams before the agent and those after it, which are added up once.
    """
    others = 0
    for choice in range(len(alternatives)):
        word = alternatives[choice]
        if word == words[agent]:
            outcomes[choice] = reward
        elif word == PERIOD:
            outcomes[choice] = _score_changed(
                words, agent, word, agent + 1, image, tables, scratch, scratch.prefix
            )
        else:
            others += 1
    if others == 0:
        return
    added = _add_rest(agent, until, image, tables, scratch)
    for choice in range(len(alternatives)):
        word = alternatives[choice]
        if word == words[agent] or word == PERIOD:
            continue
        if scratch.said[word] != scratch.moment[0]:
            scratch.said[word] = scratch.moment[0]
            scratch.rewards[word] = _score_changed(
                words, agent, word, until, image, tables, scratch, scratch.rest
            )
        outcomes[choice] = scratch.rewards[word]
    for i in range(added):
        scratch.seen[scratch.undo[i]] -= 1


@compiled
def _sentence_end(words: Ints, start: int) -> int:
    """Where the sentence ends that goes on at `start`: behind the next period, or at the end."""
    for place in range(start, len(words)):
        if words[place] == PERIOD:
            return place + 1
    return len(words)


@compiled
def _same(words: Ints, image_index: Ints, one: int, other: int, end: int) -> bool:
    """Whether two rows say the same of the same image; the other's sentence has `end` words."""
    if image_index[one] != image_index[other]:
        return False
    for place in range(end):  # noqa: SIM110 (numba has no all())
        if words[one, place] != words[other, place]:
            return False
    return True


@compiled
def _clear(sums: Sums) -> None:
    """The sums of no words."""
    sums.norms[:] = 0
    sums.correct[:] = 0
    sums.products[:] = 0


@compiled
def _copy(source: Sums, target: Sums, references: int) -> None:
    """Take over the sums, of an image with so many references."""
    for n in range(ORDERS):
        target.norms[n] = source.norms[n]
        target.correct[n] = source.correct[n]
        for r in range(references):
            target.products[n, r] = source.products[n, r]


@compiled
def _score_row(end: int, image: int, tables: NumbaTables, scratch: Scratch) -> float:
    """The reward of the row's first `end` words."""
    scratch.seen[:] = 0
    _clear(scratch.prefix)
    for place in range(end):
        _add_word(place, image, tables, scratch, scratch.prefix)
    return finish(end, image, tables, scratch.prefix)


@compiled
def _add_word(place: int, image: int, tables: NumbaTables, scratch: Scratch, sums: Sums) -> None:
    """Add the row's n-grams that end at a word."""
    for n in range(min(ORDERS, place + 1)):
        _add(scratch.row[place, n], n, image, tables, scratch, sums)


@compiled
def _add(slot: int, n: int, image: int, tables: NumbaTables, scratch: Scratch, sums: Sums) -> None:
    """Add one n-gram, as the c-th of its kind."""
    count = scratch.seen[slot] + 1
    scratch.seen[slot] = count
    weight = scratch.weights[slot]
    sums.norms[n] += (2 * count - 1) * weight
    start = tables.starts[image]
    if slot >= tables.starts[image + 1] - start:
        return
    right = False
    for r in range(tables.amounts[image]):
        times = tables.counts[start + slot, r]
        if times >= count:
            sums.products[n, r] += times * weight
            right = True
    if right:
        sums.correct[n] += 1


@compiled
def _add_rest(agent: int, until: int, image: int, tables: NumbaTables, scratch: Scratch) -> int:
    """Add to the prefix the n-grams that begin after the agent; tells how many to undo."""
    _copy(scratch.prefix, scratch.rest, tables.amounts[image])
    added = 0
    for place in range(agent + 1, until):
        for n in range(min(ORDERS, place - agent)):
            slot = scratch.row[place, n]
            scratch.undo[added] = slot
            added += 1
            _add(slot, n, image, tables, scratch, scratch.rest)
    return added


@compiled
def _score_changed(
    words: Ints,
    agent: int,
    word: int,
    until: int,
    image: int,
    tables: NumbaTables,
    scratch: Scratch,
    others: Sums,
) -> float:
    """The reward with the agent's word replaced, from the sums over n-grams without that word."""
    replace(words, agent, word, until, tables, scratch)
    _copy(others, scratch.sums, tables.amounts[image])
    holding = min(ORDERS, until - agent)  # places where an n-gram with the word may end
    for after in range(holding):
        for n in range(after, min(ORDERS, agent + after + 1)):
            _add(scratch.changed[after, n], n, image, tables, scratch, scratch.sums)
    for after in range(holding):
        for n in range(after, min(ORDERS, agent + after + 1)):
            scratch.seen[scratch.changed[after, n]] -= 1
    return finish(until, image, tables, scratch.sums)
