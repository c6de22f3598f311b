"""`naic prepare --features`: features that a detector made already in, a feature store out.

No image is opened. Shards are made one by one as from images, so an interrupted run goes on; those
of an image that cannot be read are named in errors.jsonl.
"""

import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from naic.data.features import BOX_NUMBERS, IMPORTED
from naic.data.readers import Reading
from naic.data.records import Problems, Record
from naic.data.regions.fields import with_boxes
from naic.data.regions.matching import Features, find_features
from naic.data.storewriter import ShardRows, StoreWriter
from naic.errors import ConfigError, DataError, Problem
from naic.files import printable
from naic.progress import Callbacks, Progress, Update
from naic.resume import claim
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import Prepared, PrepareDryRun, check_space, free_bytes, read_errors

_TRIED = 64  # images, spread evenly, by which all are judged before the work
_TOLD = 16  # images from one word of progress to the next
_DEFAULT = PrepareOptions("folder", "").backbone


@dataclass(frozen=True, slots=True)
class _Kind:
    """What the features are like, by those of some images.

    Attributes:
        dim: F of most of them, without boxes.
        boxes: whether most have boxes, and they are wanted.
        regions: of an image on average.
        seconds: that an image took to read.
    """

    dim: int
    boxes: bool
    regions: float
    seconds: float

    def bytes(self, images: int) -> int:
        """How much so many images need."""
        return int(images * self.regions * (self.dim + BOX_NUMBERS * self.boxes) * 2)


def import_features(
    options: PrepareOptions, out: Path, callbacks: Callbacks, reading: Reading, problems: Problems
) -> Prepared:
    """Make the store `out` for what was read, or go on with it."""
    started = time.perf_counter()
    reading, features = _match(options, reading, problems)
    kind = _try(features, reading.records, options)
    with claim(out), callbacks.progress("features") as update:
        writer = StoreWriter(
            out,
            reading.records,
            _settings(options, kind),
            options.per_shard,
            retry_bad=options.retry_bad,
        )
        resumed = sum(len(writer.span(number)) for number in writer.done)
        check_space(out, kind.bytes(len(reading.records) - resumed))
        _fill(writer, features, kind, update, resumed)
        store = writer.finish(problems.items)
    seconds = time.perf_counter() - started
    return Prepared(store, reading, read_errors(store), resumed, seconds, features.unused)


def try_features(options: PrepareOptions, reading: Reading, problems: Problems) -> PrepareDryRun:
    """What a run would do, from reading some images' features."""
    reading, features = _match(options, reading, problems)
    kind = _try(features, reading.records, options)
    gigabytes = kind.bytes(len(reading.records)) / 1e9
    free = free_bytes(options.out) / 1e9 if options.out else None
    return PrepareDryRun(reading, problems.items, gigabytes, free, 1 / kind.seconds)


def _match(
    options: PrepareOptions, reading: Reading, problems: Problems
) -> tuple[Reading, Features]:
    """What was read, in the features' order; images without features are refused, or left out."""
    kept, features = find_features(options.features, options.sizes, reading.records, problems)
    problems.refuse(options.source)
    if not kept:
        why = "not one of its images has features"
        raise DataError(printable(options.source), why, "Are they of another dataset?")
    if len(kept) == len(reading.records):
        return replace(reading, records=kept), features
    ids = {record.id for record in kept}
    lost = [record for record in reading.records if record.id not in ids]
    captions = sum(len(record.captions) for record in lost)
    left = replace(
        reading,
        records=kept,
        captions=reading.captions - captions,
        bad_captions=reading.bad_captions + captions,
        bad_images=reading.bad_images + len(lost),
        unlabelled=reading.unlabelled - sum(not record.captions for record in lost),
        splits=Counter(record.split for record in kept),
        dropped=[*reading.dropped, *((record.id, record.split) for record in lost)],
    )
    return left, features


