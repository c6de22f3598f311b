"""`naic prepare`: a dataset or a folder of images in, a feature store out."""

import json
import shutil
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from naic.data.decoding import stand_back
from naic.data.features import PLUGIN, FeatureStore, refuse_unknown
from naic.data.joined import SEEN, TUNED, read_seen
from naic.data.readers import Reading, read
from naic.data.records import Problems, Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.errors import ConfigError, Problem, StoreError
from naic.files import write_atomically
from naic.progress import SILENT, Callbacks, Progress, Update
from naic.resume import claim
from naic.tasks.options import PrepareOptions

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.backbones.load import Backbone, Extracted

# A dry run tells the time an image takes from the second half of these: when the first batch comes
# out, several are decoded already.
DRY_RUN_BATCHES = 12


@dataclass(frozen=True, slots=True)
class Prepared:
    """A finished run."""

    store: FeatureStore
    reading: Reading
    errors: list[Problem]  # bad rows of the source, then bad images
    resumed: int  # images whose features were there already
    seconds: float
    unused: int = 0  # images with features that were there, and without a record


@dataclass(frozen=True, slots=True)
class PrepareDryRun:
    """What a run would do, from reading the source and trying a few images."""

    reading: Reading
    problems: list[Problem]
    gigabytes: float
    free_gigabytes: float | None
    images_per_second: float | None  # None: too few images to tell


def prepare(
    options: PrepareOptions, callbacks: Callbacks = SILENT, reading: Reading | None = None
) -> Prepared:
    """Make the store `options.out`, or go on with it where an earlier run was cut off.

    `reading`: what a caller has read of the source already, and may have given other splits.
    """
    options.check()
    if options.out is None:
        raise ConfigError("--out", "is missing", "Name the folder to write the features to.")
    started = time.perf_counter()
    problems = Problems(skip=options.skip_bad, warn=callbacks.problem)
    reading = _read(options, problems) if reading is None else reading
    if options.features:
        from naic.tasks.imported import import_features

        return import_features(options, options.out, callbacks, reading, problems)
    backbone = _load_backbone(options)
    with claim(options.out), callbacks.progress("features") as update:
        settings = _settings(options, backbone)
        writer = StoreWriter(
            options.out,
            reading.records,
            settings,
            options.per_shard,
            notes=_notes(options),
            retry_bad=options.retry_bad,
        )
        resumed = sum(len(writer.span(number)) for number in writer.done)
        check_space(options.out, _bytes(len(reading.records) - resumed, backbone))
        _note_seen(options)
        _fill(writer, backbone, options, update, resumed)
        store = writer.finish(problems.items)
    return Prepared(store, reading, read_errors(store), resumed, time.perf_counter() - started)


def dry_run(options: PrepareOptions, callbacks: Callbacks = SILENT) -> PrepareDryRun:
    """Counts, gigabytes and time of a run, without writing anything."""
    options.check()
    problems = Problems(skip=options.skip_bad, warn=callbacks.problem)
    reading = _read(options, problems)
    if options.features:
        from naic.tasks.imported import try_features

        return try_features(options, reading, problems)
    from naic.backbones.load import extract

    backbone = _load_backbone(options)
    sample = [record.image for record in reading.records[: DRY_RUN_BATCHES * options.batch]]
    marks = []
    for extracted in extract(sample, backbone, batch=options.batch, workers=options.workers):
        extracted.features.sum().item()  # wait for the device
        marks.append(time.perf_counter())
    half = len(marks) // 2
    timed = len(sample) - half * options.batch
    rate = timed / (marks[-1] - marks[half - 1]) if half > 1 else None
    gigabytes = _bytes(len(reading.records), backbone) / 1e9
    free = free_bytes(options.out) / 1e9 if options.out else None
    return PrepareDryRun(reading, problems.items, gigabytes, free, rate)


def _load_backbone(options: PrepareOptions) -> "Backbone":
    from naic.backbones.load import load_backbone

    own = options
    return load_backbone(own.backbone, pixels=own.pixels, weights=own.weights, device=own.device)


def read_errors(store: FeatureStore) -> list[Problem]:
    """The errors that a finished store keeps."""
    lines = (store.folder / "errors.jsonl").read_text(encoding="utf-8").splitlines()
    return [Problem(**json.loads(line)) for line in lines]


def _read(options: PrepareOptions, problems: Problems) -> Reading:
    reading = read(
        options.reader,
        options.source,
        images=options.images,
        problems=problems,
        seed=options.seed,
        splits=options.splits or None,
        limit=options.limit,
        with_images=not options.features,
        # of other datasets nobody mends single images
        look=options.reader == "table" and not options.features,
    )
    if options.mirror or options.crop:
        reading = _with_views(reading, options.mirror, options.crop)
    return _without_labels(reading) if options.unlabelled else reading


def _with_views(reading: Reading, mirror: tuple[str, ...], crop: tuple[str, ...]) -> Reading:
    """Twins of the images of these splits, after all of the others: those keep their places."""
    from naic.data.views import twins as further

    refuse_unknown((*mirror, *crop), reading.splits)
    twins = further(reading.records, mirror, crop)
    captions = sum(len(record.captions) for record in twins)
    return replace(
        reading,
        records=[*reading.records, *twins],
        images_seen=reading.images_seen + len(twins),
        captions_seen=reading.captions_seen + captions,
        captions=reading.captions + captions,
        unlabelled=reading.unlabelled + sum(not record.captions for record in twins),
        splits=reading.splits + Counter(record.split for record in twins),
    )


