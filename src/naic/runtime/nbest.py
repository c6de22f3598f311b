"""The likeliest sentences of agents that each have a few words to choose from.

The agents do not hear each other's choice, so a sentence is as likely as the product of its words
and of the period that ends it; what the agents after the period say is left open. There are K^N
ways to speak, and all that is needed of them is found by a best-first search: what can be won from
a place on does not depend on how one came there, so it is known exactly beforehand, and nothing is
looked at that does not lead to the next sentence.
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
    """A word that an agent may say.

    Attributes:
        outlook: the logarithm of the probability of the best that can be said from here on if the
            agent says it.
        word: the word.
        log_prob: of the word alone.
    """

    outlook: float
    word: int
    log_prob: float


class _Node(NamedTuple):
    """A sentence so far, and which choice its next agent makes.

    Attributes:
        cost: minus the logarithm of the probability of the best that can come of it.
        order: breaks ties as they came, so that no two runs differ.
        words: before the choice.
        log_prob: of these words.
        rank: of the choice.
    """

    cost: float
    order: int
    words: tuple[int, ...]
    log_prob: float
    rank: int


def n_best(
    words: Sequence[Sequence[int]], log_probs: Sequence[Sequence[float]]
) -> Iterator[Sentence]:
    """All sentences of N agents with K words each, the likeliest first, each when it is asked for.

    Args:
        words: (N, K) the words that each agent may say, at least one.
        log_probs: (N, K) likewise.
    """
    choices = _choices(words, log_probs)
    order = itertools.count()
    heap = [_Node(-choices[0][0].outlook, next(order), (), 0.0, 0)]
    while heap:
        node = heapq.heappop(heap)
        place = len(node.words)
        chosen = choices[place][node.rank]
        log_prob = node.log_prob + chosen.log_prob
        if node.rank + 1 < len(choices[place]):
            other = choices[place][node.rank + 1]
            cost = -(node.log_prob + other.outlook)
            heapq.heappush(heap, node._replace(cost=cost, order=next(order), rank=node.rank + 1))
        if chosen.word == PERIOD:
            yield Sentence(node.words, log_prob)
        elif place + 1 == len(choices):
            yield Sentence((*node.words, chosen.word), log_prob)
        else:
            longer = (*node.words, chosen.word)
            heapq.heappush(heap, _Node(node.cost, next(order), longer, log_prob, 0))


def _choices(
    words: Sequence[Sequence[int]], log_probs: Sequence[Sequence[float]]
) -> list[list[_Choice]]:
    """The choices of each agent, the best outlook first; found from the last agent on."""
    found: list[list[_Choice]] = []
    after = 0.0  # the outlook of the next agent
    for ids, own in zip(reversed(words), reversed(log_probs), strict=True):
        ranked = [
            _Choice(log_prob if word == PERIOD else log_prob + after, word, log_prob)
            for word, log_prob in zip(ids, own, strict=True)
        ]
        ranked.sort(key=lambda choice: -choice.outlook)  # stable: ties stay as the agent has them
        found.append(ranked)
        after = ranked[0].outlook
    return found[::-1]
