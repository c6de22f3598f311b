"""What every metric gives: a value for the set, one for each image, and how the two belong."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

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
