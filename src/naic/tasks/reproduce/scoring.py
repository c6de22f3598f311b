"""Captions of a reported split by each row's model, what they are worth, and how long they take.

What was captioned and scored is kept beside the digests of what it came from, so that asking again
costs nothing and a model that was trained anew is scored anew. METEOR and SPICE that were missing
for want of Java or of the extra are added when these are there. Captions that were made on another
machine are scored without their models.

The time is that of one image, from its features to words, eager, alone on the device, warm. As in
`naic benchmark`, a model that writes word by word writes a fixed number of words, and no period
before: else its time would be that of 16 words on a GPU, which does not stop to look whether the
sentence has ended, and of as many as it says on a CPU.
"""

import json
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.data.batches import count_regions
from naic.data.features import FeatureStore, StoredRecord, read_features
from naic.data.readers.captions import read_captions
from naic.data.records import Problems
from naic.errors import ConfigError
from naic.files import write_atomically
from naic.tasks.evaluate.signature import digest as digest_references
from naic.tasks.options import WORDS
from naic.tasks.reproduce.judging import (
    HumanReferences,
    Judge,
    Scored,
    as_scored,
    can_add,
    read_kept,
)
from naic.tasks.reproduce.run_file import ReproduceOptions, digest
from naic.tasks.reproduce.stage_runner import StageRunner

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from torch import Tensor, nn

    from naic.decode.decoding import Decoding
    from naic.models.contract import CaptionerSpec
    from naic.models.folder import LoadedModel

BATCH = 256
IMAGES, WARM_UP = 60, 10  # that are timed


class Scorer:
    """Captions and scores models on one split."""

    def __init__(
        self, runner: StageRunner, options: ReproduceOptions, say: Callable[[str], None], split: str
    ) -> None:
        self._runner = runner
        self._out = options.out
        self._device = options.device
        self.store = FeatureStore(runner.folder("features"))
        self.rows = report_rows(self.store, split)
        records = [self.store.records[row] for row in self.rows]
        drawn = self.store.index.get("reader") == "shapes"
        self.references = HumanReferences(str(self.store.folder), "store", split, records, drawn)
        self._judge = Judge(self.references, runner.preset.settings, options, say)

    def is_there(self, stage: str, number: int, beam: int) -> bool:
        """Whether the model of a row is finished, whatever it is asked for."""
        return self._runner.is_finished(stage, number)

    def score(self, stage: str, number: int, beam: int) -> Scored:
        """The captions of a stage's best model, made and scored unless that was done already."""
        captions, kept = self.places(stage, number, beam)
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
            folder = self._runner.folder(stage, number) / "best"
            facts = caption_rows(self.store, self.rows, folder, beam, self._device, captions)
        elif can_add(found):
            facts = found["values"]["facts"]
        else:
            return as_scored(captions, found)
        return judge_and_keep(self._judge, captions, kept, key, facts)

    def places(self, stage: str, number: int, beam: int) -> tuple[Path, Path]:
        """Where the captions of a row are, or will be, and where their scores."""
        return places(self._out, self._runner.name(stage, number), self.references.split, beam)


def caption_rows(
    store: FeatureStore, rows: Sequence[int], folder: Path, beam: int, device: str, target: Path
) -> float | None:
    """Write a results file; gives the share of captions that are true, where that is known."""
    from naic.decode.decoding import Decoding
    from naic.device import choose_device
    from naic.tasks.rescore import load_for_features
    from naic.train.validate import Validator

    chosen = choose_device(device)
    loaded, model = load_for_features(store, folder)
    validator = Validator(store, rows, loaded.vocabulary, batch=BATCH, device=chosen)
    found = validator.validate(model.to(chosen), loaded.spec, Decoding(beam))
    write_atomically(target, found.results())
    return found.facts


