"""From what the agents said to sentences for people."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from naic.decode.beam import Beams
from naic.decode.repeats import without_repeats
from naic.errors import ConfigError
from naic.metrics.habits import BAD_ENDINGS
from naic.runtime.engines import Said
from naic.runtime.nbest import Sentence, n_best
from naic.text.vocabulary import PERIOD, Vocabulary

MOST_ALTERNATIVES = 100
_BAD_ENDINGS = frozenset(BAD_ENDINGS)


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


@dataclass(frozen=True, slots=True)
class Asked:
    """What is wanted of a caption.

    Attributes:
        alternatives: sentences, the caption counted; 0: none.
        max_words: of a sentence; None: any number.
    """

    alternatives: int = 0
    max_words: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.alternatives <= MOST_ALTERNATIVES:
            why = f"{self.alternatives} is not from 0 to {MOST_ALTERNATIVES}"
            raise ConfigError("alternatives", why, "Try 3.")
        if self.max_words is not None and self.max_words < 1:
            raise ConfigError("max_words", f"{self.max_words} is below 1", "Try 8.")


def write(said: Said, beams: Beams | None, vocabulary: Vocabulary, asked: Asked) -> list[Caption]:
    """The captions of B images; `beams` are those of a causal model, if it has to give some."""
    if said.words.shape[-1] > 1:  # a causal model has heard what it said before
        said = _agreed(said)
    followed: Iterable[Iterable[Sentence] | None]
    followed = [None] * len(said.words) if beams is None else map(_followed, *_lists(beams))
    rows = zip(said.words.tolist(), said.log_probs.tolist(), followed, strict=True)
    return [_Writer(vocabulary, asked, *row).caption() for row in rows]


def _agreed(said: Said) -> Said:
    """The same, with what an agent says first: no word may come twice in a row."""
    chosen = without_repeats(said.words, said.log_probs)[..., None]  # (B, N, 1)
    places = np.arange(said.words.shape[-1])
    order = np.argsort(np.where(places == chosen, -1, places), axis=-1)  # (B, N, K)
    words = np.take_along_axis(said.words, order, -1)
    return Said(words, np.take_along_axis(said.log_probs, order, -1))


class _Writer:
    """What was said of one image: words and log-probabilities (N, K).

    With a limit on the words the agents after it are silent. No sentence ends in the middle of a
    thought: now and then the agents stop at "in a", and a limit may stop them there.
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        asked: Asked,
        words: list[list[int]],
        log_probs: list[list[float]],
        followed: Iterable[Sentence] | None,
    ) -> None:
        limit = asked.max_words or len(words)
        self._vocabulary = vocabulary
        self._wanted = asked.alternatives
        self._limit = limit
        self._words, self._log_probs = words[:limit], log_probs[:limit]
        self._followed = followed

    def caption(self) -> Caption:
        first = [own[0] for own in self._words]
        end = first.index(PERIOD) if PERIOD in first else len(first)
        kept = self._kept(tuple(first[:end]))
        text = self._vocabulary.decode(kept)
        words = tuple(self._word(place) for place in range(len(kept)))
        spoken = sum(own[0] for own in self._log_probs[: end + 1])
        itself = Alternative(text, math.exp(spoken))
        others = tuple(self._alternatives(itself)) if self._wanted else ()
        return Caption(text, words, itself.confidence, others)

    def _word(self, place: int) -> Word:
        pairs = tuple(
            (self._vocabulary.word(id_), math.exp(log_prob))
            for id_, log_prob in zip(self._words[place], self._log_probs[place], strict=True)
        )
        return Word(*pairs[0], pairs)

    def _alternatives(self, itself: Alternative) -> Iterator[Alternative]:
        """The caption, then others; of sentences that read the same, the likeliest is kept."""
        yield itself
        seen = {itself.text, ""}
        sentences = self._followed
        if sentences is None:
            found = n_best(self._words, self._log_probs)
            sentences = (sentence for sentence in found if not _repeats(sentence.words))
        given = 1
        for sentence in sentences:
            if given == self._wanted:
                return
            text = self._vocabulary.decode(self._kept(sentence.words))
            if text not in seen:
                seen.add(text)
                given += 1
                yield Alternative(text, math.exp(sentence.log_prob))

    def _kept(self, ids: tuple[int, ...]) -> tuple[int, ...]:
        """The words of a sentence up to the last that can end it; at least one of them."""
        end = min(len(ids), self._limit)
        while end > 1 and self._vocabulary.word(ids[end - 1]) in _BAD_ENDINGS:
            end -= 1
        return ids[:end]


def _repeats(words: tuple[int, ...]) -> bool:
    return any(map(int.__eq__, words, words[1:]))


def _lists(beams: Beams) -> tuple[list[list[list[int]]], list[list[float]]]:
    return beams.words.tolist(), beams.scores.tolist()


def _followed(words: list[list[int]], scores: list[float]) -> list[Sentence]:
    """The sentences of a beam; places that none fills are left out."""
    found = []
    for ids, score in zip(words, scores, strict=True):
        end = ids.index(PERIOD) if PERIOD in ids else len(ids)
        if score > -math.inf:
            found.append(Sentence(tuple(ids[:end]), score))
    return found
