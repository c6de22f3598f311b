"""In how many training images an n-gram occurs, and the weight that follows from it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

# An odd number with well mixed bits: the upper bits of key · MULTIPLIER say the bucket.
MULTIPLIER = -7046029254386353131
_BUCKETS_PER_KEY = 4  # so that most buckets hold one key or none


@dataclass(frozen=True)
class Frequencies:
    """Document frequencies of n-grams, in buckets that need no search.

    Only n-grams of two images or more are kept: one image and none at all weigh the same, which
    leaves out most of them. The keys of a bucket lie side by side; most buckets have one or none.

    Attributes:
        first: (2^b + 1,) int32, where each bucket starts among the keys.
        bucket_keys: (K,) int64, in the order of the buckets.
        bucket_documents: (K,) int32.
        images: how many training images there are.
    """

    first: npt.NDArray[np.int32]
    bucket_keys: Ints
    bucket_documents: npt.NDArray[np.int32]
    images: int

    def __post_init__(self) -> None:
        buckets = len(self.first) - 1
        if buckets < 2 or buckets & (buckets - 1) or self.images < 1:
            raise ValueError(f"{buckets} buckets for {self.images} images")
        arrays = (self.first, self.bucket_keys, self.bucket_documents)
        kinds = [str(array.dtype) for array in arrays]
        if kinds != ["int32", "int64", "int32"]:
            raise ValueError(f"the buckets are {kinds}")
        if self.bucket_documents.shape != self.bucket_keys.shape or self.bucket_keys.ndim != 1:
            raise ValueError("keys and document frequencies differ in number")
        if len(self.bucket_documents) and not (
            self.bucket_documents.min() >= 2 and self.bucket_documents.max() <= self.images
        ):
            raise ValueError("document frequencies are out of range")
        steps = np.diff(self.first)
        if self.first[0] != 0 or self.first[-1] != len(self.bucket_keys) or (steps < 0).any():
            raise ValueError("the buckets do not follow each other")

    @property
    def shift(self) -> int:
        """Bits to drop from key · MULTIPLIER; a bit mask then takes off what the sign brought."""
        return _shift(len(self.first) - 1)

    @cached_property
    def widest(self) -> int:
        """The most keys of any bucket."""
        return max(1, int(np.diff(self.first).max()))

    @cached_property
    def weights(self) -> npt.NDArray[np.float64]:
        """(images + 1,) the squared weight for each document frequency."""
        return self.squared_weights(np.arange(self.images + 1))

    def squared_weights(self, documents: npt.NDArray[np.integer]) -> npt.NDArray[np.float64]:
        """(log N − log max(1, df))²; an n-gram that no image has weighs most.

        As the log of a quotient, which is exactly 0 for an n-gram that all images have.
        """
        weights: npt.NDArray[np.float64] = np.log(self.images / np.maximum(1, documents))
        return weights**2

    def look_up(self, keys: Ints) -> npt.NDArray[np.int32]:
        """The document frequency of each n-gram; 0 for those of one image or none."""
        found = np.zeros(len(keys), np.int32)
        if not len(self.bucket_keys):
            return found
        start = self.first[buckets_of(keys, len(self.first) - 1)]
        for step in range(self.widest):
            place = np.minimum(start + step, len(self.bucket_keys) - 1)
            hit = self.bucket_keys[place] == keys
            found[hit] = self.bucket_documents[place[hit]]
        return found


def buckets_of(keys: Ints, buckets: int) -> Ints:
    """The bucket of each key, out of a power of two of them."""
    return (keys * np.int64(MULTIPLIER) >> _shift(buckets)) & (buckets - 1)


def _shift(buckets: int) -> int:
    return 65 - buckets.bit_length()


def count_frequencies(keys: Ints, images: int) -> Frequencies:
    """Count keys that come once for each image they occur in."""
    ordered = np.sort(keys)
    new = np.flatnonzero(np.diff(ordered, prepend=-1))
    documents = np.diff(new, append=len(ordered))
    several = documents >= 2
    kept, documents = ordered[new[several]], documents[several]
    buckets = 1 << max(1, (len(kept) * _BUCKETS_PER_KEY).bit_length())
    bucket = buckets_of(kept, buckets)
    order = np.argsort(bucket, kind="stable")
    first = np.zeros(buckets + 1, np.int32)
    first[1:] = np.cumsum(np.bincount(bucket, minlength=buckets))
    return Frequencies(first, kept[order], documents[order].astype(np.int32), images)
