"""Several feature stores seen as one: labelled images, and unlabelled ones after them.

Unlabelled means unseen. A backbone that was trained inside a captioner has learnt from captions.
The folder of such a model lists their images (`backbone_images.json`), and `naic prepare --weights
MODEL` puts the list beside the features that this backbone makes. Images are known by their ids.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.features import Features, FeatureStore, StoredRecord
from naic.errors import StoreError


def backbone(index: Mapping[str, Any]) -> dict[str, Any]:
    """What must agree for features to mean the same: the network, its weights, the image size."""
    return {name: index.get(name) for name in ("backbone", "weights", "pixels")}


class JoinedStore:
    """Stores end to end. The rows of the first come first: they agree with its references."""

    def __init__(self, stores: Sequence[FeatureStore]) -> None:
        self.stores = tuple(stores)
        first = self.stores[0]
        for store in self.stores[1:]:
            if store.dim != first.dim or backbone(store.index) != backbone(first.index):
                raise StoreError(
                    str(store.folder),
                    f"its features are not like those of {first.folder}: {_seen(store)}, "
                    f"not {_seen(first)}",
                    "Prepare both with the same backbone, weights and pixels.",
                )
        counts = [len(store) for store in self.stores]
        self._firsts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, row: int) -> Features:
        """Features (R, F) of one image: a view into the file, nothing is copied."""
        store, own = self.locate(row)
        return store[own]

    def locate(self, row: int) -> tuple[FeatureStore, int]:
        """The store that an image lies in, and its row there."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of stores of {len(self)}")
        number = int(np.searchsorted(self._firsts, row, side="right")) - 1
        return self.stores[number], row - int(self._firsts[number])

    @property
    def dim(self) -> int:
        """F, the size of a feature vector."""
        return self.stores[0].dim

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the numbers are: the first one's, since the same backbone gives the same kind."""
        return self.stores[0].dtype

    @property
    def index(self) -> dict[str, Any]:
        """The first one's: what it says of the backbone holds for all."""
        return self.stores[0].index

    @cached_property
    def records(self) -> list[StoredRecord]:
        """Ids and splits, in the order of the features."""
        return [record for store in self.stores for record in store.records]


AnyStore = FeatureStore | JoinedStore


def _seen(store: FeatureStore) -> str:
    seen = backbone(store.index)
    weights = str(seen["weights"])[:12]
    return f"{store.dim} numbers from {seen['backbone']} ({weights}) at {seen['pixels']} pixels"


SEEN = "backbone_images.json"
TUNED = "tuned"  # in the index of a store: its backbone is that of a model, trained on captions
_FORMAT = "naic-backbone-images-1"
_HINT = "Prepare both stores with another backbone: leave out --weights, or tune it on"


@dataclass(frozen=True)
class SeenImages:
    """The images whose captions a backbone has learnt from.

    Attributes:
        ids: of the images.
        whole: whether there are no others; not so if it was trained on from a model without a list.
    """

    ids: frozenset[str]
    whole: bool = True

    def as_json(self) -> bytes:
        """The content of the file."""
        content = {"format": _FORMAT, "whole": self.whole, "images": sorted(self.ids)}
        return f"{json.dumps(content)}\n".encode()


def read_seen(folder: Path) -> SeenImages | None:
    """The list in the folder of a model or a store; None: there is none."""
    path = folder / SEEN
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
        if content["format"] != _FORMAT:
            raise ValueError(f"its format is {content['format']!r}")  # noqa: TRY301
        return SeenImages(frozenset(map(str, content["images"])), content["whole"] is True)
    except (OSError, ValueError, KeyError, TypeError) as error:
        why = f"cannot be read ({error})"
        raise StoreError(str(path), why, "Put back the file as it was written.") from error


def check_unseen(
    unlabelled: FeatureStore,
    others: Collection[FeatureStore],
    *,
    tuned: bool,
    more: SeenImages | None = None,
) -> None:
    """Refuse unlabelled images whose captions the backbone that looks at them has learnt from.

    Args:
        unlabelled: the store of these images.
        others: stores with features of the same backbone, one of which may have the list.
        tuned: whether its weights are known to be other ones than were published.
        more: the list of a backbone that is inside a model.
    """
    lists = [found for store in (unlabelled, *others) if (found := read_seen(store.folder))]
    lists += [more] if more is not None else []
    both = {record.id for record in unlabelled.records} & {i for own in lists for i in own.ids}
    if both:
        why = (
            f"its backbone has learnt from the captions of {len(both):,} of its images, "
            f"such as {min(both)!r}"
        )
        raise StoreError(str(unlabelled.folder), why, f"{_HINT} other images.")
    if tuned and not any(found.whole for found in lists):
        why = "its backbone was tuned on captions, and nothing says of which images"
        hint = f"{_HINT} known ones: this naic notes them in the model's folder."
        raise StoreError(str(unlabelled.folder), why, hint)