def _try(features: Features, records: list[Record], options: PrepareOptions) -> _Kind:
    """What most of some images are like; refuses features of which most cannot be used."""
    count = min(_TRIED, len(records))
    started = time.perf_counter()
    regions: dict[tuple[int, bool], list[int]] = {}  # how many, by F and whether there are boxes
    failed: list[DataError] = []
    unsized = 0
    for chosen in (i * len(records) // count for i in range(count)):
        place = features.places[chosen]
        try:
            found, size = features.read(place)
            dim, boxes = found.features.shape[1], found.boxes is not None
            boxes &= not options.without_boxes
            unsized += boxes and found.size is None and size is None
            with_boxes(found, size, boxes, dim, features.where(place))
            regions.setdefault((dim, boxes), []).append(len(found.features))
        except DataError as error:
            failed.append(error)
    if unsized and not regions:
        why = "is missing: the boxes are in pixels, and nothing tells how large the images are"
        hint = "Name JSON files such as COCO's captions_train2014.json, or pass --without-boxes."
        raise ConfigError("--sizes", why, hint)
    if 2 * len(failed) > count:
        first = failed[0]
        why = f"{first.why}; of {count} images that were tried {len(failed)} cannot be used"
        raise DataError(first.what, why, first.hint) from first
    (dim, boxes), counts = max(regions.items(), key=lambda item: len(item[1]))
    seconds = (time.perf_counter() - started) / count
    return _Kind(dim, boxes, sum(counts) / len(counts), seconds)


def _settings(options: PrepareOptions, kind: _Kind) -> dict[str, Any]:
    """What makes the features what they are; names of files, not where these lie."""
    named = "" if options.backbone == _DEFAULT else f":{options.backbone}"
    labels: dict[str, Any] = {"unlabelled": True} if options.unlabelled else {}
    names = [name.partition(":") for name in options.features]
    return {
        "reader": options.reader,
        "backbone": f"{IMPORTED}{named}",
        "weights": "",
        "pixels": 0,
        "features": [f"{format_}:{Path(path).name}" for format_, _, path in names],
        "dim": kind.dim + BOX_NUMBERS * kind.boxes,
        "dtype": "float16",
        "boxes": kind.boxes,
        **labels,
    }


def _fill(
    writer: StoreWriter, features: Features, kind: _Kind, update: Update, resumed: int
) -> None:
    """Make the missing shards. One is written in the background while the next is read."""
    done, bad = resumed, 0
    total = len(writer.records)
    update(Progress(done, total, bad))
    with ThreadPoolExecutor(1, "write") as pool:
        writing: Future[None] | None = None
        for number in writer.missing:
            found: dict[int, npt.NDArray[np.float16]] = {}
            errors: list[tuple[int, Problem]] = []
            for position in writer.span(number):
                try:
                    found[position] = _read(features, position, kind)
                except DataError as error:
                    errors.append((position, Problem(error.what, error.why, error.hint)))
                    bad += 1
                done += 1
                if done % _TOLD == 0 or done == total:
                    update(Progress(done, total, bad))
            if writing is not None:
                writing.result()  # at most two shards are in memory
            writing = pool.submit(writer.write, number, _rows(found, kind), errors)
        if writing is not None:
            writing.result()


def _read(features: Features, position: int, kind: _Kind) -> npt.NDArray[np.float16]:
    """(R, F) of one record, or (R, F + 4) with boxes."""
    place = features.places[position]
    regions, size = features.read(place)
    return with_boxes(regions, size, kind.boxes, kind.dim, features.where(place))


def _rows(found: dict[int, npt.NDArray[np.float16]], kind: _Kind) -> ShardRows:
    """A shard."""
    positions = list(found)
    none = np.empty((0, kind.dim + BOX_NUMBERS * kind.boxes), np.float16)
    whole = np.concatenate([none, *(found[position] for position in positions)])
    return ShardRows(positions, [len(found[position]) for position in positions], whole)
