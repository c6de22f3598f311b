"""What a training step learns from: captions as ids, and which images come in which step.

The order of the images is a pure function of the seed and the step. A run that was killed goes on
with the very batch it would have had, with no loader whose state must be saved.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
import numpy.typing as npt

from naic.data.features import FeatureStore, View, refuse_unknown
from naic.errors import ConfigError, DataError, StoreError
from naic.text import PAD, UNK, Vocabulary

if TYPE_CHECKING:
    from naic.data.joined import AnyStore
    from naic.data.pseudo import Taught

Ints = npt.NDArray[np.int64]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, eq=False)
class Targets:
    """The captions to learn, as ids; place i is an image that has at least one.

    Attributes:
        rows: (I,) the images' rows in the feature store, or in several joined, ascending.
        ids: (I, C, N) int16, C the most captions of an image; all PAD where it has fewer.
        counts: (I,) captions of each image.
    """

    rows: Ints
    ids: npt.NDArray[np.int16]
    counts: Ints

    @classmethod
    def build(
        cls,
        store: FeatureStore,
        splits: Collection[str],
        vocabulary: Vocabulary,
        length: int,
        views: Collection[View] = (),
    ) -> Self:
        """The captions of these splits of a store, of images in these views (none named: all).

        Nothing is saved: all of COCO takes some seconds, and a file could be of other captions.

        Raises:
            ConfigError: the store has no such split, or no such view of its images.
            DataError: no image of the splits has a caption.
        """
        refuse_unknown(splits, Counter(record.split for record in store.records))
        rows = [
            row
            for row, record in enumerate(store.records)
            if record.split in splits and record.captions
        ]
        if not rows:
            named = ", ".join(repr(split) for split in sorted(splits)) or "none"
            why = f"no image of the splits asked for ({named}) has a caption"
            hint = "Name other splits, or prepare a dataset with captions."
            raise DataError(str(store.folder), why, hint)
        rows = rows_of_views(store, rows, views)
        known: dict[tuple[str, ...], list[list[int]]] = {}  # mirrored twins have the same captions
        encoded = []
        for row in rows:
            said = store.records[row].captions
            if said not in known:
                known[said] = [vocabulary.encode(caption, length) for caption in said]
            encoded.append(known[said])
        return cls._put_together(rows, encoded, length)

    @classmethod
    def build_pseudo(
        cls, taught: "Mapping[int, Taught]", vocabulary: Vocabulary, length: int
    ) -> Self:
        """What a teacher says, by row (`pseudo.look_up`).

        Raises:
            DataError: nothing was taught, or in words that are not known.
        """
        if not taught:
            why = "there is not one caption in them"
            raise DataError("pseudo captions", why, "Distil from a store that has images.")
        encoded = [
            [_encode(words, ended, vocabulary, length) for words, ended in taught[row].sentences()]
            for row in sorted(taught)
        ]
        return cls._put_together(sorted(taught), encoded, length)

    @classmethod
    def _put_together(cls, rows: list[int], encoded: list[list[list[int]]], length: int) -> Self:
        counts = np.array([len(own) for own in encoded], np.int64)
        ids = np.full((len(rows), int(counts.max()), length), PAD, np.int16)
        for place, own in zip(ids, encoded, strict=True):
            place[: len(own)] = own
        return cls(np.array(rows, np.int64), ids, counts)

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def captions(self) -> int:
        """How many captions there are."""
        return int(self.counts.sum())


def rows_of_views(store: "AnyStore", rows: Iterable[int], views: Collection[View]) -> list[int]:
    """Those of the rows that show one of these views; all of them where none is named.

    Raises:
        ConfigError: a store that some of the rows are in has a view in none of them.
    """
    if not views:
        return list(rows)
    chosen = []
    there: dict[Path, set[View]] = {}
    for row in rows:
        own, place = store.locate(row)
        view = own.views[place]
        there.setdefault(own.folder, set()).add(view)
        if view in views:
            chosen.append(row)
    for folder, found in there.items():
        if lacking := [view for view in views if view not in found]:
            why = f"no image to learn from is a {lacking[0]} view in {folder}"
            hint = f"There are: {', '.join(sorted(found))}. `naic prepare --mirror`, `--crop` make"
            raise ConfigError("data.views", why, f"{hint} others.")
    return chosen


def _encode(words: list[str], ended: bool, vocabulary: Vocabulary, length: int) -> list[int]:
    """Ids of a pseudo caption; where the teacher was cut off, no period is made up."""
    ids = vocabulary.encode(words, length)
    if UNK in ids:
        why = f"the word {words[ids.index(UNK)]!r} is not in the vocabulary of this run"
        raise DataError("pseudo captions", why, "Use the vocab.json that is in their store.")
    if not ended and len(words) < length:
        ids[len(words)] = PAD
    return ids


class Stream:
    """Images in an endless row, epoch after epoch, each epoch in an order of its own.

    Every batch has the same size, so one may hold the end of an epoch and the start of the next;
    none is cut short and no image is left out.
    """

    def __init__(self, images: int, batch: int, seed: int, part: int = 0) -> None:
        """`part` tells the orders of several streams of one seed apart."""
        if images < 1 or batch < 1:
            why = f"{batch} of {images} images make no batch"
            raise ConfigError("batch", why, "Give at least one image, and a batch of 1 or more.")
        self.images = images
        self.batch = batch
        self.seed = seed
        self._entropy = [part] if part else []  # older runs had none, and keep their order
        self._orders: dict[int, Ints] = {}

    def at(self, step: int) -> Ints:
        """(batch,) the images of a step, 0 to images - 1."""
        places = self._positions(step)
        parts = [
            self._order(epoch)[places[places // self.images == epoch] % self.images]
            for epoch in range(places[0] // self.images, places[-1] // self.images + 1)
        ]
        return np.concatenate(parts)

    def epochs(self, step: int) -> Ints:
        """(batch,) the epoch, from 0, in which each image of a step comes."""
        return self._positions(step) // self.images

    def epoch_of(self, step: int) -> float:
        """How many epochs are over when a step begins."""
        return step * self.batch / self.images

    def _positions(self, step: int) -> Ints:
        return np.arange(step * self.batch, (step + 1) * self.batch, dtype=np.int64)

    def _order(self, epoch: int) -> Ints:
        """The order of an epoch. Two are kept, since a batch may need both.

        By sorting raw random numbers: numpy keeps those the same in all its versions, which it
        does not promise of its shuffles, and a run may be resumed with a newer numpy.
        """
        if epoch not in self._orders:
            bits = np.random.PCG64(np.random.SeedSequence([self.seed, epoch, *self._entropy]))
            order = np.argsort(bits.random_raw(self.images), kind="stable")
            self._orders = {**dict(list(self._orders.items())[-1:]), epoch: order}
        return self._orders[epoch]


class Spread:
    """Images cut into parts, of each of which every step takes equally many.

    A process whose share of the steps comes from some parts needs the features of these alone. The
    order depends on the number of parts, not on that of the processes: one process that has all of
    them goes the way that many go. With one part it is that of a `Stream`.
    """

    def __init__(self, images: int, batch: int, seed: int, parts: int = 1) -> None:
        check_spread(batch, parts)
        if parts > max(1, images):
            why = f"{images} images cannot be cut into {parts} parts"
            raise ConfigError("data.spread", why, "Choose a lower number.")
        self.images = images
        self.batch = batch
        self.seed = seed
        # Neighbours in the store stay together: whoever has a part reads few of the store's files.
        self._firsts = [images * part // parts for part in range(parts + 1)]
        self._streams = [
            Stream(end - first, batch // parts, seed, part)
            for part, (first, end) in enumerate(pairwise(self._firsts))
        ]

    def at(self, step: int) -> Ints:
        """(batch,) the images of a step, part after part."""
        own = zip(self._firsts, self._streams, strict=False)
        return np.concatenate([first + stream.at(step) for first, stream in own])

    def epochs(self, step: int) -> Ints:
        """(batch,) the epoch of its part, from 0, in which each image of a step comes."""
        return np.concatenate([stream.epochs(step) for stream in self._streams])

    def epoch_of(self, step: int) -> float:
        """How many epochs are over when a step begins."""
        return step * self.batch / self.images

    def held(self, rank: int, world: int) -> slice:
        """The images that the rank-th of `world` equal shares of any step can be made of."""
        parts = len(self._streams)
        return slice(
            self._firsts[rank * parts // world], self._firsts[-(-(rank + 1) * parts // world)]
        )


def check_spread(batch: int, parts: int) -> None:
    """Refuse a batch that cannot be taken from so many parts alike."""
    if batch % parts:
        why = f"{batch} images cannot be taken from {parts} parts alike"
        raise ConfigError("run.batch", why, f"Choose a multiple of {parts}, or lower data.spread.")


def columns(counts: Ints, places: Ints, epochs: Ints, captions: int, seed: int) -> Ints:
    """(B, captions) which of its captions each image teaches; -1 where it has no more.

    An image with more captions than fit takes the next ones in every epoch, around and around, so
    that all are learnt equally often. Images and seeds begin at different captions.

    Args:
        counts: (B,) captions of each image.
        places: (B,) the images.
        epochs: (B,) the epoch in which each is seen.
        captions: how many fit.
        seed: of the run.
    """
    slots = np.arange(captions)
    first = seed % 2**31 + places + epochs * captions
    turning = (first[:, None] + slots) % counts[:, None]
    steady = np.where(slots < counts[:, None], slots, -1)
    return np.where(counts[:, None] > captions, turning, steady)


def count_regions(store: "AnyStore", rows: Sequence[int] | Ints) -> Ints:
    """(B,) regions of each image; none at all is refused, since attention needs something."""
    counts = np.array([len(store[int(row)]) for row in rows], np.int64)
    if (counts == 0).any():
        row = int(rows[int(np.flatnonzero(counts == 0)[0])])
        home, _ = store.locate(row)
        why = f"the image {store.records[row].id!r} has no regions"
        raise StoreError(str(home.folder), why, "Prepare the features again without it.")
    return counts


def read_ahead(read: Callable[[Sequence[int]], T], batches: Sequence[Sequence[int]]) -> Iterator[T]:
    """What `read` gives for each batch of rows, the next being read while one is worked on."""
    with ThreadPoolExecutor(1, "naic-read") as reader:
        coming = [reader.submit(read, rows) for rows in batches[:1]]
        for later in range(1, len(batches) + 1):
            found = coming.pop().result()
            coming = [reader.submit(read, rows) for rows in batches[later : later + 1]]
            yield found
