"""`naic distil`: a teacher and images in, its captions of them out. What people said is not read.

The student learns from these captions by cross-entropy (`data.pseudo` of `naic train`), of images
that people captioned and of images that nobody did.
"""

import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.data.features import FeatureStore, refuse_unknown
from naic.data.joined import JoinedStore, backbone
from naic.data.pseudo import OWN, PseudoStore, PseudoWriter, Taught, remove_halves
from naic.data.readers import read
from naic.data.records import Problems
from naic.errors import DataError, Problem, StoreError
from naic.progress import SILENT, Callbacks, Progress, Update
from naic.resume import claim, locked, refuse_strangers
from naic.tasks.options import DistilOptions, PrepareOptions
from naic.tasks.prepare import prepare

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.backbones.load import Backbone
    from naic.models.teacher import Teacher

BATCHES_PER_SHARD = 4  # what a kill can cost at most


@dataclass(frozen=True, slots=True)
class Distilled:
    """A finished run.

    Attributes:
        store: the captions; None where other parts have yet to make theirs.
        images: how many images this run answers for.
        resumed: those of them whose captions were there already.
        missing: images that other parts have yet to caption.
        errors: images that could not be used.
        seconds: how long it took.
    """

    store: PseudoStore | None
    images: int
    resumed: int
    missing: int
    errors: list[Problem]
    seconds: float


@dataclass(frozen=True, slots=True)
class DistilDryRun:
    """What a run would do; `splits` counts the images by split."""

    splits: Counter[str]
    shards: int
    teacher: str
    device: str


def distil(options: DistilOptions, callbacks: Callbacks = SILENT) -> Distilled:
    """Make the store `options.out`, or go on with it where an earlier run was cut off."""
    from naic.models.teacher import Teacher

    started = time.perf_counter()
    options.check()
    refuse_strangers(options.out, OWN, "pseudo-caption store")
    teacher = Teacher(
        options.model,
        device=options.device,
        beam=options.beam,
        keep=options.keep,
        precision=options.precision,
    )
    with claim(options.out, shared=options.part is not None):
        folders, errors = _features(options, teacher, callbacks)
        run = _DistilRun(options, teacher, folders)
        with callbacks.progress("captions") as update:
            images, resumed = run.make(update)
        store, missing = run.finish()
    if store is not None:
        # Other parts that are still at work hold the folder; the last of them sweeps.
        with contextlib.suppress(StoreError), locked(options.out):
            remove_halves(options.out)
    return Distilled(store, images, resumed, missing, errors, time.perf_counter() - started)