def _without_labels(reading: Reading) -> Reading:
    """The same images as if nobody had said anything of them; the count of captions stays whole."""
    return replace(
        reading,
        records=[replace(record, captions=(), facts=None) for record in reading.records],
        captions=0,
        other_captions=reading.other_captions + reading.captions,
        unlabelled=len(reading.records),
    )


def _settings(options: PrepareOptions, backbone: "Backbone") -> dict[str, Any]:
    """What makes features what they are; a resumed run must agree in all of it."""
    labels: dict[str, Any] = {"unlabelled": True} if options.unlabelled else {}
    views = {"mirrored": list(options.mirror), "cropped": list(options.crop)}
    return {
        "reader": options.reader,
        "backbone": backbone.name,
        "weights": backbone.digest,
        "pixels": backbone.pixels,
        "regions": backbone.regions,
        "dim": backbone.dim,
        "dtype": backbone.dtype,
        # Neither changes more than the last bit of a feature, but a store is to be one thing.
        "device": backbone.device.type,
        "batch": options.batch,
        **labels,  # only where it is so: stores of before the options have no such keys
        **{name: splits for name, splits in views.items() if splits},
    }


def _notes(options: PrepareOptions) -> dict[str, Any]:
    """What follows from the settings' digest of the weights, but cannot be read from it."""
    from naic.backbones.load import BROUGHT, COLOURS

    tuned = options.weights is not None and options.weights.is_dir()
    plugin = BROUGHT.get(options.backbone.removesuffix(COLOURS))
    return ({TUNED: True} if tuned else {}) | ({PLUGIN: plugin} if plugin else {})


def _note_seen(options: PrepareOptions) -> None:
    """Beside features of a model's own backbone: the images whose captions it has learnt from."""
    seen = None if options.weights is None else read_seen(options.weights)
    if seen is not None and options.out is not None:
        write_atomically(options.out / SEEN, seen.as_json())


def _fill(
    writer: StoreWriter,
    backbone: "Backbone",
    options: PrepareOptions,
    update: Update,
    resumed: int,
) -> None:
    """Make the missing shards. One is written in the background while the next is computed."""
    positions = [position for number in writer.missing for position in writer.span(number)]
    done, bad = resumed, 0
    update(Progress(done, len(writer.records), bad))
    with ThreadPoolExecutor(1, "write", initializer=stand_back) as pool:
        writing: Future[None] | None = None
        for number, batches in groupby(
            _extracted(writer.records, positions, backbone, options),
            key=lambda extracted: extracted[0] // writer.per_shard,
        ):
            shard = _Shard(len(writer.span(number)), backbone)
            for _, extracted in batches:
                shard.add(extracted, positions)
                done += len(extracted.positions) + len(extracted.errors)
                bad += len(extracted.errors)
                update(Progress(done, len(writer.records), bad))
            if writing is not None:
                writing.result()  # at most two shards are in memory, and a full disk stops us here
            writing = pool.submit(writer.write, number, shard.rows(), shard.errors)
        if writing is not None:
            writing.result()


class _Shard:
    """A shard as it fills up, in one block of memory."""

    def __init__(self, images: int, backbone: "Backbone") -> None:
        self._block = np.empty((images, backbone.regions, backbone.dim), backbone.dtype)
        self._positions: list[int] = []
        self.errors: list[tuple[int, Problem]] = []

    def add(self, extracted: "Extracted", positions: list[int]) -> None:
        """Take over a batch; `positions` says which record each of its images is."""
        first = len(self._positions)
        self._positions += [positions[i] for i in extracted.positions]
        features = extracted.features  # (b, R, F)
        if features.is_floating_point():  # rounded before it travels
            features = features.half()
        self._block[first : len(self._positions)] = features.cpu().numpy()
        self.errors += [(positions[i], Problem(e.what, e.why, e.hint)) for i, e in extracted.errors]

    def rows(self) -> ShardRows:
        images, regions, dim = len(self._positions), *self._block.shape[1:]
        features = self._block[:images].reshape(images * regions, dim)
        return ShardRows(self._positions, [regions] * images, features)


def _extracted(
    records: Sequence[Record], positions: list[int], backbone: "Backbone", options: PrepareOptions
) -> Iterator[tuple[int, "Extracted"]]:
    """Batches with the position of their first record; no batch crosses the end of a shard."""
    from naic.backbones.load import extract

    images = [records[position].image for position in positions]
    batches = extract(images, backbone, batch=options.batch, workers=options.workers)
    for number, extracted in enumerate(batches):
        yield positions[number * options.batch], extracted


def check_space(folder: Path, needed: int) -> None:
    """Refuse to begin what the disk has no room for."""
    free = free_bytes(folder)
    if needed > free:
        why = f"needs {needed / 1e9:.1f} GB more, and {free / 1e9:.1f} GB are free"
        raise StoreError(str(folder), why, "Free some space, or choose an --out on another disk.")


def _bytes(images: int, backbone: "Backbone") -> int:
    return images * backbone.regions * backbone.dim * np.dtype(backbone.dtype).itemsize


def free_bytes(folder: Path) -> int:
    """Room on the disk where the folder is, or would be."""
    while not folder.exists():
        folder = folder.absolute().parent
    return shutil.disk_usage(folder).free
