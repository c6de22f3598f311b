"""N-grams of word ids as single integers, counted in captions and over all training images."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from naic.metrics.ngrams import ORDERS
from naic.text import Vocabulary, tokenise

BITS = 14  # of one id; text.MAX_IDS says the same
# An odd number with well mixed bits: the upper bits of key · MULTIPLIER say the bucket.
MULTIPLIER = -7046029254386353131
_BUCKETS_PER_KEY = 4  # so that most buckets hold one key or none
_IMAGES_AT_ONCE = 4096  # bounds the memory of a build: some 50 MB for the n-grams of so many

Ints = npt.NDArray[np.int64]


def pack(words: Ints, sentences: Ints) -> tuple[Ints, Ints]:
    """All n-grams of 1 to 4 words that do not cross from one sentence to the next.

    Args:
        words: (T,) the ids of all sentences, one after the other.
        sentences: (T,) which sentence each word belongs to.

    Returns:
        The packed n-grams and the place of each one's first word.
    """
    keys, places = [], []
    packed = np.zeros(len(words), np.int64)
    for order in range(1, ORDERS + 1):
        last = len(words) - order + 1
        if last <= 0:
            break
        packed = packed[:last] + (words[order - 1 :] + 1 << BITS * (order - 1))
        whole = np.flatnonzero(sentences[:last] == sentences[order - 1 :])
        keys.append(packed[whole])
        places.append(whole)
    if not keys:
        return packed, packed
    return np.concatenate(keys), np.concatenate(places)


def order_of(keys: Ints) -> Ints:
    """How many words each packed n-gram has."""
    return sum((keys >> BITS * n != 0 for n in range(1, ORDERS)), np.ones_like(keys))


def encode_reference(caption: str, vocabulary: Vocabulary) -> list[int]:
    """A caption as ids at full length, the period at its end."""
    tokens = tokenise(caption)
    return vocabulary.encode(tokens, len(tokens) + 1)


class Grams(NamedTuple):
    """The n-grams of the captions of I images, as `References` has them.

    Attributes:
        starts: (I + 1,) where those of each image begin.
        keys: (G,) ascending within an image.
        owners: (G,) the image of each.
        counts: (G, R) how often it occurs in each caption.
        lengths: (I, R) words of each caption.
        amounts: (I,) how many captions.
    """

    starts: Ints
    keys: Ints
    owners: Ints
    counts: npt.NDArray[np.uint8]
    lengths: Ints
    amounts: Ints


def count_all(captions: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Grams:
    """The n-grams of the captions of one image or more."""
    amounts = np.array([len(texts) for texts in captions], np.int64)
    lengths = np.zeros((len(captions), int(amounts.max())), np.int64)
    keys, counts, sizes = (
        np.concatenate(parts)
        for parts in zip(*_count_in_parts(captions, vocabulary, lengths), strict=True)
    )
    starts = np.concatenate([[0], np.cumsum(sizes)])
    owners = np.repeat(np.arange(len(captions)), sizes)
    return Grams(starts, keys, owners, counts, lengths, amounts)


def _count_in_parts(
    captions: Sequence[Sequence[str]], vocabulary: Vocabulary, lengths: Ints
) -> Iterator[tuple[Ints, npt.NDArray[np.uint8], Ints]]:
    """Keys, counts and numbers of n-grams of some thousand images at a time; fills `lengths`."""
    for first in range(0, len(captions), _IMAGES_AT_ONCE):
        some = captions[first : first + _IMAGES_AT_ONCE]
        ids: list[int] = []
        owners: list[int] = []  # image and reference of each caption, as one number
        sizes: list[int] = []
        for image, texts in enumerate(some):
            for number, text in enumerate(texts):
                encoded = encode_reference(text, vocabulary)
                ids += encoded
                owners.append(image * lengths.shape[1] + number)
                sizes.append(len(encoded))
                lengths[first + image, number] = len(encoded)
        yield _merge(ids, owners, sizes, len(some), lengths.shape[1])


def _merge(
    ids: Iterable[int], owners: list[int], sizes: list[int], images: int, width: int
) -> tuple[Ints, npt.NDArray[np.uint8], Ints]:
    """The distinct n-grams of each image, and how often each of its references has them."""
    words = np.fromiter(ids, np.int64)
    captions = np.repeat(np.arange(len(sizes)), sizes)
    keys, places = pack(words, captions)
    owner = np.asarray(owners, np.int64)[captions[places]]
    image = owner // width if width else owner
    order = np.lexsort((keys, image))
    keys, owner, image = keys[order], owner[order], image[order]
    new = np.ones(len(keys), bool)
    new[1:] = (keys[1:] != keys[:-1]) | (image[1:] != image[:-1])
    place = np.cumsum(new) - 1  # the row of each occurrence among the distinct n-grams
    counts = np.zeros((int(new.sum()), width), np.int64)
    np.add.at(counts, (place, owner % width if width else owner), 1)
    return (
        keys[new],
        np.minimum(counts, 255).astype(np.uint8),
        np.bincount(image[new], minlength=images),
    )


def inverse_norms(
    keys: Ints,
    owners: Ints,
    counts: npt.NDArray[np.uint8],
    squared: npt.NDArray[np.float64],
    shape: tuple[int, ...],
) -> npt.NDArray[np.float64]:
    """(I, R, 4): one over the root of the sum of (tf·idf)² over each reference's n-grams."""
    images, width = shape
    bins = owners * ORDERS + order_of(keys) - 1
    columns = [
        np.bincount(bins, counts[:, r].astype(np.float64) ** 2 * squared, images * ORDERS)
        for r in range(width)
    ]
    norms = np.sqrt(np.stack(columns, axis=1)).reshape(images, ORDERS, width)
    inverse = np.divide(1.0, norms, out=np.zeros_like(norms), where=norms > 0)
    return np.ascontiguousarray(inverse.transpose(0, 2, 1))


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
