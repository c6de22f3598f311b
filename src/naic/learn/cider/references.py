"""What rewards are counted against: every image's references and the corpus's document frequencies.

Everything is in n-grams of word ids, and an n-gram is one integer: four ids of 14 bits each, one
added so that no word is zero. Nothing is hashed, so nothing collides.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from naic.data.features import FeatureStore
from naic.errors import ConfigError, DataError, StoreError, VocabularyError
from naic.files import write_atomically
from naic.learn.cider.ngrams import (
    Frequencies,
    Grams,
    count_all,
    count_frequencies,
    inverse_norms,
)
from naic.metrics.ngrams import ORDERS
from naic.text import Vocabulary

OLD_NAME = "references.safetensors"  # of before the name said what for; used where it fits
_FORMAT = "naic-references-1"
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """The references of I images, ready for scoring; image i is row i of the feature store.

    G is the number of n-grams of all images, each counted once an image; R the largest number of
    references of an image. An image without references has none of either, and scores 0. An n-gram
    that a reference has more than 255 times is taken as having 255.

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
        words: how many ids there are.
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
    words: int

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
        if len(chosen) != len(captions) or any(isinstance(texts, str) for texts in captions):
            raise DataError(
                "references",
                f"{len(captions)} images with captions, {len(chosen)} said to be for training"
                if len(chosen) != len(captions)
                else "an image has one string where a list of captions is expected",
                "Give a list of captions for each image, and as many yes or no for training.",
            )
        counting = chosen & np.array([len(texts) > 0 for texts in captions], bool)
        if not counting.any():
            raise DataError(
                "references",
                "no training image has a caption, so n-grams have no document frequency",
                "Name the training splits, or prepare a dataset with captions.",
            )
        grams = count_all(captions, vocabulary)
        frequencies = count_frequencies(grams.keys[chosen[grams.owners]], int(counting.sum()))
        return cls._of(grams, frequencies, vocabulary, _digest(captions, chosen))

    def of_others(self, captions: Sequence[Sequence[str]], vocabulary: Vocabulary) -> Self:
        """Tables of other images, by the document frequencies of these; the same vocabulary."""
        return self._of(count_all(captions, vocabulary), self.frequencies, vocabulary, self.origin)

    @classmethod
    def _of(
        cls, grams: Grams, frequencies: Frequencies, vocabulary: Vocabulary, origin: str
    ) -> Self:
        documents = frequencies.look_up(grams.keys)
        squared = frequencies.squared_weights(documents)
        inverse = inverse_norms(
            grams.keys, grams.owners, grams.counts, squared, grams.lengths.shape
        )
        return cls(
            grams.starts,
            grams.keys,
            documents,
            grams.counts,
            inverse,
            grams.lengths,
            grams.amounts,
            frequencies,
            vocabulary.fingerprint,
            origin,
            len(vocabulary),
        )

    @classmethod
    def beside(
        cls, store: FeatureStore, vocabulary: Vocabulary, training_splits: Collection[str]
    ) -> Self:
        """The tables of a feature store: read from its folder, or built and saved there.

        The file's name carries the vocabulary, the captions and the training splits, so that each
        of them has a file of its own. Of an image with a mirrored twin all rows have references,
        and one of them counts for df and for the number of images.

        Raises:
            StoreError: the saved tables are damaged.
        """
        _check_splits(store, training_splits)
        captions = [record.captions for record in store.records]
        training = [
            first and record.split in training_splits
            for record, first in zip(store.records, store.first_views, strict=True)
        ]
        origin = _digest(captions, np.asarray(training, bool))
        old = store.folder / OLD_NAME
        if old.exists() and _made_for(old) == (vocabulary.fingerprint, origin):
            return cls.load(old, vocabulary)
        path = store.folder / file_name(vocabulary, origin)
        if path.exists():
            return cls.load(path, vocabulary)
        built = cls.build(captions, vocabulary, training)
        built.save(path)
        return built

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
        except FileNotFoundError as error:
            raise StoreError(str(path), "there is no such file", "Build and save it.") from error
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
                words=len(vocabulary),
            )
            loaded._check()
        except (KeyError, ValueError, TypeError) as error:
            raise _damaged(path, f"contradicts itself ({error})") from error
        return loaded

    def __len__(self) -> int:
        return len(self.amounts)

    @property
    def widest(self) -> int:
        """The most n-grams of any image."""
        return int(np.diff(self.starts).max(initial=0))

    def _check(self) -> None:
        """Refuse arrays that do not belong together: a kernel would read beyond their ends."""
        images, width = self.lengths.shape
        grams = len(self.keys)
        shapes: dict[str, tuple[tuple[int, ...], str]] = {
            "starts": ((images + 1,), "int64"),
            "keys": ((grams,), "int64"),
            "documents": ((grams,), "int32"),
            "counts": ((grams, width), "uint8"),
            "inverse_norms": ((images, width, ORDERS), "float64"),
            "lengths": ((images, width), "int64"),
            "amounts": ((images,), "int64"),
        }
        for name, (shape, kind) in shapes.items():
            found = getattr(self, name)
            if found.shape != shape or found.dtype != kind:
                raise ValueError(f"{name} is {found.dtype} {found.shape}, not {kind} {shape}")
        inner = np.ones(max(0, grams - 1), bool)  # neighbours of the same image
        starts = self.starts
        if starts[0] != 0 or starts[-1] != grams or (np.diff(starts) < 0).any():
            raise ValueError("the images' n-grams do not follow each other")
        inner[starts[(starts > 0) & (starts < grams)] - 1] = False
        if (np.diff(self.keys)[inner] <= 0).any() or (self.keys <= 0).any():
            raise ValueError("an image's n-grams are not in order")
        for name, most in (
            ("documents", self.frequencies.images),
            ("amounts", width),
            ("lengths", 2**31),
            ("inverse_norms", np.inf),
        ):
            values = getattr(self, name)
            if values.size and not (values.min() >= 0 and values.max() <= most):
                raise ValueError(f"{name} has values out of range")