def dry_run(options: DistilOptions) -> DistilDryRun:
    """What a run would do; nothing is written, no image is opened."""
    from naic.models.teacher import Teacher, check_features

    options.check()
    refuse_strangers(options.out, OWN, "pseudo-caption store")
    teacher = Teacher(options.model, device=options.device)
    splits = Counter[str]()
    if options.features:
        store = _joined(options.features)
        check_features(teacher.folder, teacher.settings, store)
        splits.update(store.records[row].split for row in _rows(options, store))
    for source in options.images:
        splits += read("folder", str(source), problems=Problems(skip=True)).splits
    shards = -(-splits.total() // (options.batch * BATCHES_PER_SHARD))
    return DistilDryRun(splits, shards, teacher.describe(), str(teacher.device))


class _DistilRun:
    """The work itself, in a folder that is ours."""

    def __init__(self, options: DistilOptions, teacher: "Teacher", folders: Sequence[Path]) -> None:
        from naic.models.teacher import check_features

        self._options = options
        self._teacher = teacher
        self._store = _joined(folders)
        check_features(teacher.folder, teacher.settings, self._store)
        self._rows = _rows(options, self._store)
        ids = [self._store.records[row].id for row in self._rows]
        _refuse_twice(ids)
        self._writer = PseudoWriter(
            options.out, ids, self._settings(), options.batch * BATCHES_PER_SHARD
        )

    def make(self, update: Update) -> tuple[int, int]:
        """Make the missing shards of this part; gives its images, and how many were there."""
        writer = self._writer
        first, step = self._options.share()
        own = writer.shards[first::step]
        missing = [number for number in own if not writer.is_whole(number)]
        images = sum(len(writer.span(number)) for number in own)
        resumed = done = images - sum(len(writer.span(number)) for number in missing)
        update(Progress(done, images))
        for number, parts in groupby(self._captioned(missing), key=itemgetter(0)):
            shard: list[Taught] = []
            for _, taught in parts:
                shard += taught
                done += len(taught)
                update(Progress(done, images))
            writer.write(number, shard)
        return images, resumed

    def finish(self) -> tuple[PseudoStore | None, int]:
        """The store if all shards are there, and how many images lack a caption."""
        writer, teacher = self._writer, self._teacher
        missing = [number for number in writer.shards if not writer.is_whole(number)]
        if missing:
            return None, sum(len(writer.span(number)) for number in missing)
        # Names are no part of the plan: a folder that was moved is still what it was.
        name = "/".join(self._options.model.absolute().parts[-2:])
        return writer.finish(teacher.vocabulary, {"teacher": {"folder": name} | _who(teacher)}), 0

    def _captioned(self, numbers: Sequence[int]) -> Iterator[tuple[int, list[Taught]]]:
        """What is said, batch by batch with the number of its shard; no batch crosses its end."""
        from naic.models.teacher import Shape

        shape = Shape.of(self._store, self._rows, self._options.batch)
        batches: list[tuple[int, list[int]]] = []
        for number in numbers:
            span = self._writer.span(number)
            for first in range(span.start, span.stop, shape.images):
                rows = self._rows[first : min(first + shape.images, span.stop)]
                batches.append((number, rows))
        said = self._teacher.caption(self._store, [rows for _, rows in batches], shape)
        for (number, _), taught in zip(batches, said, strict=True):
            yield number, taught

    def _settings(self) -> dict[str, Any]:
        """What makes the captions what they are; a resumed run must agree in all of it."""
        options = self._options
        return {
            "teacher": _who(self._teacher),
            "beam": options.beam,
            "keep": options.keep,
            "precision": options.precision,
            "splits": list(options.splits),
            "features": [_which(store) for store in self._store.stores],
            # Neither changes more than the last bit of a score, but a store is to be one thing.
            "device": self._teacher.device.type,
            "batch": options.batch,
        }


def _features(
    options: DistilOptions, teacher: "Teacher", callbacks: Callbacks
) -> tuple[Sequence[Path], list[Problem]]:
    """The feature stores to caption, made first where images are given; and bad images."""
    if options.features:
        return options.features, []
    backbone_of(teacher, options.device)  # before any image is read
    folders, errors = [], list[Problem]()
    for number, source in enumerate(options.images, 1):
        out = options.out / ("features" if number == 1 else f"features-{number}")
        chosen = PrepareOptions(
            "folder",
            str(source),
            out,
            backbone=teacher.settings.backbone,
            pixels=teacher.settings.pixels,
            device=options.device,
            skip_bad=True,
            unlabelled=True,
        )
        prepared = prepare(chosen, callbacks)
        folders.append(out)
        errors += prepared.errors
    return folders, errors


def backbone_of(teacher: "Teacher", device: str, weights: Path | None = None) -> "Backbone":
    """The backbone that the teacher learnt from: features of another one mean nothing to it.

    Raises:
        StoreError: these weights are not those that it learnt from.
    """
    from naic.backbones.load import load_backbone

    own = teacher.settings
    found = load_backbone(
        own.backbone, pixels=own.pixels, weights=weights, device=device, made_with=own.made_with
    )
    if own.digest and own.digest != found.digest:
        why = f"it learnt from {own.backbone} with weights of its own, which no package has"
        hint = (
            "Make features with `naic prepare folder ... --weights RUN/best`, and give --features."
        )
        raise StoreError(str(teacher.folder), why, hint)
    return found


def _joined(folders: Sequence[Path]) -> JoinedStore:
    return JoinedStore([FeatureStore(folder) for folder in folders])


def _rows(options: DistilOptions, store: JoinedStore) -> list[int]:
    """The rows of the images to caption."""
    refuse_unknown(options.splits, Counter(record.split for record in store.records))
    rows = [
        row
        for row, record in enumerate(store.records)
        if not options.splits or record.split in options.splits
    ]
    if not rows:
        folders = ", ".join(str(own.folder) for own in store.stores)
        raise DataError(folders, "there is no image to caption", "Name other features.")
    return rows


def _refuse_twice(ids: Sequence[str]) -> None:
    """Ids are all that a student's run knows captions by."""
    id_, count = Counter(ids).most_common(1)[0]
    if count > 1:
        why = f"the image {id_!r} is in {count} of the stores"
        raise DataError("--features", why, "Caption each store into a folder of its own.")


def _who(teacher: "Teacher") -> dict[str, str]:
    return {"weights": teacher.digest, "vocabulary": teacher.vocabulary.fingerprint}


def _which(store: FeatureStore) -> dict[str, Any]:
    """The identity of a feature store: its backbone, its features, its list of images."""
    digests = {
        name: hashlib.sha256((store.folder / file).read_bytes()).hexdigest()
        for name, file in (("index", "index.json"), ("records", "records.jsonl"))
    }
    return backbone(store.index) | digests
