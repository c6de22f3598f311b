"""Rescoring: of what the agents find likeliest, a teacher says which sentence is to be said.

The agents do not hear each other, and the right words are often there in a sentence that is not
their first. A causal teacher hears all words before each one: given whole sentences it needs one
pass for all of them (teacher forcing), not one for each word as when it writes by itself.

Here is what needs no torch: which sentences, and their order. The teacher's pass is in
`rescorer.py`.
"""

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from naic.decode.best_first import Sentence
from naic.decode.chains import told
from naic.decode.decoding import Decoding
from naic.decode.wishes import likeliest_without
from naic.errors import ConfigError
from naic.runtime.sentences import TRIED, Proposals
from naic.runtime.wording import Wording
from naic.text.vocabulary import PAD, PERIOD, Vocabulary

CHOICES, MOST_CHOICES = 10, 100
LogProbs = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Rescoring:
    """Who chooses among the sentences of the agents, and how.

    Attributes:
        teacher: a causal model with the same words, which sees with the same backbone: a folder, or
            an owner/name of the hub.
        choices: n, how many of the agents' likeliest sentences it chooses from.
        weight: what the agents' own opinion counts beside the teacher's: the sentence is said whose
            log p(teacher) + weight · log p(agents) is the highest.
    """

    teacher: str | Path
    choices: int = CHOICES
    weight: float = 0.0

    def __post_init__(self) -> None:
        if not 1 <= self.choices <= MOST_CHOICES:
            why = f"{self.choices} is not from 1 to {MOST_CHOICES}"
            raise ConfigError("--rescore-choices", why, f"Try {CHOICES}.")
        if not 0 <= self.weight < float("inf"):
            why = f"{self.weight} is no number from 0 on"
            raise ConfigError("--rescore-weight", why, "Try 0.3.")

    def check_alternatives(self, number: int) -> None:
        """Refuse to give more sentences than there are to choose from."""
        if number > self.choices:
            why = f"{number} are more than the {self.choices} that are rescored"
            raise ConfigError("--alternatives", why, "Raise --rescore-choices, or ask for fewer.")


class Rescored(NamedTuple):
    """A sentence with both opinions of it.

    Attributes:
        words: without the period.
        log_probs: of each word by the teacher, and of the period where there is a place for it.
        student: the logarithm of the sentence's probability by the agents.
    """

    words: tuple[int, ...]
    log_probs: tuple[float, ...]
    student: float

    @property
    def teacher(self) -> float:
        """The logarithm of the sentence's probability by the teacher."""
        return sum(self.log_probs)


def candidates(
    proposals: Proposals, count: int, decoding: Decoding, vocabulary: Vocabulary
) -> list[list[Sentence]]:
    """For each of B images the `count` likeliest sentences that may be said, best first.

    As for `naic caption` a sentence is what is left of it when loose ends are cut; of those that
    read the same the likeliest counts. There may be fewer, but there is always one.
    """
    words, log_probs, pairs = proposals
    heard = log_probs if pairs is None else told(words, log_probs, pairs)
    rows = zip(words.tolist(), heard.tolist(), strict=True)
    wording = Wording(vocabulary, decoding)
    return [_likeliest(*row, count, wording) for row in rows]


def _likeliest(
    words: list[list[int]], log_probs: list[Any], count: int, wording: Wording
) -> list[Sentence]:
    """The same of one image, of words (N, K) and log-probabilities as `n_best` takes them."""
    limit = wording.decoding.max_words or len(words)
    found: dict[tuple[int, ...], Sentence] = {}
    first: Sentence | None = None
    every = likeliest_without(wording.wanted.forbidden, words[:limit], log_probs[:limit])
    for sentence in itertools.islice(every, TRIED * count):
        kept = Sentence(wording.sentence(sentence.words), sentence.log_prob)
        first = first or kept
        same = any(map(int.__eq__, sentence.words, sentence.words[1:]))
        if kept.words and kept.words not in found and (wording.decoding.repeats or not same):
            found[kept.words] = kept
            if len(found) == count:
                break
    # Of a model that is sure of nonsense its first; if all is forbidden, nothing is said.
    return list(found.values()) or [first or Sentence((), 0.0)]


def as_words(
    found: Sequence[Sequence[Sentence]], images: int, count: int, length: int
) -> npt.NDArray[np.int64]:
    """(images, count, length) the sentences as a teacher takes them; PAD is where nothing is said.

    Each ends in its period if there is a place for it: also one that was cut, since the teacher is
    to say how good it is as a whole sentence.
    """
    words = np.full((images, count, length), PAD, np.int64)
    for image, own in enumerate(found):
        for place, sentence in enumerate(own):
            ids = (*sentence.words, PERIOD)[:length]
            words[image, place, : len(ids)] = ids
    return words


def rescored(
    found: Sequence[Sequence[Sentence]], log_probs: LogProbs, weight: float
) -> list[list[Rescored]]:
    """The sentences in the order of teacher + weight · student; of equals the agents' first.

    Args:
        found: of each image.
        log_probs: (B, n, N) of their words by the teacher.
        weight: what the agents' opinion counts.
    """
    ranked = []
    for own, values in zip(found, log_probs.astype(np.float64).tolist(), strict=True):
        both = [
            Rescored(sentence.words, tuple(likely[: len(sentence.words) + 1]), sentence.log_prob)
            for sentence, likely in zip(own, values, strict=False)
        ]
        ranked.append(sorted(both, key=lambda one: -(one.teacher + weight * one.student)))
    return ranked


def chosen(ranked: Sequence[Sequence[Rescored]], length: int) -> Proposals:
    """The first of each image as a causal model proposes it: (B, N, 1), by the teacher."""
    best = [own[0] for own in ranked]
    words = as_words([[Sentence(one.words, 0.0)] for one in best], len(best), 1, length)
    likely = np.zeros(words.shape, np.float32)  # (B, 1, N)
    for row, one in zip(likely[:, 0], best, strict=True):
        row[: len(one.log_probs)] = one.log_probs
    # After the end nothing is said, and a period says that too.
    spoken = np.where(words == PAD, PERIOD, words)
    return Proposals(spoken.transpose(0, 2, 1), likely.transpose(0, 2, 1))


def as_said(decoding: Decoding) -> Decoding:
    """How rescored sentences are written: they are cut already."""
    return replace(decoding, max_words=None)
