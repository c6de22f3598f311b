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

from naic.decode.best_first import Sentence
from naic.decode.chains import told, told_after
from naic.decode.decoding import CHOICES, Decoding, likeliest_words, without_repeats
from naic.decode.wishes import as_wanted, likeliest_without
from naic.errors import ConfigError
from naic.runtime.calibration import Calibration
from naic.runtime.wording import Wording
from naic.text.vocabulary import PERIOD, Vocabulary

TRIED = 100  # sentences that are looked at for each one that is wanted: others read badly


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
        text: the sentence without its period, in the style of the model if it has one.
        words: those of the text, one for each agent from the first on; those that a style puts
            before and after are no agent's, and not among them.
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

    Raises:
        ConfigError: words are preferred, and the agents have no others to choose from.
    """
    wording = Wording(vocabulary, decoding)
    spoken = _spoken(proposals, wording)
    words, log_probs = spoken.words.tolist(), spoken.log_probs.tolist()
    others: Iterable[Iterable[Sentence] | None] = [None] * len(words) if found is None else found
    if spoken.chain is not None:
        others = (_search_chain(wording, *row) for row in zip(*spoken.chain, strict=True))
    rows = zip(words, log_probs, others, strict=True)
    return [_caption(wording, calibration, *row) for row in rows]


def texts(proposals: Proposals, vocabulary: Vocabulary, decoding: Decoding) -> list[str]:
    """The texts of the captions of B images, and nothing else of them: no probability is found.

    Raises:
        ConfigError: as `write`.
    """
    wording = Wording(vocabulary, decoding)
    words, chosen = proposals.words, places_said(proposals, wording)
    first = words[..., 0] if chosen is None else _of_chosen(words, chosen)
    return [wording.text(wording.sentence(ids)) for ids in first.tolist()]


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


def places_said(proposals: Proposals, wording: Wording) -> npt.NDArray[np.intp] | None:
    """(B, N) which of its words each agent says; None: the first, in any case."""
    words, _, pairs = proposals
    decoding, wished = wording.decoding, any(wording.wanted)
    if words.shape[-1] == 1 and decoding.prefer:
        why = "the model has one word for each place: it is causal, or its teacher has chosen"
        raise ConfigError("prefer", why, "Leave it out, or use a parallel model by itself.")
    one = words.shape[-1] == 1  # it heard what it said
    if pairs is None and (one or (decoding.repeats and not wished)):
        return None
    if wished:
        return as_wanted(*proposals, wording.wanted, repeats=decoding.repeats)
    return (likeliest_words if decoding.repeats else without_repeats)(*proposals)


def _of_chosen(words: npt.NDArray[np.int64], chosen: npt.NDArray[np.intp]) -> npt.NDArray[np.int64]:
    """(B, N) the words (B, N, K) that were chosen."""
    return words[np.arange(len(words))[:, None], np.arange(words.shape[1]), chosen]


def _spoken(proposals: Proposals, wording: Wording) -> _Spoken:
    """What each agent says put first; without repeats, no word comes twice in a row."""
    words, log_probs, pairs = proposals
    said = places_said(proposals, wording)
    if said is None:
        return _Spoken(words, log_probs)
    chosen = said[..., None]  # (B, N, 1)
    places = np.arange(words.shape[-1])
    own: npt.NDArray[np.floating[Any]] = log_probs
    costs: npt.NDArray[Any] = places
    chain = None
    if pairs is not None:
        own = told_after(words, log_probs, pairs, said)  # (B, N, K)
        costs = -own
        chain = (words, told(words, log_probs, pairs)) if wording.decoding.alternatives else None
    order = np.where(places == chosen, -np.inf, costs).argsort(-1, kind="stable")  # (B, N, K)
    order = order if pairs is None else order[..., :CHOICES]
    each = np.arange(len(words))[:, None, None], np.arange(words.shape[1])[:, None], order
    return _Spoken(words[each], own[each], chain)


def _caption(
    wording: Wording,
    calibration: Calibration | None,
    words: list[list[int]],
    log_probs: list[list[float]],
    found: Iterable[Sentence] | None,
) -> Caption:
    """What was said of one image by words and log-probabilities (N, K).

    With a limit on the words the agents after it are silent. No sentence ends in the middle of a
    thought: now and then the agents stop at "in a", and a limit may stop them there.
    """
    limit = wording.decoding.max_words or len(words)
    words, log_probs = words[:limit], log_probs[:limit]
    first = [own[0] for own in words]
    kept = wording.sentence(first)
    said = [Word(*pairs[0], pairs) for pairs in wording.told(kept, words, log_probs)]
    heard = wording.heard(first)
    likely = sum(own[0] for own in log_probs[:heard])
    if heard < len(first) and first[heard] in wording.wanted.forbidden:
        # All that this agent thinks of is forbidden: that it ends the sentence is less likely yet.
        likely += min(log_probs[heard])
    spoken = Sentence(tuple(first[:heard]), likely)
    sure = wording.likelier(spoken, words[:heard], log_probs)
    itself = Alternative(wording.text(kept), math.exp(sure.log_prob))
    others: tuple[Alternative, ...] = ()
    if wording.decoding.alternatives:
        sentences = _search(wording, words, log_probs) if found is None else found
        others = tuple(_alternatives(itself, sentences, wording))
    own, mapped = itself.confidence, calibration is not None
    # That nothing is right has not been measured, and nothing is never a right caption.
    chance = own if calibration is None else calibration(sure.log_prob) if itself.text else 0.0
    return Caption(itself.text, tuple(said), chance, others, own, calibrated=mapped)


def _alternatives(
    itself: Alternative, sentences: Iterable[Sentence], wording: Wording
) -> Iterator[Alternative]:
    """The caption, then others; of sentences that read the same, the likeliest is kept."""
    yield itself
    seen = {itself.text, ""}
    given = 1
    # Cut short, very many sentences read the same: the search ends some time.
    for sentence in itertools.islice(sentences, TRIED * wording.decoding.alternatives):
        if given == wording.decoding.alternatives:
            return
        text = wording.text(wording.sentence(sentence.words))
        if text not in seen and wording.wanted.forbidden.isdisjoint(sentence.words):
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
    wording: Wording, words: npt.NDArray[np.int64], heard: npt.NDArray[np.float64]
) -> Iterator[Sentence]:
    """The sentences of one image's chain, as far as they are asked for; arguments as `n_best`'s."""
    limit = wording.decoding.max_words or len(words)
    yield from _search(wording, words[:limit].tolist(), heard[:limit].tolist())


def _search(
    wording: Wording,
    words: list[list[int]],
    log_probs: list[list[float]] | list[list[list[float]]],
) -> Iterator[Sentence]:
    """The sentences that may be given of one image; arguments as `n_best`'s."""
    found = likeliest_without(wording.wanted.forbidden, words, log_probs)
    for sentence in _readable(found, wording.decoding):
        yield wording.likelier(sentence, words, log_probs)
