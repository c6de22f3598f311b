"""What a file of captions is worth: scores, their spread over the images, habits."""

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from naic.data.features import StoredRecord
from naic.data.records import CaptionReader
from naic.errors import MissingExtraError
from naic.metrics.score import FEWEST_IMAGES, interval, resample
from naic.tasks.evaluate.options import NAMES, EvaluateOptions, Metric, check_log, names_test
from naic.tasks.evaluate.report import log_test_evaluation
from naic.tasks.evaluate.run import Evaluation, evaluate
from naic.tasks.evaluate.signature import signature_line
from naic.tasks.reproduce.preset import PresetSettings
from naic.tasks.reproduce.run_file import ReproduceOptions

RESAMPLES = 1000
WITHOUT_SPICE: tuple[Metric, ...] = ("Bleu", "METEOR", "ROUGE_L", "CIDEr")


@dataclass(frozen=True)
class Scored:
    """A model's captions, scored.

    Attributes:
        captions: the results file.
        values: metrics as fractions, None where one could not be had; repeats, bad endings, facts;
            vocabulary, how many different words there are.
        resampled: by metric, its value on each resampled set of images; the same sets for all.
        signature: what the figures depend on, in a line.
        human: how the human captions of the same images are written.
    """

    captions: Path
    values: dict[str, float | None]
    resampled: dict[str, list[float]]
    signature: str
    human: dict[str, float]


@dataclass(frozen=True)
class HumanReferences:
    """The human captions of the images that the tables are about.

    Attributes:
        source: where it is, as `naic evaluate` takes it.
        reader: how to read it; None finds out.
        split: the split of the tables.
        records: the images of that split.
        drawn: they are scenes of `shapes`: new ones can be had at will, so an evaluation on them
            uses nothing up, and is not logged.
    """

    source: str
    reader: CaptionReader | None
    split: str
    records: list[StoredRecord]
    drawn: bool

    @property
    def is_logged(self) -> bool:
        """Whether a score on them is a test evaluation, which is logged."""
        return names_test([self.split]) and not self.drawn


class Judge:
    """Scores files of captions against the human captions of the same images."""

    def __init__(
        self,
        references: HumanReferences,
        preset: PresetSettings,
        options: ReproduceOptions,
        say: Callable[[str], None],
    ) -> None:
        self._references = references
        self._say = say
        self._said: set[str] = set()
        self._fast, self._log = options.fast, options.log
        self._spice = preset.spice and references.split == preset.report
        if references.is_logged:
            check_log(options.log)

    @property
    def manner(self) -> dict[str, bool]:
        """What the scores depend on beside captions and images."""
        return {"fast": self._fast, "spice": self._spice}

    def judge(self, captions: Path, facts: float | None, why: str) -> dict[str, Any]:
        """All that is kept of a file; `facts` is passed on, `why` is for the log."""
        references = self._references
        options = EvaluateOptions(
            captions,
            references.source,
            split=(references.split,),
            reader=references.reader,
            metrics=() if self._spice or self._fast else WITHOUT_SPICE,
            fast=self._fast,
            bootstrap=0,
        )
        if references.is_logged:
            options = replace(options, log=self._log, why=why)
        evaluation = self._without_what_is_missing(options)
        for name, reason in (*evaluation.missing.items(), *evaluation.failed.items()):
            self._tell(name, reason)
        scores, manner = evaluation.system.scores, evaluation.system.habits
        values: dict[str, float | None] = {
            name: scores[name].value if name in scores else None for name in NAMES
        }
        values |= {"repeats": manner.repeats, "bad_endings": manner.bad_endings, "facts": facts}
        values["vocabulary"] = manner.vocabulary
        resampled: dict[str, list[float]] = {}
        if len(evaluation.images) >= FEWEST_IMAGES:
            drawn = resample(list(scores.values()), times=RESAMPLES, seed=0)
            resampled = {name: drawn[:, i].tolist() for i, name in enumerate(scores)}
        if references.is_logged:  # last, just before it is kept: one that is killed is done again
            log_test_evaluation(evaluation, options)
        return {
            "values": values,
            "resampled": resampled,
            "signature": signature_line(evaluation.signature),
            "human": asdict(evaluation.human),
            "missing": evaluation.missing,
            "failed": evaluation.failed,
        }

    def _without_what_is_missing(self, options: EvaluateOptions) -> Evaluation:
        """A machine without the extra still gets its tables."""
        try:
            return evaluate(options)
        except MissingExtraError as error:  # METEOR was asked for by name, to leave SPICE out
            found = evaluate(replace(options, metrics=(), fast=True))
            return replace(found, missing={"METEOR": str(error)})

    def _tell(self, metric: str, why: str) -> None:
        """Why a score is not there, once."""
        if why not in self._said:
            self._said.add(why)
            self._say(f"without {metric}: {why}")


def as_scored(captions: Path, kept: dict[str, Any]) -> Scored:
    """What `Judge.judge` gave, and was kept."""
    return Scored(captions, kept["values"], kept["resampled"], kept["signature"], kept["human"])


def can_add(kept: dict[str, Any]) -> bool:
    """Whether a metric that was missing then can be had now."""
    return any(_is_there(metric) for metric in kept["missing"])


def _is_there(metric: str) -> bool:
    from naic.metrics.java import find_java
    from naic.metrics.meteor.data import find_files
    from naic.metrics.spice import program as spice_program

    try:
        if metric == "SPICE":
            find_java()
            spice_program()
        else:
            find_files()
    except MissingExtraError:
        return False
    return True


def read_kept(path: Path) -> dict[str, Any] | None:
    """Scores of an earlier call; None where there are none that can be used."""
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return None
    keys = {"key", "values", "resampled", "signature", "human", "missing"}
    return found if isinstance(found, dict) and keys <= found.keys() else None


def ends(resampled: list[list[float]]) -> list[float] | None:
    """The 95 % interval, over images, of the mean of several seeds' scores; None: too few images.

    Each seed was resampled into the same sets of images, so that the mean is taken set by set.
    """
    if not all(resampled):
        return None
    return list(interval(np.mean(np.array(resampled), axis=0)))
