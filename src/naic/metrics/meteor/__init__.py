"""METEOR 1.5 for English, as the public evaluation has it: here, or by the program in Java.

Words of a caption are matched with words of a reference as they are, by stem, by synonym and by
paraphrase, and the best alignment of the two sentences is scored. Both ways read the same data
files and give the same figures; the one here needs no Java (docs/decisions/035).
"""

from collections.abc import Sequence
from functools import cache
from typing import Literal

import numpy as np

from naic.metrics.meteor.aligner import align
from naic.metrics.meteor.data import NAME, Files, find_files, read_lexicon
from naic.metrics.meteor.jar import by_java
from naic.metrics.meteor.normalise import clean, words
from naic.metrics.meteor.phrases import Found, Phrases, load_phrases
from naic.metrics.meteor.score import STATISTICS, combine, count, score_of, shares
from naic.metrics.meteor.stages import Index, Sentence, Vocabulary, find_matches
from naic.metrics.score import Floats, Score

VERSION = "meteor-1.5"
Way = Literal["python", "java"]


def program() -> str:
    """Which METEOR gives the scores; both ways to it give the same."""
    return VERSION


def meteor(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    seconds: float | None = None,
    way: Way = "python",
) -> Score:
    """Score tokenised sentences, one an image, against the references of the same images.

    Args:
        hypotheses: I sentences; an empty one scores 0.
        references: I lists of at least one sentence.
        seconds: the time limit of the program in Java; by default it grows with the number of
            images.
        way: "python", or "java" for the reference program.

    Raises:
        MissingExtraError: the data files, or Java where it was asked for, are not installed.
    """
    if way == "java":
        return by_java(hypotheses, references, seconds=seconds)
    statistics = _scorer(find_files()).statistics(hypotheses, references)
    own = shares(statistics)
    return Score(NAME, float(combine(own.sum(axis=0))), combine(own), own, combine)


@cache
def _scorer(files: Files) -> "Scorer":
    """The tables are read once in a process."""
    return Scorer(files)


class Scorer:
    """METEOR with its tables."""

    def __init__(self, files: Files) -> None:
        self.lexicon = read_lexicon(files.jar)
        self.phrases: Phrases = load_phrases(files.paraphrases)
        self.vocabulary = Vocabulary(self.lexicon)

    def statistics(self, hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Floats:
        """(I, 23) the program's counts of each image against its best reference."""
        images = [
            [self._words(sentence) for sentence in (hypothesis, *own)]
            for hypothesis, own in zip(hypotheses, references, strict=True)
        ]
        found = iter(self.phrases.find([sentence for image in images for sentence in image]))
        best = [self._best(image, [next(found) for _ in image]) for image in images]
        return np.array(best, dtype=np.float64).reshape(-1, STATISTICS)

    def _words(self, sentence: str) -> list[str]:
        sendable = clean(sentence).encode(errors="replace").decode()  # as it is sent to the program
        return words(sendable, self.lexicon.prefixes)

    def _best(self, image: list[list[str]], phrases: list[Found]) -> list[int]:
        """The counts of a caption, the first of the sentences, against the best of the others."""
        sentence = self.vocabulary.sentence
        ours, *others = [sentence(*own) for own in zip(image, phrases, strict=True)]
        index = Index(ours)
        every = [self._counts(index, theirs) for theirs in others]
        return max(every, key=score_of)  # of equal ones the first

    def _counts(self, index: Index, theirs: Sentence) -> list[int]:
        matches = find_matches(index, theirs, self.phrases)
        return count(index.sentence, theirs, align(matches, len(index.sentence.words)))
