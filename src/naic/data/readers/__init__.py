"""Readers of datasets: six formats in, one kind of record out, nothing lost in silence.

A file is read whole: unpacked, decoded, parsed, and every failure named with its place. All are
told of together, before anything is made of the rest.
"""

import contextlib
import gc
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from naic.data.features import refuse_unknown
from naic.data.readers.checking import Checker
from naic.data.records import READER_NAMES, Entry, Problems, Record
from naic.errors import ConfigError, DataError
from naic.files import printable, what_is

if TYPE_CHECKING:
    from naic.data.sources import ImageFinder


@dataclass
class Reading:
    """The records of a source and an account of everything else in it.

    Of the captions the source gave to images, each one is in a record, is `bad_captions` (itself
    unusable, or of an image left out), or is `other_captions` (of images not asked for).
    """

    records: list[Record] = field(default_factory=list)
    images_seen: int = 0  # records + bad_images + other_images
    captions_seen: int = 0  # captions + bad_captions + other_captions
    captions: int = 0
    bad_images: int = 0  # left out: missing, duplicate, no usable caption
    bad_captions: int = 0
    bad_rows: int = 0  # rows that could not even be given to an image
    other_images: int = 0  # in a split that was not asked for, or beyond the limit
    other_captions: int = 0
    unlabelled: int = 0  # records without captions
    splits: Counter[str] = field(default_factory=Counter)  # of the records
    all_splits: Counter[str] = field(default_factory=Counter)  # of everything in the source
    ignored: Counter[str] = field(default_factory=Counter)  # files passed over, by suffix
    others: list[tuple[str, str]] = field(default_factory=list)  # id and split of other_images
    dropped: list[tuple[str, str]] = field(default_factory=list)  # id and split of bad_images


