"""CIDEr-D, number for number what the public COCO evaluation calls CIDEr."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from naic.errors import DataError
from naic.metrics.ngrams import (
    ORDERS,
    Counts,
    Ints,
    Layout,
    changes,
    count_ngrams,
    lay_out,
    number_words,
)
from naic.metrics.score import Floats, Score, mean_score

SIGMA = 6.0
_SCALE = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class DocumentFrequencies:
    """In how many images of a corpus each n-gram occurs: the rarer, the more it weighs.

    Attributes:
        images: images in the corpus.
        words: each word of the corpus, and its number.
        keys: for each length the n-grams of the corpus, numbered as `Counts` says.
        counts: for each length, the images that have each of them.
    """

    images: int
    words: dict[str, int]
    keys: tuple[Ints, ...]
    counts: tuple[Ints, ...]

    @classmethod
    def count(cls, references: Sequence[Sequence[str]]) -> "DocumentFrequencies":
        """Count a corpus: the tokenised captions of each image, which are one document."""
        if not references:
            raise DataError("document frequencies", "the corpus has no image", "Give it some.")
        words = number_words([sentence for image in references for sentence in image])
        image = np.repeat(np.arange(len(references)), [len(image) for image in references])
        keys, counts = [], []
        for found in count_ngrams(words):
            where = image[found.sentence]
            documents = found.gram[changes(found.gram) | changes(where)]
            keys.append(found.keys)
            counts.append(np.bincount(documents, minlength=len(found.keys)))
        return cls(len(references), words.numbers, tuple(keys), tuple(counts))

    def find(self, words: dict[str, int], keys: Sequence[Ints]) -> list[Ints]:
        """For each length, the counts of n-grams that were numbered elsewhere; 0 where unseen.

        Args:
            words: their words, in the order of their numbers.
            keys: their n-grams of each length.
        """
        own_words = np.array([self.words.get(word, -1) for word in words], np.int64)
        own = np.zeros(1, np.int64)  # our number of each (n-1)-gram, -1 where there is none
        found = []
        for theirs, ours, counts in zip(keys, self.keys, self.counts, strict=True):
            first, last = own[theirs // len(words)], own_words[theirs % len(words)]
            wanted = np.where((first < 0) | (last < 0), -1, first * len(self.words) + last)
            place = np.searchsorted(ours, wanted)
            own = np.where(np.append(ours, -2)[place] == wanted, place, -1)
            found.append(np.append(counts, 0)[own])  # the last row is for -1
        return found


def cider(
    hypotheses: Sequence[str],
    references: Sequence[Sequence[str]],
    frequencies: DocumentFrequencies | None = None,
) -> Score:
    """CIDEr: how much of each reference's weight the hypothesis has, mean over the images.

    Args:
        hypotheses: one tokenised sentence an image.
        references: the tokenised references of the same images.
        frequencies: what n-grams weigh; None counts them in `references`, as published scores do.
            With a single image every weight is then log 1 = 0, and so is the score.
    """
    layout = lay_out(hypotheses, references)
    words = number_words(layout.sentences)
    orders = list(count_ngrams(words))
    if frequencies is None:
        images = len(hypotheses)
        found = [_documents(counts, layout) for counts in orders]
    else:
        images = frequencies.images
        found = frequencies.find(words.numbers, [counts.keys for counts in orders])
    likeness = np.zeros(len(layout.sentences))
    for counts, documents in zip(orders, found, strict=True):
        likeness += _likeness(counts, _rarity(documents, images), layout)
    # The public code compares numbers of bigrams. Words give the same difference, except beside
    # an empty sentence (none has no bigram, as one has), and that is like no other anyway.
    apart = words.lengths - words.lengths[layout.starts][layout.image]
    likeness = likeness / ORDERS * np.exp(-(apart**2) / (2 * SIGMA**2))
    totals = np.bincount(layout.image, weights=likeness)
    others = np.bincount(layout.image) - 1
    return mean_score("CIDEr", _SCALE * totals / others)


def _documents(counts: Counts, layout: Layout) -> Ints:
    """(G,) images that have an n-gram in their references."""
    rows = ~layout.is_hypothesis()[counts.sentence]
    gram, image = counts.gram[rows], layout.image[counts.sentence[rows]]
    return np.bincount(gram[changes(gram) | changes(image)], minlength=len(counts.keys))


def _rarity(documents: Ints, images: int) -> Floats:
    """(G,) log N - log df, an n-gram that was never seen weighing as one seen once.

    One logarithm, not two: what all images have must weigh exactly nothing, and numpy may take a
    logarithm alone and one among others by two ways that differ in the last bit.
    """
    return np.asarray(np.log(images / np.maximum(1, documents)))


def _likeness(counts: Counts, rarity: Floats, layout: Layout) -> Floats:
    """(S,) the clipped cosine between each reference and the hypothesis of its image; 0 for that.

    The weight of an n-gram in a sentence is its count times its rarity, so min(h, r)·r is
    min(counts)·count·rarity².
    """
    sentences = len(layout.sentences)
    image = layout.image[counts.sentence]
    is_hypothesis = layout.is_hypothesis()[counts.sentence]
    new_group = changes(counts.gram) | changes(image)  # one n-gram in one image
    groups = np.flatnonzero(new_group)
    # The hypothesis, if it has the n-gram, is the first of its group.
    said = np.where(is_hypothesis, counts.count, 0)[groups][np.cumsum(new_group) - 1]
    weight = counts.count * rarity[counts.gram] ** 2
    norm = np.sqrt(np.bincount(counts.sentence, counts.count * weight, sentences))
    shared = np.bincount(counts.sentence, np.minimum(said, counts.count) * weight, sentences)
    shared[layout.starts] = 0.0
    norms = norm * norm[layout.starts][layout.image]
    cosine: Floats = np.divide(shared, norms, out=np.zeros(sentences), where=norms > 0)
    return cosine
