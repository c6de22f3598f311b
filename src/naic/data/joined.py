"""Several feature stores seen as one: labelled images, and unlabelled ones after them."""

from collections.abc import Mapping, Sequence
from functools import cached_property
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
