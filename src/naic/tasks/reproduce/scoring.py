"""Captions of the report split by each row's model, and what they are worth.

What was captioned and scored is kept beside the digests of what it came from, so that asking again
costs nothing and a model that was trained anew is scored anew.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.features import FeatureStore
from naic.errors import ConfigError, MissingExtraError
from naic.files import write_atomically
from naic.metrics.bootstrap import FEWEST_IMAGES, interval, resample
from naic.metrics.score import Score
from naic.tasks.evaluate import EvaluateOptions, Evaluation, evaluate
from naic.tasks.evaluate_options import NAMES, Metric
from naic.tasks.evaluation_signature import signature_line
from naic.tasks.reproduce.workshop import Workshop

RESAMPLES = 1000
BATCH = 256
WITHOUT_SPICE: tuple[Metric, ...] = ("Bleu", "METEOR", "ROUGE_L", "CIDEr")


@dataclass(frozen=True)
class Scored:
    """A model's captions, scored.

    Attributes:
        captions: the results file.
        values: metrics as fractions, None where one could not be had; repeats, bad endings, facts.
        resampled: by metric, its value on each resampled set of images; the same sets for all.
        signature: what the figures depend on, in a line.
    """

    captions: Path
    values: dict[str, float | None]
    resampled: dict[str, list[float]]
    signature: str


class Scorer:
    """Captions and scores models on one split."""

    def __init__(
        self,
        workshop: Workshop,
        out: Path,
        say: Callable[[str], None],
        *,
        device: str,
        fast: bool,
    ) -> None:
        self._workshop = workshop
        self._say = say
        self._said: set[str] = set()
        self._out = out
        self._device = device
        self._fast = fast
        self._spice = workshop.preset.settings.spice
        self.store = FeatureStore(workshop.folder("features"))
        self.split = workshop.preset.settings.report
        self.rows = report_rows(self.store, self.split)

    def score(self, stage: str, number: int, beam: int) -> Scored:
        """The captions of a stage's best model, made and scored unless that was done already."""
        stem = f"{self._workshop.name(stage, number)}-{self.split}-beam{beam}"
        file = f"{stem.replace('/', '-')}.json"  # a split may be called anything
        captions, kept = self._out / "captions" / file, self._out / "scores" / file
        key = {
            "weights": self._workshop.identity(stage, number),
            "images": self._workshop.identity("features", 0),
            "split": self.split,
            "beam": beam,
            "fast": self._fast,
            "spice": self._spice,
        }
        found = _read(kept)
        if found is None or found["key"] != key or not captions.is_file():
            for path in (captions, kept):
                path.parent.mkdir(exist_ok=True)
            facts = self._caption(self._workshop.folder(stage, number) / "best", beam, captions)
            found = {"key": key, **self._evaluate(captions, facts)}
            if not found["failed"]:  # what failed is tried again
                write_atomically(kept, f"{json.dumps(found)}\n".encode())
        return Scored(captions, found["values"], found["resampled"], found["signature"])

    def _caption(self, folder: Path, beam: int, target: Path) -> float | None:
        """Write a results file; gives the share of captions that are true, where that is known."""
        from naic.backbones.load import choose_device
        from naic.captioners.folder import load_model
        from naic.decode.decoding import Decoding
        from naic.train.validate import Validator

        device = choose_device(self._device)
        loaded = load_model(folder, device=device)
        validator = Validator(self.store, self.rows, loaded.vocabulary, batch=BATCH, device=device)
        found = validator.validate(loaded.model, loaded.family, Decoding(beam))
        write_atomically(target, found.results())
        return found.facts

    def _evaluate(self, captions: Path, facts: float | None) -> dict[str, Any]:
        options = EvaluateOptions(
            captions,
            str(self.store.folder),
            split=(self.split,),
            reader="store",
            metrics=() if self._spice or self._fast else WITHOUT_SPICE,
            fast=self._fast,
            bootstrap=0,
        )
        evaluation = self._without_what_is_missing(options)
        for name, why in (*evaluation.missing.items(), *evaluation.failed.items()):
            self._tell(name, why)
        scores: dict[str, Score] = evaluation.system.scores
        manner = evaluation.system.habits
        values: dict[str, float | None] = {
            name: scores[name].value if name in scores else None for name in NAMES
        }
        values |= {"repeats": manner.repeats, "bad_endings": manner.bad_endings, "facts": facts}
        resampled: dict[str, list[float]] = {}
        if len(self.rows) >= FEWEST_IMAGES:
            drawn = resample(list(scores.values()), times=RESAMPLES, seed=0)
            resampled = {name: drawn[:, i].tolist() for i, name in enumerate(scores)}
        return {
            "values": values,
            "resampled": resampled,
            "signature": signature_line(evaluation.signature),
            "missing": evaluation.missing,
            "failed": evaluation.failed,
        }

    def _without_what_is_missing(self, options: EvaluateOptions) -> Evaluation:
        """A machine without Java still gets its tables."""
        try:
            return evaluate(options)
        except MissingExtraError as error:
            self._tell("METEOR", str(error))
            return evaluate(replace(options, metrics=(), fast=True))

    def _tell(self, metric: str, why: str) -> None:
        """Why a score is not there, once."""
        if why not in self._said:
            self._said.add(why)
            self._say(f"without {metric}: {why}")


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


def ends(resampled: list[list[float]]) -> list[float] | None:
    """The 95 % interval, over images, of the mean of several seeds' scores; None: too few images.

    Each seed was resampled into the same sets of images, so that the mean is taken set by set.
    """
    if not all(resampled):
        return None
    return list(interval(np.mean(np.array(resampled), axis=0)))


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    keys = {"key", "values", "resampled", "signature"}
    return found if isinstance(found, dict) and keys <= found.keys() else None
