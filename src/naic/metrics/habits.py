"""Habits that a score hides: repeated words, bad endings, how many words are ever used."""

from collections.abc import Sequence
from dataclasses import dataclass

from naic.text.vocabulary import BAD_ENDINGS

_BAD_ENDINGS = frozenset(BAD_ENDINGS)


@dataclass(frozen=True, slots=True)
class Habits:
    """How a set of captions is written.

    Attributes:
        captions: how many there are.
        repeats: the share with a word twice in a row ("a girl girl riding").
        bad_endings: the share that ends on one of BAD_ENDINGS ("a dog with a").
        vocabulary: distinct words.
        mean_length: words a caption.
        empty: captions without a word.
    """

    captions: int
    repeats: float
    bad_endings: float
    vocabulary: int
    mean_length: float
    empty: int


def habits(sentences: Sequence[str]) -> Habits:
    """The habits of tokenised sentences: at least one, words joined by single spaces."""
    vocabulary: set[str] = set()
    repeats = bad_endings = length = empty = 0
    for sentence in sentences:
        if not sentence:
            empty += 1
            continue
        words = sentence.split(" ")
        vocabulary.update(words)
        length += len(words)
        repeats += any(map(str.__eq__, words, words[1:]))
        bad_endings += words[-1] in _BAD_ENDINGS
    count = len(sentences)
    return Habits(
        captions=count,
        repeats=repeats / count,
        bad_endings=bad_endings / count,
        vocabulary=len(vocabulary),
        mean_length=length / count,
        empty=empty,
    )
