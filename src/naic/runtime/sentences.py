"""From the words that a network proposes to sentences for people; without torch.

The agents do not hear each other's choice, so a sentence is as likely as the product of its words
and of the period that ends it; what the agents after the period say is left open. With transitions
between neighbours a word has the probability that it has after the word before it
(`decode/chains.py`). Whole sentences are found by `decode/best_first.py`.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from naic.decode.best_first import Sentence, n_best
from naic.decode.chains import told, told_after
from naic.decode.decoding import CHOICES, Decoding, likeliest_words, without_repeats
from naic.runtime.calibration import Calibration
from naic.text.vocabulary import PERIOD, Vocabulary


class Proposals(NamedTuple):
    """What a network proposes to say of B images, on the host.

    Attributes:
        words: (B, N, K) int64, the likeliest words of each agent, best first; of a causal model,
            which has chosen before it goes on, K = 1.
        log_probs: (B, N, K) float32, likewise.
        pairs: (B, N-1, K, K) float32 of a model with transitions: what is added to the score of a
            sentence in which agent n says its i-th word and agent n+1 its j-th; else None.
    """

    words: npt.NDArray[np.int64]
    log_probs: npt.NDArray[np.float32]
    pairs: npt.NDArray[np.float32] | None = None


class _Spoken(NamedTuple):
    """What the agents say of B images, and what they could have said in its place.

    Attributes:
        words: (B, N, K), the word that was said first.
        log_probs: (B, N, K) likewise; with transitions, given the word said before.
        chain: of a model with transitions: the words (B, N, K) in one order for all sentences, and
            their log-probabilities (B, N, K, K) after each word of the agent before.
    """

    words: npt.NDArray[np.int64]
    log_probs: npt.NDArray[np.floating[Any]]
    chain: tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]] | None = None


@dataclass(frozen=True, slots=True)
class Word:
    """A word as the model knows it.

    Attributes:
        text: the word.
        confidence: the probability that its agent gave to it; with transitions between neighbours,
            after the word before it.
        alternatives: the likeliest words of its agent with their probabilities, this one first; "."
            is the end of the sentence. A causal model has no other word in this place.
    """

    text: str
    confidence: float
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """A whole sentence, and its probability: that of all its words and of its end.

    That is so with a calibration too: sentences are compared by it, and their chances of being
    right have been measured of what the model says, not of what it could have said.
    """

    text: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Caption:
    """What the model says of an image.

    Attributes:
        text: the sentence without its period.
        words: those of the text, one for each agent from the first on.
        confidence: the chance that the caption is right, if `calibrated`; else its probability.
        alternatives: sentences that it could have said, if they were asked for: first the caption
            itself, then the others, the likeliest first.
        probability: that of the whole sentence: of all its words and of its end. Of one that was
            cut, of what the agents said up to the limit or the period.
        calibrated: whether the model has a map from probabilities to chances of being right.
    """

    text: str
    words: tuple[Word, ...]
    confidence: float
    alternatives: tuple[Alternative, ...]
    probability: float
    calibrated: bool


def write(
    proposals: Proposals,
    found: Sequence[Sequence[Sentence]] | None,
    vocabulary: Vocabulary,
    decoding: Decoding,
    calibration: Calibration | None = None,
) -> list[Caption]:
    """The captions of B images.

    Args:
        proposals: what the network proposes.
        found: the sentences of a model that searches for them; else None.
        vocabulary: its words.
        decoding: which sentences may be said.
        calibration: what makes chances of the captions' probabilities; None: nothing does.
    """
    spoken = _spoken(proposals, decoding)
    words, log_probs = spoken.words.tolist(), spoken.log_probs.tolist()
    others: Iterable[Iterable[Sentence] | None] = [None] * len(words) if found is None else found
    if spoken.chain is not None:
        others = (_search_chain(*row, decoding) for row in zip(*spoken.chain, strict=True))
    rows = zip(words, log_probs, others, strict=True)
    return [_caption(vocabulary, decoding, calibration, *row) for row in rows]


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


def _spoken(proposals: Proposals, decoding: Decoding) -> _Spoken:
    """What each agent says put first; without repeats, no word comes twice in a row."""
    words, log_probs, pairs = proposals
    if pairs is None and (decoding.repeats or words.shape[-1] == 1):  # or it heard what it said
        return _Spoken(words, log_probs)
    find = likeliest_words if decoding.repeats else without_repeats
    chosen = find(words, log_probs, pairs)[..., None]  # (B, N, 1)
    places = np.arange(words.shape[-1])
    own: npt.NDArray[np.floating[Any]] = log_probs
    costs: npt.NDArray[Any] = places
    chain = None
    if pairs is not None:
        own = told_after(words, log_probs, pairs, chosen[..., 0])  # (B, N, K)
        costs = -own
        chain = (words, told(words, log_probs, pairs)) if decoding.alternatives else None
    order = np.where(places == chosen, -np.inf, costs).argsort(-1, kind="stable")  # (B, N, K)
    order = order if pairs is None else order[..., :CHOICES]
    each = np.arange(len(words))[:, None, None], np.arange(words.shape[1])[:, None], order
    return _Spoken(words[each], own[each], chain)


def _caption(
    vocabulary: Vocabulary,
    decoding: Decoding,
    calibration: Calibration | None,
    words: list[list[int]],
    log_probs: list[list[float]],
    found: Iterable[Sentence] | None,
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
        sentences = found
        if sentences is None:
            sentences = _readable(n_best(words, log_probs), decoding)
        others = tuple(_alternatives(itself, sentences, vocabulary, decoding))
    said = tuple(Word(*pairs[0], pairs) for pairs in likely)
    sure = itself.confidence if calibration is None else calibration(spoken)
    return Caption(
        itself.text, said, sure, others, itself.confidence, calibrated=calibration is not None
    )


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


def _readable(sentences: Iterable[Sentence], decoding: Decoding) -> Iterator[Sentence]:
    """Those of the sentences that may be given."""
    for sentence in sentences:
        same = map(int.__eq__, sentence.words, sentence.words[1:])
        if decoding.repeats or not any(same):
            yield sentence


def _search_chain(
    words: npt.NDArray[np.int64], heard: npt.NDArray[np.float64], decoding: Decoding
) -> Iterator[Sentence]:
    """The sentences of one image's chain, as far as they are asked for; arguments as `n_best`'s."""
    limit = decoding.max_words or len(words)
    sentences = n_best(words[:limit].tolist(), heard[:limit].tolist())
    yield from _readable(sentences, decoding)
