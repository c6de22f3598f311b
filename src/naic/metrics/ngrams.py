"""N-grams of many sentences at once: numbered without hashing, counted by one sort a length.

BLEU and CIDEr-D both ask how often each n-gram stands in the hypothesis and in the references of
an image. Words are numbered by a dict; an n-gram is the pair (number of its first n-1 words, number
of its last word) and is numbered in its turn. No two n-grams share a number, whatever the
vocabulary, and everything after the words is numpy.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

import numpy as np
import numpy.typing as npt

from naic.errors import DataError

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

ORDERS = 4  # both metrics go up to four words


@dataclass(frozen=True, slots=True, eq=False)
class Words:
    """Sentences as one row of word numbers.

    Attributes:
        numbers: each word that occurs, and its number.
        tokens: (T,) the words of all sentences, one after the other.
        lengths: (S,) words in each sentence.
    """

    numbers: dict[str, int]
    tokens: Ints
    lengths: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Counts:
    """How often each n-gram of one length stands in each sentence that has it.

    Rows are sorted by n-gram, then by sentence.

    Attributes:
        keys: (G,) ascending; the n-gram with number g is the (n-1)-gram `keys[g] // words`
            followed by the word `keys[g] % words`, where `words` is the size of the vocabulary.
        gram: (R,) numbers of n-grams.
        sentence: (R,) numbers of sentences.
        count: (R,) at least 1.
    """

    keys: Ints
    gram: Ints
    sentence: Ints
    count: Ints


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Hypotheses and references in one list: image by image, the hypothesis first.

    Attributes:
        sentences: all of them.
        image: (S,) the image of each sentence.
        starts: (I,) where each image's hypothesis is; its references follow.
    """

    sentences: list[str]
    image: Ints
    starts: Ints

    def is_hypothesis(self) -> Bools:
        """(S,) whether a sentence is the hypothesis of its image."""
        marks = np.zeros(len(self.sentences), np.bool_)
        marks[self.starts] = True
        return marks


def check_pairs(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    """Refuse what has no score: no image at all, lists out of step, an image without references."""
    if len(hypotheses) != len(references):
        why = f"there are {len(hypotheses)}, but references for {len(references)} images"
        raise DataError("hypotheses", why, "Give one hypothesis and one list for each image.")
    if not hypotheses:
        raise DataError("hypotheses", "there are none", "Give at least one image to score.")
    for place, sentences in enumerate(references):
        if isinstance(sentences, str):  # a str is a sequence of letters: it would get a score
            why = "they are one string where a list of sentences is expected"
            raise DataError(f"references of image {place}", why, "Put the sentence in a list.")
        if not sentences:
            hint = "Leave the image out, or give it a reference."
            raise DataError(f"references of image {place}", "there are none", hint)


def lay_out(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Layout:
    """Put each hypothesis before its references; raises DataError where there is no score."""
    check_pairs(hypotheses, references)
    sentences: list[str] = []
    for hypothesis, others in zip(hypotheses, references, strict=True):
        sentences.append(hypothesis)
        sentences.extend(others)
    sizes = np.array([1 + len(others) for others in references], np.int64)
    return Layout(sentences, np.repeat(np.arange(len(sizes)), sizes), np.cumsum(sizes) - sizes)


def number_words(sentences: Sequence[str]) -> Words:
    """Cut sentences into words and number these in the order in which they come up."""
    numbers: defaultdict[str, int] = defaultdict(count().__next__)
    tokens, lengths = array("q"), array("q")
    for sentence in sentences:
        # The public code cuts here at any white space, so "1\u00a01/2", one token of the
        # tokeniser, is two words for BLEU and CIDEr (but one for ROUGE, which cuts at " ").
        words = sentence.split()
        lengths.append(len(words))
        tokens.extend(map(numbers.__getitem__, words))
    return Words(dict(numbers), np.array(tokens, np.int64), np.array(lengths, np.int64))


def count_ngrams(words: Words) -> Iterator[Counts]:
    """The counts of all n-grams of 1, 2, 3 and 4 words."""
    sentence = np.repeat(np.arange(len(words.lengths)), words.lengths)  # (T,)
    ends = np.repeat(np.cumsum(words.lengths), words.lengths)
    left = ends - np.arange(len(ends))  # (T,) words from here to the end of the sentence
    gram = np.zeros(len(left), np.int64)  # (T,) number of the n-gram that starts here
    for order in range(1, ORDERS + 1):
        starts = np.flatnonzero(left >= order)
        pairs = gram[starts] * len(words.numbers) + words.tokens[starts + order - 1]
        # Stable: the sentences of an n-gram keep their order, so its rows come out grouped by
        # image, with the hypothesis first.
        by_gram = stable_order(pairs)
        pairs, starts = pairs[by_gram], starts[by_gram]
        new_gram = changes(pairs)
        gram[starts] = number = np.cumsum(new_gram) - 1
        where = sentence[starts]
        rows = np.flatnonzero(new_gram | changes(where))
        counts = np.diff(rows, append=len(pairs))
        yield Counts(pairs[new_gram], number[rows], where[rows], counts)


def stable_order(values: Ints) -> Ints:
    """What `np.argsort(values, kind="stable")` gives for numbers from 0 on, ten times as fast.

    Values with their places packed behind them are sorted by themselves, which numpy does with
    vector instructions. Numbers too large for that take the usual way.
    """
    bits = len(values).bit_length()
    if not len(values) or int(values.max()) >= 1 << (63 - bits):
        return np.argsort(values, kind="stable")
    packed = np.sort(values << bits | np.arange(len(values)))
    return packed & ((1 << bits) - 1)


def changes(values: Ints) -> Bools:
    """(R,) whether a value differs from the one before it; the first one does."""
    marks = np.ones(len(values), np.bool_)
    np.not_equal(values[1:], values[:-1], out=marks[1:])
    return marks
