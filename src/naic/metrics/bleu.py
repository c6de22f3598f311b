"""BLEU-1 to BLEU-4, number for number those of the public COCO evaluation."""

from collections.abc import Sequence
from functools import partial

import numpy as np

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
from naic.metrics.score import Floats, Score

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
