"""From the words that a network proposes to sentences for people; without torch.

The agents do not hear each other's choice, so a sentence is as likely as the product of its words
and of the period that ends it; what the agents after the period say is left open. There are K^N
ways to speak, and all that is needed of them is found by a best-first search: what can be won from
a place on does not depend on how one came there, so it is known exactly beforehand, and nothing is
looked at that does not lead to the next sentence.
"""

import heapq
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from naic.decode.decoding import Decoding, without_repeats
from naic.text.vocabulary import PERIOD, Vocabulary


class Proposals(NamedTuple):
    """What a network proposes to say of B images, on the host.

    Attributes:
        words: (B, N, K) int64, the likeliest words of each agent, best first; of a causal model,
            which has chosen before it goes on, K = 1.
        log_probs: (B, N, K) float32, likewise.
    """

    words: npt.NDArray[np.int64]
    log_probs: npt.NDArray[np.float32]


class Sentence(NamedTuple):
    """Words without their period, and the logarithm of the sentence's probability."""

    words: tuple[int, ...]
    log_prob: float


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the model knows it.

    Attributes:
        text: the word.
        confidence: the probability that its agent gave to it.
        alternatives: the likeliest words of its agent with their probabilities, this one first; "."
            is the end of the sentence. A causal model has no other word in this place.
    """

    text: str
    confidence: float
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """A whole sentence, and its probability: that of all its words and of its end."""

    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Caption:
    """What the model says of an image.

    Attributes:
        text: the sentence without its period.
        words: those of the text, one for each agent from the first on.
        confidence: the probability of the whole sentence: of all its words and of its end. Of one
            that was cut, of what the agents said up to the limit or the period.
        alternatives: sentences that it could have said, if they were asked for: first the caption
            itself, then the others, the likeliest first.
    """

    text: str
    words: tuple[Word, ...]
    confidence: float
    alternatives: tuple[Alternative, ...] = ()


def write(
    proposals: Proposals,
    found: Sequence[Sequence[Sentence]] | None,
    vocabulary: Vocabulary,
    decoding: Decoding,
) -> list[Caption]:
    """The captions of B images; `found` are the sentences of a model that searches for them."""
    if proposals.words.shape[-1] > 1 and not decoding.repeats:  # else it heard what it said before
        proposals = _without_repeats(proposals)
    words, log_probs = proposals.words.tolist(), proposals.log_probs.tolist()
    others = [None] * len(words) if found is None else found
    rows = zip(words, log_probs, others, strict=True)
    return [_caption(vocabulary, decoding, *row) for row in rows]


def found_sentences(
    words: Sequence[Sequence[Sequence[int]]], scores: Sequence[Sequence[float]]
) -> list[list[Sentence]]:
    """The sentences of a beam, words (B, W, N) and scores (B, W); places that none fills go."""
    return [
        [
            Sentence(tuple(itertools.takewhile(lambda id_: id_ != PERIOD, ids)), score)
            for ids, score in zip(own, likely, strict=True)
            if score > -math.inf
        ]
        for own, likely in zip(words, scores, strict=True)
    ]


def _without_repeats(proposals: Proposals) -> Proposals:
    """The same, with what an agent says first: no word may come twice in a row."""
    chosen = without_repeats(*proposals)[..., None]  # (B, N, 1)
    places = np.arange(proposals.words.shape[-1])
    order = np.argsort(np.where(places == chosen, -1, places), axis=-1)  # (B, N, K)
    words = np.take_along_axis(proposals.words, order, -1)
    return Proposals(words, np.take_along_axis(proposals.log_probs, order, -1))


def _caption(
    vocabulary: Vocabulary,
    decoding: Decoding,
    words: list[list[int]],
    log_probs: list[list[float]],
    found: Sequence[Sentence] | None,
) -> Caption:
    """What was said of one image by words and log-probabilities (N, K).

    With a limit on the words the agents after it are silent. No sentence ends in the middle of a
    thought: now and then the agents stop at "in a", and a limit may stop them there.
    """
    limit = decoding.max_words or len(words)
    words, log_probs = words[:limit], log_probs[:limit]
    first = [own[0] for own in words]
    end = first.index(PERIOD) if PERIOD in first else len(first)
    kept = decoding.sentence(first, vocabulary)
    likely = [
        tuple((vocabulary.word(id_), math.exp(value)) for id_, value in zip(*own, strict=True))
        for own in zip(words[: len(kept)], log_probs, strict=False)
    ]
    spoken = sum(own[0] for own in log_probs[: end + 1])
    itself = Alternative(vocabulary.decode(kept), math.exp(spoken))
    others: tuple[Alternative, ...] = ()
    if decoding.alternatives:
        sentences = found if found is not None else n_best(words, log_probs)
        if found is None and not decoding.repeats:
            sentences = (s for s in sentences if not any(map(int.__eq__, s.words, s.words[1:])))
        others = tuple(_alternatives(itself, sentences, vocabulary, decoding))
    said = tuple(Word(*pairs[0], pairs) for pairs in likely)
    return Caption(itself.text, said, itself.confidence, others)


def _alternatives(
    itself: Alternative, sentences: Iterable[Sentence], vocabulary: Vocabulary, decoding: Decoding
) -> Iterator[Alternative]:
    """The caption, then others; of sentences that read the same, the likeliest is kept."""
    yield itself
    seen = {itself.text, ""}
    given = 1
    for sentence in sentences:
        if given == decoding.alternatives:
            return
        text = vocabulary.decode(decoding.sentence(sentence.words, vocabulary))
        if text not in seen:
            seen.add(text)
            given += 1
            yield Alternative(text, math.exp(sentence.log_prob))


def n_best(
    words: Sequence[Sequence[int]], log_probs: Sequence[Sequence[float]]
) -> Iterator[Sentence]:
    """All sentences of N agents with K words each, the likeliest first, each when it is asked for.

    On the heap are sentences so far, and which choice their next agent makes: minus the logarithm
    of the probability of the best that can come of it, a number that breaks ties as they came (no
    two runs differ), the words before the choice, their log-probability, and the choice's rank.

    Args:
        words: (N, K) the words that each agent may say, at least one.
        log_probs: (N, K) likewise.
    """
    choices = _choices(words, log_probs)
    order = itertools.count()
    heap = [(-choices[0][0][0], next(order), tuple[int, ...](), 0.0, 0)]
    while heap:
        cost, _, before, so_far, rank = heapq.heappop(heap)
        own = choices[len(before)]
        _, word, log_prob = own[rank]
        if rank + 1 < len(own):
            other = -(so_far + own[rank + 1][0])
            heapq.heappush(heap, (other, next(order), before, so_far, rank + 1))
        if word == PERIOD:
            yield Sentence(before, so_far + log_prob)
        elif len(before) + 1 == len(choices):
            yield Sentence((*before, word), so_far + log_prob)
        else:
            heapq.heappush(heap, (cost, next(order), (*before, word), so_far + log_prob, 0))


def _choices(
    words: Sequence[Sequence[int]], log_probs: Sequence[Sequence[float]]
) -> list[list[tuple[float, int, float]]]:
    """What each agent may say, the best outlook first; found from the last agent on.

    A choice is its outlook (the logarithm of the probability of the best that can be said from
    here on with it), the word, and the logarithm of its own probability.
    """
    found: list[list[tuple[float, int, float]]] = []
    after = 0.0  # the outlook of the next agent
    for ids, own in zip(reversed(words), reversed(log_probs), strict=True):
        ranked = [
            (log_prob if word == PERIOD else log_prob + after, word, log_prob)
            for word, log_prob in zip(ids, own, strict=True)
        ]
        ranked.sort(key=lambda choice: -choice[0])  # stable: ties stay as the agent has them
        found.append(ranked)
        after = ranked[0][0]
    return found[::-1]
