"""Captions without images, from any format a dataset can have; which one, is told from the file."""

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from naic.data.features import FeatureStore, refuse_unknown
from naic.data.readers import read
from naic.data.readers.delimited import looks_like_table
from naic.data.readers.textfiles import read_head
from naic.data.records import CaptionReader, Problems
from naic.errors import DataError
from naic.files import printable, what_is

# A quote inside a JSON string is written \", so these can only be keys.
_SENTENCES = re.compile(rb'"sentences"\s*:')
_COCO = re.compile(rb'"(images|annotations)"\s*:\s*\[')
_TOKENS = re.compile(rb"[^\t\n]+#[0-9]+\t")  # a.jpg#0<tab>A caption .
_HINT = "Name the reader with --reader."


class ImageCaptions(NamedTuple):
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
    images: list[ImageCaptions]
    splits: Counter[str]
    others: list[ImageCaptions] = field(default_factory=list)
    dropped: list[ImageCaptions] = field(default_factory=list)


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
    images = [ImageCaptions(record.id, record.captions, record.split) for record in reading.records]
    others, dropped = (
        [ImageCaptions(id_, (), split) for id_, split in found]
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
            images.append(ImageCaptions(record.id, record.captions, record.split))
        else:
            others.append(ImageCaptions(record.id, (), record.split))
    return Captions("store", images, found, others)


def detect(source: str) -> CaptionReader:
    """The reader whose format the source has.

    Raises:
        DataError: there is no such source, or it is in no known format.
    """
    from naic.data.readers.flickr8k import has_caption_file
    from naic.data.readers.table import is_table

    path = Path(source)
    match what_is(path):
        case "missing" if source.isascii() and source.isdigit():
            return "shapes"
        case "missing":
            why = "there is no such file or folder"
            raise DataError(printable(source), why, "Check the path.")
        case "folder" if (path / "plan.json").exists() or (path / "records.jsonl").exists():
            return "store"
        case "folder":
            return "flickr8k" if has_caption_file(path) else "folder"
        case "special":
            raise DataError(printable(source), "it is not a regular file", "Copy it to one.")
    if is_table(path):
        return "table"
    return _by_content(read_head(path), printable(source))


def _by_content(head: bytes, name: str) -> CaptionReader:
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if text.startswith(b"{"):
        if _SENTENCES.search(text):
            return "karpathy"
        if _COCO.search(text):
            return "coco"
        why = "it is JSON without 'images' or 'annotations', so its reader cannot be told"
        raise DataError(name, why, _HINT)
    if text.startswith(b"["):
        why = "it is a JSON list; a dataset is an object with the key 'images'"
        hint = "Is it a file of results? Give the human captions here."
        raise DataError(name, why, hint)
    if text.lower().startswith(b"image,") or _TOKENS.match(text):
        return "flickr8k"
    if looks_like_table(text.decode("utf-8", "replace")):
        return "table"
    why = "its reader cannot be told from its name or content" if text else "the file is empty"
    raise DataError(name, why, _HINT if text else "Get it again.")
