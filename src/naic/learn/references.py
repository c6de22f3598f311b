"""What rewards are counted against: every image's references and the corpus's document frequencies.

Everything is in n-grams of word ids, and an n-gram is one integer: four ids of 14 bits each, one
added so that no word is zero. Nothing is hashed, so nothing collides.
"""

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from naic.data.features import FeatureStore
from naic.errors import DataError, StoreError, VocabularyError
from naic.files import write_atomically
from naic.learn.frequencies import Frequencies, count_frequencies
from naic.learn.ngrams import BITS, ORDERS, order_of, pack
from naic.text import Vocabulary, tokenise

FILE_NAME = "references.safetensors"
SIGMA = 6.0  # of CIDEr-D's Gaussian over the difference in length
SMALL, TINY = 1e-9, 1e-15  # what the public BLEU adds to avoid a division by zero

_FORMAT = "naic-references-1"
_IMAGES_AT_ONCE = 4096  # bounds the memory of a build: some 50 MB for the n-grams of so many

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """The references of I images, ready for scoring; image i is row i of the feature store.

    G is the number of n-grams of all images, each counted once an image; R the largest number of
    references of an image. An image without references has none of either, and scores 0.

    Attributes:
        starts: (I + 1,) int64; image i has the n-grams starts[i] to starts[i + 1].
        keys: (G,) int64, ascending within an image.
        documents: (G,) int32, in how many training images the n-gram occurs.
        counts: (G, R) uint8, how often it occurs in each reference.
        inverse_norms: (I, R, 4) float64, one over the length of each reference's tf-idf vector of
            each order; 0 where that is 0, since such a reference is like nothing.
        lengths: (I, R) int64, words of each reference, the period among them.
        amounts: (I,) int64, how many references.
        frequencies: the document frequencies of the training images.
        vocabulary: the fingerprint of the word list the ids come from.
        origin: the digest of the captions all this was made from, and of what counted for df.
    """

    starts: Ints
    keys: Ints
    documents: npt.NDArray[np.int32]
    counts: npt.NDArray[np.uint8]
    inverse_norms: npt.NDArray[np.float64]
    lengths: Ints
    amounts: Ints
    frequencies: Frequencies
    vocabulary: str
    origin: str

    @classmethod
    def build(
        cls,
        captions: Sequence[Sequence[str]],
        vocabulary: Vocabulary,
        training: Sequence[bool] | None = None,
    ) -> Self:
        """Tables from the captions of each image; `training` says which images count for df.

        References keep their full length: they are what people said, not what a model can say.
        """
        chosen = np.ones(len(captions), bool) if training is None else np.asarray(training, bool)
        amounts = np.array([len(texts) for texts in captions], np.int64)
        if not (chosen & (amounts > 0)).any():
            raise DataError(
                "references",
                "no training image has a caption, so n-grams have no document frequency",
                "Name the training splits, or prepare a dataset with captions.",
            )
        width = int(amounts.max())
        lengths = np.zeros((len(captions), width), np.int64)
        parts = list(_in_parts(captions, vocabulary, lengths))
        keys = np.concatenate([part[0] for part in parts])
        counts = np.concatenate([part[1] for part in parts])
        sizes = np.concatenate([part[2] for part in parts])
        starts = np.concatenate([[0], np.cumsum(sizes)])
        owners = np.repeat(np.arange(len(captions)), sizes)  # (G,)
        images = int((chosen & (amounts > 0)).sum())
        frequencies = count_frequencies(keys[chosen[owners]], images)
        documents = frequencies.look_up(keys)
        inverse = _inverse_norms(
            keys, owners, counts, frequencies.squared_weights(documents), lengths.shape
        )
        origin = _digest(captions, chosen)
        fingerprint = vocabulary.fingerprint
        return cls(
            starts,
            keys,
            documents,
            counts,
            inverse,
            lengths,
            amounts,
            frequencies,
            fingerprint,
            origin,
        )

    @classmethod
    def beside(
        cls, store: FeatureStore, vocabulary: Vocabulary, training_splits: Collection[str]
    ) -> Self:
        """The tables of a feature store: read from its folder, or built and saved there.

        Raises:
            VocabularyError: the saved tables were made with another vocabulary.
            StoreError: they were made from other captions or training splits, or are damaged.
        """
        path = store.folder / FILE_NAME
        captions = [record.captions for record in store.records]
        training = [record.split in training_splits for record in store.records]
        if not path.exists():
            built = cls.build(captions, vocabulary, training)
            built.save(path)
            return built
        loaded = cls.load(path, vocabulary)
        if loaded.origin != _digest(captions, np.asarray(training, bool)):
            raise StoreError(
                str(path),
                "was made from other captions or other training splits than those asked for",
                "Delete the file and it is made anew, or ask for the splits it was made with.",
            )
        return loaded

    def save(self, path: Path) -> None:
        """Write the tables as safetensors; the file is either the old one or the whole new one."""
        note = {
            "format": _FORMAT,
            "vocabulary": self.vocabulary,
            "origin": self.origin,
            "images": str(self.frequencies.images),
        }
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        arrays |= {name: getattr(self.frequencies, name) for name in _FREQUENCY_ARRAYS}
        write_atomically(path, save(arrays, note))

    @classmethod
    def load(cls, path: Path, vocabulary: Vocabulary) -> Self:
        """Read saved tables, for the vocabulary they were made with and no other."""
        try:
            with safe_open(path, "numpy") as file:
                note: dict[str, str] = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (OSError, SafetensorError) as error:
            raise _damaged(path, f"cannot be read ({error})") from error
        if note.get("format") != _FORMAT:
            raise _damaged(path, f"is no {_FORMAT} file")
        if note.get("vocabulary") != vocabulary.fingerprint:
            raise VocabularyError(
                str(path),
                "its n-grams are those of another vocabulary, and scores would be nonsense "
                f"({str(note.get('vocabulary'))[:12]}, not {vocabulary.fingerprint[:12]})",
                "Use the vocab.json it was made with, or delete the file and it is made anew.",
            )
        try:
            rest = {name: arrays[name] for name in _FREQUENCY_ARRAYS}
            frequencies = Frequencies(images=int(note["images"]), **rest)
            own: dict[str, Any] = {name: arrays[name] for name in _ARRAYS}
            loaded = cls(
                **own,
                frequencies=frequencies,
                vocabulary=note["vocabulary"],
                origin=note["origin"],
            )
            loaded._check()
        except (KeyError, ValueError) as error:
            raise _damaged(path, f"contradicts itself ({error})") from error
        return loaded

    def __len__(self) -> int:
        return len(self.amounts)

    @property
    def widest(self) -> int:
        """The most n-grams of any image."""
        return int(np.diff(self.starts).max(initial=0))

    def _check(self) -> None:
        """Refuse arrays that do not belong together: in a kernel they would be a crash."""
        images, width = self.lengths.shape
        grams = len(self.keys)
        shapes = {
            "starts": (images + 1,),
            "documents": (grams,),
            "counts": (grams, width),
            "inverse_norms": (images, width, ORDERS),
            "amounts": (images,),
        }
        for name, shape in shapes.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} is {getattr(self, name).shape}, not {shape}")
        if self.starts[0] != 0 or self.starts[-1] != grams or (np.diff(self.starts) < 0).any():
            raise ValueError("the images' n-grams do not follow each other")
        if len(self.amounts) and not 0 <= self.amounts.min() <= self.amounts.max() <= width:
            raise ValueError("the numbers of references are out of range")


_ARRAYS = [
    field.name
    for field in fields(References)
    if field.name not in ("frequencies", "vocabulary", "origin")
]
_FREQUENCY_ARRAYS = [field.name for field in fields(Frequencies) if field.name != "images"]


def encode_reference(caption: str, vocabulary: Vocabulary) -> list[int]:
    """A caption as ids at full length, the period at its end."""
    tokens = tokenise(caption)
    return vocabulary.encode(tokens, len(tokens) + 1)


def _in_parts(
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
    # More than 255 times the same n-gram in one reference: no caption, and no use to count on.
    return (
        keys[new],
        np.minimum(counts, 255).astype(np.uint8),
        np.bincount(image[new], minlength=images),
    )


def _inverse_norms(
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


def _digest(captions: Sequence[Sequence[str]], training: npt.NDArray[np.bool_]) -> str:
    state = hashlib.sha256(np.packbits(training).tobytes())
    for texts in captions:
        state.update(json.dumps(list(texts)).encode())
    return state.hexdigest()


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(str(path), why, "Delete the file and it is made anew from the captions.")


assert BITS * ORDERS <= 62  # the packed n-grams stay positive
