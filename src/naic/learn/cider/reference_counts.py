"""Captions counted: the n-grams of each image, and how often each of its references has them."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from naic.learn.cider.ngrams import order_of, pack
from naic.metrics.ngrams import ORDERS
from naic.text import Vocabulary, tokenise

_IMAGES_AT_ONCE = 4096  # bounds the memory of a build: some 50 MB for the n-grams of so many

Ints = npt.NDArray[np.int64]


def encode_reference(caption: str, vocabulary: Vocabulary) -> list[int]:
    """A caption as ids at full length, the period at its end."""
    tokens = tokenise(caption)
    return vocabulary.encode(tokens, len(tokens) + 1)


def count_in_parts(
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
