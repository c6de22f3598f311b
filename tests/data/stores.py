"""Small feature stores for tests: random features, captions and splits as a test wants them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL.Image import Image

from naic.data.features import FeatureStore
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter

DIM = 3


class NoImage:
    """Stands where an image would: the store only asks for its name."""

    name = "image.jpg"

    def load(self, at_least: int | None = None) -> Image:
        raise AssertionError

    def describe(self) -> None: ...


def make_store(
    folder: Path,
    captions: Sequence[Sequence[str]],
    *,
    splits: Sequence[str] | None = None,
    regions: Sequence[int] | None = None,
    facts: Sequence[Mapping[str, object] | None] | None = None,
    per_shard: int = 4,
) -> FeatureStore:
    """A store with an image for each list of captions; by default all in "train", 2 regions each.

    The features of image i are random around i, so that no two images can be taken for each other.
    """
    count = len(captions)
    splits = splits or ["train"] * count
    facts = facts or [None] * count
    lengths = list(regions or [2] * count)
    records = [
        Record(f"r{i}", NoImage(), tuple(captions[i]), splits[i], facts[i]) for i in range(count)
    ]
    settings: dict[str, Any] = {
        "backbone": "b",
        "pixels": 8,
        "regions": max(lengths),
        "dim": DIM,
        "dtype": "float16",
    }
    folder.mkdir()
    writer = StoreWriter(folder, records, settings, per_shard)
    random = np.random.default_rng(0)
    for number in writer.missing:
        span = list(writer.span(number))
        own = [random.normal(i, 0.1, (lengths[i], DIM)).astype(np.float16) for i in span]
        rows = ShardRows(span, [lengths[i] for i in span], np.concatenate(own))
        writer.write(number, rows, [])
    return writer.finish()
