"""BLEU, ROUGE-L and CIDEr-D, number for number those of the public COCO evaluation."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from naic.errors import DataError
from naic.metrics.ngrams import (
    ORDERS,
    Counts,
    Ints,
    Layout,
    changes,
    check_pairs,
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


# The public code adds these so as not to divide by nothing. They are part of every published
# figure: a caption without a single right word has a BLEU a little above 0.
TINY, SMALL = 1e-15, 1e-9


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> list[Score]:
    """Bleu_1 to Bleu_4.

    The value of a set is made from sums over its images: lengths, right n-grams, n-grams in all.
    These are the shares, one array for all four scores.

    Args:
        hypotheses: one tokenised sentence an image.
        references: the tokenised references of the same images.
    """
    layout = lay_out(hypotheses, references)
    words = number_words(layout.sentences)
    length = words.lengths[layout.starts]
    columns = [length, _closest_length(words.lengths, layout)]
    for order, counts in enumerate(count_ngrams(words), 1):
        columns += [_right(counts, layout), np.maximum(0, length - order + 1)]
    shares = np.stack(columns, axis=1).astype(np.float64)  # (I, 10)
    scores = []
    for order in range(1, ORDERS + 1):
        combine = partial(_combine, order)
        value = float(combine(shares.sum(axis=0)))
        scores.append(Score(f"Bleu_{order}", value, combine(shares), shares, combine))
    return scores


def _combine(order: int, sums: Floats) -> Floats:
    """(..., 10) hypothesis and reference length, then right and all n-grams -> (...) BLEU."""
    length, wanted = sums[..., 0], sums[..., 1]
    right, whole = sums[..., 2 : 2 + 2 * order : 2], sums[..., 3 : 3 + 2 * order : 2]
    precision = np.prod((right + TINY) / (whole + SMALL), axis=-1) ** (1 / order)
    brevity = 1 - (wanted + SMALL) / (length + TINY)
    return np.asarray(precision * np.exp(np.minimum(0.0, brevity)))


def _closest_length(lengths: Ints, layout: Layout) -> Ints:
    """(I,) the reference length closest to the hypothesis; of two as close, the shorter."""
    own = lengths[layout.starts]
    unit = int(lengths.max()) + 1
    cost = np.abs(lengths - own[layout.image]) * unit + lengths
    cost[layout.starts] = unit * unit  # the hypothesis is no reference
    return np.asarray(np.minimum.reduceat(cost, layout.starts) % unit)


def _right(counts: Counts, layout: Layout) -> Ints:
    """(I,) n-grams of the hypothesis, each at most as often as the reference that has it most."""
    image = layout.image[counts.sentence]
    groups = np.flatnonzero(changes(counts.gram) | changes(image))  # one n-gram in one image
    if not len(groups):
        return np.zeros(len(layout.starts), np.int64)
    said = np.where(layout.is_hypothesis()[counts.sentence], counts.count, 0)
    most = np.maximum.reduceat(counts.count - said, groups)
    right = np.minimum(said[groups], most)  # the hypothesis, if it has the n-gram, is first
    totals = np.bincount(image[groups], weights=right, minlength=len(layout.starts))
    return totals.astype(np.int64)


_BETA_SQUARED = 1.2**2  # recall counts for more than precision


def rouge_l(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> Score:
    """ROUGE_L: the F-measure of the longest common subsequence, mean over the images.

    As in the public code, the best precision and the best recall may come from two references.

    Args:
        hypotheses: one tokenised sentence an image.
        references: the tokenised references of the same images.
    """
    check_pairs(hypotheses, references)
    scores = [_image_score(*pair) for pair in zip(hypotheses, references, strict=True)]
    return mean_score("ROUGE_L", np.array(scores, np.float64))


def _image_score(hypothesis: str, references: Sequence[str]) -> float:
    # The public code cuts at " " alone: U+00A0 stays inside a token, and "" is one token that is
    # empty, so an empty hypothesis has the score 1 if one of its references is empty as well.
    words = hypothesis.split(" ")
    places: dict[str, int] = {}  # word -> a bit for each place where the hypothesis has it
    for place, word in enumerate(words):
        places[word] = places.get(word, 0) | 1 << place
    precision = recall = 0.0
    for reference in references:
        others = reference.split(" ")
        common = _common(places, len(words), others)
        precision = max(precision, common / len(words))
        recall = max(recall, common / len(others))
    if precision == 0:
        return 0.0
    return (1 + _BETA_SQUARED) * precision * recall / (recall + _BETA_SQUARED * precision)


def _common(places: dict[str, int], length: int, others: list[str]) -> int:
    """The length of the longest common subsequence, a whole row of the usual table at a time.

    In a row the table grows by 0 or 1 from one place of the hypothesis to the next. `level` has a
    bit 1 where it does not grow, and one addition carries a match over a run of such places.
    """
    level = everything = (1 << length) - 1
    for word in others:
        if word in places:
            match = level & places[word]
            level = (level + match) | (level - match)
    return length - (level & everything).bit_count()
