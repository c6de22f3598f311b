"""What every metric gives, how far it could be from chance alone, and habits that a score hides.

A percentile bootstrap: sets of as many images are drawn with replacement, and each is scored anew
from the images' shares. CIDEr's document frequencies stay those of the whole evaluated set: they
say what a word weighs, and are not part of what is measured.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from naic.metrics.marks import ends_badly, has_repeat

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Score:
    """One metric over a set of images.

    BLEU and METEOR of a set are not the mean over its images, so a resampled set cannot be scored
    from `per_image` alone. `shares` holds what each image adds to the sums that the value is made
    of: the value of any set is `combine` of the sum of its images' shares.

    Attributes:
        name: the public evaluation's key, such as "Bleu_4" or "CIDEr".
        value: the score of the whole set.
        per_image: (I,) the score of each image.
        shares: (I, S).
        combine: (..., S) sums of shares -> (...) scores.
    """

    name: str
    value: float
    per_image: Floats
    shares: Floats
    combine: Callable[[Floats], Floats]


def mean_score(name: str, per_image: Floats) -> Score:
    """The score of a metric whose value for a set is the mean over the images."""
    shares = np.stack([per_image, np.ones_like(per_image)], axis=1)  # (I, 2)
    return Score(name, float(np.mean(per_image)), per_image, shares, _ratio)


def _ratio(sums: Floats) -> Floats:
    """(..., 2) sum and count -> (...) mean."""
    return np.asarray(sums[..., 0] / sums[..., 1])


LEVEL = 0.95
# With fewer images a percentile interval is too narrow: of differences that are chance alone, 11 %
# had p < 0.05 with 10 images, 6 % with 50.
FEWEST_IMAGES = 50
_COUNTS_AT_ONCE = 1 << 20  # 8 MB of counts
# Two sums of the same numbers may differ in the last bit. No difference between two scores that
# is worth a word is as small as this.
_TIE = 1e-12


@dataclass(frozen=True, slots=True)
class Difference:
    """What one system has more than another on the same images.

    Attributes:
        value: the first system's score minus the second's.
        low: lower end of the 95 % interval of the difference; None where there are too few images.
        high: upper end; None likewise.
        p: two-sided: twice the share of resampled sets in which the difference is zero or has the
            other sign, counting the real set as one of them, so that it is never 0. It is below
            0.05 just where the interval leaves out zero (but for the last resample or two).
    """

    value: float
    low: float | None = None
    high: float | None = None
    p: float | None = None


def resample(scores: Sequence[Score], *, times: int, seed: int) -> Floats:
    """Scores of resampled sets of images, (times, metrics).

    The sets depend on the number of images, `times` and `seed` alone, so that two systems on the
    same images can be compared set by set.
    """
    images = len(scores[0].per_image)
    shares = np.concatenate([score.shares for score in scores], axis=1)  # (I, all shares)
    ends = np.cumsum([score.shares.shape[1] for score in scores])[:-1]
    rng = np.random.default_rng(seed)
    block = max(1, _COUNTS_AT_ONCE // images)
    values = np.empty((times, len(scores)))
    for first in range(0, times, block):
        size = min(block, times - first)
        sums = _draw(rng, size, images) @ shares  # (size, all shares)
        for column, (score, part) in enumerate(
            zip(scores, np.split(sums, ends, axis=1), strict=True)
        ):
            values[first : first + size, column] = score.combine(part)
    return values


def _draw(rng: np.random.Generator, sets: int, images: int) -> Floats:
    """(sets, I) how often each image is in each resampled set."""
    drawn = rng.integers(0, images, size=(sets, images))
    drawn += np.arange(sets)[:, None] * images
    counts = np.bincount(drawn.reshape(-1), minlength=sets * images)
    return counts.reshape(sets, images).astype(np.float64)


def interval(values: Floats) -> tuple[float, float]:
    """The 95 % percentile interval of resampled values (times,)."""
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(values, [tail, 1 - tail])
    return float(low), float(high)


def differences(
    ours: Sequence[Score], theirs: Sequence[Score], *, times: int, seed: int
) -> list[Difference]:
    """The paired bootstrap, metric by metric; both on the same images in the same order."""
    values = resample(ours, times=times, seed=seed) - resample(theirs, times=times, seed=seed)
    values[np.abs(values) < _TIE] = 0.0
    found = []
    for column, (our, their) in enumerate(zip(ours, theirs, strict=True)):
        drawn = values[:, column]
        rarer = min(np.count_nonzero(drawn <= 0), np.count_nonzero(drawn >= 0))
        p = min(1.0, float(2 * (rarer + 1) / (times + 1)))
        found.append(Difference(our.value - their.value, *interval(drawn), p))
    return found


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
        repeats += has_repeat(words)
        bad_endings += ends_badly(words)
    count = len(sentences)
    return Habits(
        captions=count,
        repeats=repeats / count,
        bad_endings=bad_endings / count,
        vocabulary=len(vocabulary),
        mean_length=length / count,
        empty=empty,
    )
