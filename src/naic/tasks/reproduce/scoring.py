"""Captions of the report split by each row's model, and what they are worth.

What was captioned and scored is kept beside the digests of what it came from, so that asking again
costs nothing and a model that was trained anew is scored anew. METEOR and SPICE that were missing
for want of Java are added when it is there. Captions that were made on another machine are scored
without their models.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from naic.data.features import FeatureStore, StoredRecord
from naic.data.readers.captions import read_captions
from naic.data.records import Problems
from naic.errors import ConfigError
from naic.files import write_atomically
from naic.tasks.evaluate.report import digest as digest_references
from naic.tasks.reproduce.judging import (
    HumanReferences,
    Judge,
    Scored,
    as_scored,
    can_add,
    read_kept,
)
from naic.tasks.reproduce.options import ReproduceOptions
from naic.tasks.reproduce.run_file import digest
from naic.tasks.reproduce.stage_runner import StageRunner

BATCH = 256


class Scorer:
    """Captions and scores models on one split."""

    def __init__(
        self, runner: StageRunner, options: ReproduceOptions, say: Callable[[str], None]
    ) -> None:
        self._runner = runner
        self._out = options.out
        self._device = options.device
        self.store = FeatureStore(runner.folder("features"))
        split = runner.preset.settings.report
        self.rows = report_rows(self.store, split)
        records = [self.store.records[row] for row in self.rows]
        drawn = self.store.index.get("reader") == "shapes"
        self.references = HumanReferences(str(self.store.folder), "store", split, records, drawn)
        self._judge = make_judge(self.references, runner, options, say)

    def is_there(self, stage: str, number: int, beam: int) -> bool:
        """Whether the model of a row is finished, whatever it is asked for."""
        return self._runner.is_finished(stage, number)

    def score(self, stage: str, number: int, beam: int) -> Scored:
        """The captions of a stage's best model, made and scored unless that was done already."""
        captions, kept = places(self._runner, self._out, stage, number, beam)
        key = {
            "weights": self._runner.identity(stage, number),
            "images": self._runner.identity("features", 0),
            "split": self.references.split,
            "beam": beam,
            **self._judge.manner,
        }
        found = read_kept(kept)
        if found is None or found["key"] != key or not captions.is_file():
            captions.parent.mkdir(exist_ok=True)
            facts = self._caption(self._runner.folder(stage, number) / "best", beam, captions)
        elif can_add(found):
            facts = found["values"]["facts"]
        else:
            return as_scored(captions, found)
        return judge_and_keep(self._judge, captions, kept, key, facts)

    def _caption(self, folder: Path, beam: int, target: Path) -> float | None:
        """Write a results file; gives the share of captions that are true, where that is known."""
        from naic.backbones.load import choose_device
        from naic.decode.decoding import Decoding
        from naic.models.folder import load_model
        from naic.train.validate import Validator

        device = choose_device(self._device)
        loaded = load_model(folder, device=device)
        validator = Validator(self.store, self.rows, loaded.vocabulary, batch=BATCH, device=device)
        found = validator.validate(loaded.model, loaded.spec, Decoding(beam))
        write_atomically(target, found.results())
        return found.facts


class ReturnedScorer:
    """Scores captions that were made elsewhere: neither features nor weights need to be here."""

    def __init__(
        self, runner: StageRunner, options: ReproduceOptions, say: Callable[[str], None]
    ) -> None:
        if options.references is None:
            raise ConfigError("--references", "is not given", "Name the dataset.")
        self._runner = runner
        self._out = options.out
        split = runner.preset.settings.report
        source = options.references
        read = read_captions(source, splits=[split], problems=Problems(skip=False))
        records = [
            StoredRecord(image.id, "", image.split, image.captions, None)
            for image in read.images
            if image.captions
        ]
        self.references = HumanReferences(
            source, read.reader, split, records, read.reader == "shapes"
        )
        self._data = digest_references(read.images)
        self._judge = make_judge(self.references, runner, options, say)

    def is_there(self, stage: str, number: int, beam: int) -> bool:
        """Whether the captions of a row came back."""
        return places(self._runner, self._out, stage, number, beam)[0].is_file()

    def score(self, stage: str, number: int, beam: int) -> Scored:
        """Scores of the captions that are there, computed unless that was done already."""
        captions, kept = places(self._runner, self._out, stage, number, beam)
        key = {
            "captions": digest(captions),
            "data": self._data,
            "split": self.references.split,
            "beam": beam,
            **self._judge.manner,
        }
        found = read_kept(kept)
        if found is not None and found["key"] == key and not can_add(found):
            return as_scored(captions, found)
        # Whether captions of drawn scenes are true was seen where the scenes are.
        facts = None if found is None else found["values"]["facts"]
        return judge_and_keep(self._judge, captions, kept, key, facts)


def make_judge(
    references: HumanReferences,
    runner: StageRunner,
    options: ReproduceOptions,
    say: Callable[[str], None],
) -> Judge:
    """One that scores as the preset and the options say."""
    spice = runner.preset.settings.spice
    return Judge(references, say, fast=options.fast, spice=spice, log=options.log)


def places(runner: StageRunner, out: Path, stage: str, number: int, beam: int) -> tuple[Path, Path]:
    """Where the captions of a row are, or will be, and where their scores."""
    stem = f"{runner.name(stage, number)}-{runner.preset.settings.report}-beam{beam}"
    file = f"{stem.replace('/', '-')}.json"  # a split may be called anything
    return out / "captions" / file, out / "scores" / file


def judge_and_keep(
    judge: Judge, captions: Path, kept: Path, key: dict[str, Any], facts: float | None
) -> Scored:
    """Score a file, and keep what came out."""
    found = {"key": key, **judge.judge(captions, facts, f"reproduce: {captions.stem}")}
    if not found["failed"]:  # what failed is tried again
        kept.parent.mkdir(exist_ok=True)
        write_atomically(kept, f"{json.dumps(found)}\n".encode())
    return as_scored(captions, found)


def report_rows(store: FeatureStore, split: str) -> list[int]:
    """The images that the tables are about."""
    rows = [
        row for row, record in enumerate(store.records) if record.split == split and record.captions
    ]
    if not rows:
        known = ", ".join(sorted({repr(record.split) for record in store.records}))
        why = f"no image of it has captions in {store.folder}"
        raise ConfigError(f"report = {split!r}", why, f"There are: {known}.")
    return rows