class ReturnedScorer:
    """Scores captions that were made elsewhere: neither features nor weights need to be here."""

    def __init__(
        self, runner: StageRunner, options: ReproduceOptions, say: Callable[[str], None], split: str
    ) -> None:
        assert options.references is not None  # else the captions were made here
        self._runner = runner
        self._out = options.out
        self.references, self._data = read_references(options.references, split, say)
        self._judge = Judge(self.references, runner.preset.settings, options, say)

    def is_there(self, stage: str, number: int, beam: int) -> bool:
        """Whether the captions of a row came back."""
        return self.places(stage, number, beam)[0].is_file()

    def score(self, stage: str, number: int, beam: int) -> Scored:
        """Scores of the captions that are there, computed unless that was done already."""
        captions, kept = self.places(stage, number, beam)
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

    def places(self, stage: str, number: int, beam: int) -> tuple[Path, Path]:
        """Where the captions of a row are, and where their scores are or will be."""
        return places(self._out, self._runner.name(stage, number), self.references.split, beam)


def read_references(
    source: str, split: str, say: Callable[[str], None]
) -> tuple[HumanReferences, str]:
    """What people said of a split's images, without features of these; and its digest."""
    problems = Problems(warn=lambda problem: say(str(problem)))
    read = read_captions(source, splits=[split], problems=problems)
    records = [
        StoredRecord(image.id, "", image.split, image.captions, None)
        for image in read.images
        if image.captions
    ]
    found = HumanReferences(source, read.reader, split, records, read.reader == "shapes")
    return found, digest_references(read.images)


def places(out: Path, run: str, split: str, beam: int) -> tuple[Path, Path]:
    """Where the captions of a run are kept, and where their scores."""
    stem = f"{run}-{split}-beam{beam}"
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


def measure_latency(
    models: dict[str, tuple[Path, int]],
    store: FeatureStore,
    rows: Sequence[int],
    device: str,
    further: "Mapping[str, Callable[[Tensor], object]] | None" = None,
) -> dict[str, Any]:
    """The median milliseconds of each model, by its name.

    All take their turn at every image: whatever else the machine does in the meantime
    slows them alike. The causal ones write `WORDS` words, with a key-value cache.

    Args:
        models: model folders with the beam to caption by.
        store: the features.
        rows: the images to take them from; after the last comes the first again.
        device: auto, cpu or cuda.
        further: what else is timed: from features (1, R, F) on the device to words.
    """
    import torch

    from naic.decode.decoding import Decoding
    from naic.device import choose_device, device_name
    from naic.tasks.benchmark.timing import milliseconds
    from naic.tasks.rescore import load_for_features

    chosen = choose_device(device)
    runs: dict[str, Callable[[Tensor], object]] = {}
    for name, (folder, beam) in models.items():
        loaded, model = load_for_features(store, folder)
        timed = _fixed_length(loaded, model).to(chosen).eval()
        runs[name] = partial(_words, loaded.spec, timed, Decoding(beam))
    runs |= further or {}
    times: dict[str, list[float]] = {name: [] for name in runs}
    for turn in range(WARM_UP + IMAGES):
        row = rows[turn % len(rows)]
        array, _ = read_features(store, [row], int(count_regions(store, [row])[0]))
        features = torch.from_numpy(array).to(chosen)
        for name, run in runs.items():
            taken = milliseconds(partial(run, features), chosen)
            if turn >= WARM_UP:
                times[name].append(taken)
    return {
        "milliseconds": {name: statistics.median(own) for name, own in times.items()},
        "words": WORDS,
        "images": IMAGES,
        "device": device_name(chosen),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def _words(
    spec: "CaptionerSpec", model: "nn.Module", decoding: "Decoding", features: "Tensor"
) -> "Tensor":
    return spec.caption(model, features, None, decoding)


def _fixed_length(loaded: "LoadedModel", model: "nn.Module") -> "nn.Module":
    """Its network; one that writes word by word made to write `WORDS` words, whatever it says."""
    from naic.models.transformer import TransformerCaptioner
    from naic.tasks.benchmark.timing import never_end

    if loaded.spec.one_pass or not isinstance(model, TransformerCaptioner):
        return model
    config = replace(model.config, length=WORDS)
    reads = model.encoder.project.in_features
    if config.backbone:
        reads = loaded.settings.features  # pixels: what the backbone makes of them is its own
    made = loaded.spec.build(config, reads, model.words)
    assert isinstance(made, TransformerCaptioner)
    made.load_state_dict(model.state_dict())
    never_end(made)
    return made