_ARRAYS = [
    field.name
    for field in fields(References)
    if field.name not in ("frequencies", "vocabulary", "origin", "words")
]
_FREQUENCY_ARRAYS = [field.name for field in fields(Frequencies) if field.name != "images"]


def file_name(vocabulary: Vocabulary, origin: str) -> str:
    """The name beside a store of the tables for a vocabulary, and for captions and splits."""
    both = hashlib.sha256(f"{vocabulary.fingerprint} {origin}".encode()).hexdigest()
    return f"references-{both[:12]}.safetensors"


def _made_for(path: Path) -> tuple[str | None, str | None]:
    """The vocabulary and the origin of saved tables; of a file that cannot be read, neither."""
    try:
        with safe_open(path, "numpy") as file:
            note: dict[str, str] = file.metadata() or {}
    except (OSError, SafetensorError):
        return None, None
    return note.get("vocabulary"), note.get("origin")


def _check_splits(store: FeatureStore, training_splits: Collection[str]) -> None:
    """A split that is not there is a mistake, and not a store without training images."""
    known = {record.split for record in store.records}
    unknown = sorted(set(training_splits) - known)
    if unknown or not training_splits or isinstance(training_splits, str):
        named = ", ".join(repr(split) for split in sorted(known))
        raise ConfigError(
            "training splits",
            f"there is no split {unknown[0]!r}" if unknown else f"{training_splits!r} names none",
            f"Give a list of those that the store has: {named}"
            + (" (its images belong to no split)." if known == {""} else "."),
        )


def _digest(captions: Sequence[Sequence[str]], training: npt.NDArray[np.bool_]) -> str:
    state = hashlib.sha256(np.packbits(training).tobytes())
    for texts in captions:
        state.update(json.dumps(list(texts)).encode())
    return state.hexdigest()


def _damaged(path: Path, why: str) -> StoreError:
    return StoreError(str(path), why, "Delete the file and it is made anew from the captions.")