@contextlib.contextmanager
def _no_collection() -> Iterator[None]:
    """Keep the garbage collector away: there are no cycles in a dataset, only much to walk.

    It is a third of the time that COCO's file takes to read.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@_no_collection()
def read(
    reader: str,
    source: str,
    *,
    images: Sequence[Path] = (),
    problems: Problems,
    seed: int = 0,
    splits: Collection[str] | None = None,
    limit: int | None = None,
    with_images: bool = True,
    look: bool = False,
    known_splits: Collection[str] | None = None,
) -> Reading:
    """Read a whole source into records, in its own order.

    Args:
        reader: one of READER_NAMES.
        source: a path; for `shapes` the number of scenes.
        images: folders or uncompressed tars to search for images, instead of the places that
            are usual for the format.
        problems: hears of each thing that cannot be used.
        seed: of the scenes of `shapes`.
        splits: the splits wanted; None is all. Images of other splits are not looked for.
        limit: at most so many records, the first usable ones.
        with_images: False reads the captions alone: no image is looked for, and none can be loaded.
        look: whether an image with captions that cannot be opened is told of here (see `look_at`),
            and not when it is loaded.
        known_splits: the splits that a table can mean; None is any.

    Raises:
        DataError: the source cannot be read at all, or bad rows are not to be skipped.
        ConfigError: an unknown reader or split, or a limit below 1.
    """
    if limit is not None and limit < 1:
        raise ConfigError("limit", f"{limit} is below 1", "Ask for at least one record.")
    reading = Reading()
    entries, finder = _open(
        reader, source, images, problems, seed, splits, with_images, reading.ignored
    )
    own = reader == "table"  # what people write themselves, and mend in other programs
    checker = Checker(
        finder, problems, careful=own, look=look, splits=known_splits if own else None
    )
    try:
        _read_all(reading, entries, checker, splits, limit)
    except DataError:
        problems.refuse(source)  # what was wrong before it may be the reason
        raise
    checker.warn_of_repeats(source)
    problems.refuse(source)
    refuse_unknown(splits, reading.all_splits)
    if reading.images_seen == 0 and reading.bad_rows == 0:
        raise DataError(printable(source), "there is nothing in it", "Check the path.")
    return reading


def _read_all(
    reading: Reading,
    entries: Iterator[Entry],
    checker: Checker,
    splits: Collection[str] | None,
    limit: int | None,
) -> None:
    """Give each entry its place in the account."""
    problems = checker.problems
    noted = len(problems.items)
    for entry in entries:
        reading.bad_rows += len(problems.items) - noted
        reading.images_seen += 1
        reading.captions_seen += len(entry.captions)
        reading.all_splits[entry.split] += 1
        wanted = splits is None or entry.split in splits
        if wanted and (limit is None or len(reading.records) < limit):
            _take(reading, entry, checker.check(entry))
        else:
            checker.pass_over(entry)
            reading.other_images += 1
            reading.other_captions += len(entry.captions)
            reading.others.append((entry.id, entry.split))
        noted = len(problems.items)
    reading.bad_rows += len(problems.items) - noted


def _take(reading: Reading, entry: Entry, record: Record | None) -> None:
    kept = 0 if record is None else len(record.captions)
    reading.captions += kept
    reading.bad_captions += len(entry.captions) - kept
    if record is None:
        reading.bad_images += 1
        reading.dropped.append((entry.id, entry.split))
        return
    reading.records.append(record)
    reading.splits[record.split] += 1
    reading.unlabelled += not record.captions


def _open(
    reader: str,
    source: str,
    images: Sequence[Path],
    problems: Problems,
    seed: int,
    splits: Collection[str] | None,
    with_images: bool,
    ignored: Counter[str],
) -> "tuple[Iterator[Entry], ImageFinder | None]":
    """The entries of a source, and where their images are looked for.

    A reader is imported when it is asked for.
    """
    path = Path(source)
    if reader in ("folder", "shapes") and images:
        why = f"the reader {reader!r} has its images already"
        raise ConfigError("images", why, "Leave out --images.")
    if reader not in ("folder", "shapes") and what_is(path) == "missing":
        raise DataError(printable(source), "there is no such file or folder", "Check the path.")
    roots: Sequence[Path] = [path.parent]
    trusted = last = None
    match reader:
        case "karpathy":
            from naic.data.readers.coco import read_karpathy

            entries = read_karpathy(path, problems, splits)
        case "coco":
            from naic.data.readers.coco import coco_roots, read_coco

            entries, roots = read_coco(path, problems), coco_roots(path)
        case "flickr8k":
            from naic.data.readers.flickr8k import flickr8k_roots, read_flickr8k

            entries, roots = read_flickr8k(path, problems), flickr8k_roots(path)
        case "table":
            from naic.data.readers.table import read_table

            entries, trusted = read_table(path, problems), path.parent
            last = None if images else Path()  # `naic caption` writes paths as they were given
        case "folder":
            from naic.data.readers.folder import read_folder

            return read_folder(path, problems, ignored, with_images=with_images), None
        case "shapes":
            return _read_shapes(source, seed), None
        case _:
            hint = f"Readers: {', '.join(READER_NAMES)}."
            raise ConfigError("reader", f"there is no reader {reader!r}", hint)
    if not with_images:
        return entries, None
    from naic.data.sources import ImageFinder

    return entries, ImageFinder(images or roots, trusted, last)


def _read_shapes(source: str, seed: int) -> Iterator[Entry]:
    """Entries of `source` scenes; the same number and seed give the same scenes."""
    from naic.data.shapes import dataset

    if not (source.isascii() and source.isdigit() and len(source) < 10 and int(source) > 0):
        why = "it is not a number of scenes"
        raise DataError(printable(source), why, "Shapes are asked for by a number, such as 2000.")
    for number, record in enumerate(dataset.records(int(source), seed), 1):
        where = f"scene {number}"
        yield Entry(
            where=where,
            id=record.id,
            captions=[(where, caption) for caption in record.captions],
            split=record.split,
            image=record.image,
            facts=record.facts,
        )
