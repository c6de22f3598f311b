"""The likeliest sentences of agents who speak at once, one after the other.

There are K^N ways to speak, and all that is needed of them is found by a best-first search: what
can be won from a place on does not depend on how one came there, so it is known exactly beforehand,
and nothing is looked at that does not lead to the next sentence. With transitions between
neighbours it depends on the last word alone, and is known beforehand for each.
"""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from naic.text.vocabulary import PERIOD


class Sentence(NamedTuple):
    """Words without their period, and the logarithm of the sentence's probability."""

    words: tuple[int, ...]
    log_prob: float


class _Choice(NamedTuple):
    """What an agent may say.

    Attributes:
        outlook: the logarithm of the probability of the best that can be said from here on with it.
        word: its word.
        log_prob: the logarithm of the word's own probability.
        state: which list of choices the next agent then has.
    """

    outlook: float
    word: int
    log_prob: float
    state: int


def n_best(
    words: Sequence[Sequence[int]],
    log_probs: Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]],
) -> Iterator[Sentence]:
    """All sentences of N agents with K words each, the likeliest first, each when it is asked for.

    On the heap are sentences so far, and which choice their next agent makes: minus the logarithm
    of the probability of the best that can come of it, a number that breaks ties as they came (no
    two runs differ), the words before the choice, their log-probability, which list of choices the
    agent has, and the choice's rank in it.

    Args:
        words: (N, K) the words that each agent may say, at least one.
        log_probs: (N, K) likewise; of agents that hear the one before them (N, K, K), for each of
            its words a list.
    """
    choices = _choices(words, log_probs)
    order = itertools.count()
    heap = [(-choices[0][0][0].outlook, next(order), tuple[int, ...](), 0.0, 0, 0)]
    while heap:
        cost, _, before, so_far, state, rank = heapq.heappop(heap)
        own = choices[len(before)][state]
        _, word, log_prob, after = own[rank]
        if rank + 1 < len(own):
            other = -(so_far + own[rank + 1].outlook)
            heapq.heappush(heap, (other, next(order), before, so_far, state, rank + 1))
        if word == PERIOD:
            yield Sentence(before, so_far + log_prob)
        elif len(before) + 1 == len(choices):
            yield Sentence((*before, word), so_far + log_prob)
        else:
            said = (*before, word)
            heapq.heappush(heap, (cost, next(order), said, so_far + log_prob, after, 0))


def _choices(
    words: Sequence[Sequence[int]],
    log_probs: Sequence[Sequence[float]] | Sequence[Sequence[Sequence[float]]],
) -> list[list[list[_Choice]]]:
    """What each agent may say, the best outlook first; found from the last agent on.

    An agent has one list of choices, or one for each word that the agent before it may have said.
    """
    found: list[list[list[_Choice]]] = []
    after = [0.0]  # the outlook of the next agent, from each of its lists
    for ids, own in zip(reversed(words), reversed(log_probs), strict=True):
        heard = own if isinstance(own[0], Sequence) else [own]
        lists = [_ranked(ids, likely, after) for likely in heard]  # type: ignore[arg-type]
        found.append(lists)
        after = [ranked[0].outlook for ranked in lists]
    return found[::-1]


def _ranked(ids: Sequence[int], log_probs: Sequence[float], after: list[float]) -> list[_Choice]:
    """One list of choices; `after` as many outlooks as the next agent has lists."""
    ranked = []
    for place, (word, log_prob) in enumerate(zip(ids, log_probs, strict=True)):
        state = place if len(after) > 1 else 0
        outlook = log_prob if word == PERIOD else log_prob + after[state]
        ranked.append(_Choice(outlook, word, log_prob, state))
    ranked.sort(key=lambda choice: -choice.outlook)  # stable: ties stay as the agent has them
    return ranked
