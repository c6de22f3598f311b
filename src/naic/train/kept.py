"""What runs of one process hand on to each other, so that it is read once.

Runs that differ in a setting or two learn from the same images: forty gigabytes of features are
brought to the device once, captions turned into ids once, reference tables read once. Each run asks
for a thing by what it is made of, and gets the last one where that is the same.
"""

from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

from naic.data.batches import Targets
from naic.data.features import FeatureStore
from naic.text import Vocabulary
from naic.train.settings import DataSettings

T = TypeVar("T")


class Kept:
    """One thing of each kind, the last that was asked for; all are let go at the end of `with`."""

    def __init__(self) -> None:
        self._held: dict[str, tuple[Hashable, Any]] = {}

    def get(self, kind: str, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, or gave the last time if the key is the same.

        Another one of the kind is let go before: two tables of features may not fit the device.
        """
        if kind in self._held and self._held[kind][0] == key:
            found: T = self._held[kind][1]
            return found
        self._held.pop(kind, None)
        made = make()
        self._held[kind] = (key, made)
        return made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._held.clear()


def identity(store: FeatureStore) -> tuple[object, ...]:
    """What tells a store from another while a process lives: its place, and what it says it has."""
    return store.folder.resolve(), repr(store.index)


def open_store(kept: Kept | None, folder: Path) -> FeatureStore:
    """The store; one that was opened before has its records already, which are many."""
    store = FeatureStore(folder)
    return store if kept is None else kept.get("store", identity(store), lambda: store)


def human_targets(
    kept: Kept | None,
    store: FeatureStore,
    data: DataSettings,
    vocabulary: Vocabulary,
    length: int,
) -> Targets:
    """`Targets.build`, or what it gave the last time."""
    build = partial(Targets.build, store, data.train, vocabulary, length, data.views)
    key = (identity(store), data.train, data.views, vocabulary.fingerprint, length)
    return build() if kept is None else kept.get("targets", key, build)
