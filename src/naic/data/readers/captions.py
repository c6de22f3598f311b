"""Captions without images, from any format a dataset can have: what an evaluation reads."""

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple

from naic.data.features import FeatureStore
from naic.data.readers import read, refuse_unknown
from naic.data.readers.detect import detect
from naic.data.records import CaptionReader, Problems


class Captioned(NamedTuple):
    """An image by its id, what people said about it, and its split."""

    id: str
    captions: tuple[str, ...]
    split: str


@dataclass(frozen=True, slots=True)
class Captions:
    """The captions of the splits asked for, in the source's own order.

    Attributes:
        reader: what read them.
        images: the images asked for.
        splits: how many images each split of the source has.
        others: the images of other splits, without their captions.
        dropped: the images that were left out as bad, without their captions.
    """

    reader: CaptionReader
    images: list[Captioned]
    splits: Counter[str]
    others: list[Captioned] = field(default_factory=list)
    dropped: list[Captioned] = field(default_factory=list)


def read_captions(
    source: str,
    *,
    reader: CaptionReader | None = None,
    splits: Collection[str] | None = None,
    seed: int = 0,
    problems: Problems,
) -> Captions:
    """Read captions; no image needs to be there.

    Args:
        source: a path; for `shapes` the number of scenes.
        reader: how to read it; None finds out.
        splits: the splits wanted; None is all.
        seed: of the scenes of `shapes`.
        problems: hears of each thing that cannot be used; may raise it.

    Raises:
        DataError: the source cannot be read, or `problems` raises.
        StoreError: the source is a feature store that cannot be read.
        ConfigError: there is no such split.
    """
    reader = reader or detect(source)
    if reader == "store":
        return _from_store(source, splits)
    reading = read(reader, source, problems=problems, seed=seed, splits=splits, with_images=False)
    images = [Captioned(record.id, record.captions, record.split) for record in reading.records]
    others, dropped = (
        [Captioned(id_, (), split) for id_, split in found]
        for found in (reading.others, reading.dropped)
    )
    return Captions(reader, images, reading.all_splits, others, dropped)


def _from_store(source: str, splits: Collection[str] | None) -> Captions:
    records = FeatureStore(source).records
    found = Counter(record.split for record in records)
    refuse_unknown(splits, found)
    images, others = [], []
    for record in records:
        if splits is None or record.split in splits:
            images.append(Captioned(record.id, record.captions, record.split))
        else:
            others.append(Captioned(record.id, (), record.split))
    return Captions("store", images, found, others)
