"""`naic evaluate`: a file of captions and a dataset in, scores that can be compared out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from naic.data.readers.captions import Captioned, read_captions
from naic.data.records import Problem, Problems
from naic.errors import MissingExtraError, NaicError
from naic.metrics.bleu import bleu
from naic.metrics.bootstrap import Difference, differences, interval, resample
from naic.metrics.cider import DocumentFrequencies, cider
from naic.metrics.habits import Habits, habits
from naic.metrics.meteor import meteor
from naic.metrics.rouge import rouge_l
from naic.metrics.score import Score
from naic.metrics.spice import spice
from naic.tasks.evaluate_options import JAVA, NAMES, EvaluateOptions, Metric
from naic.tasks.evaluation_signature import Corpus, digest, sign
from naic.tasks.results_file import pair, read_results
from naic.text import tokenise

__all__ = ["EvaluateOptions", "Evaluation", "System", "evaluate"]


@dataclass(frozen=True, slots=True)
class System:
    """One file of captions, scored.

    Attributes:
        name: the file.
        captions: one for each image, as they were given.
        scores: by the public evaluation's names, in their order.
        habits: how the captions are written.
    """

    name: str
    captions: list[str]
    scores: dict[str, Score]
    habits: Habits


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that was measured.

    Attributes:
        system: the captions that were to be scored.
        images: the images scored, in the order of the references.
        intervals: the 95 % interval of each score; empty without a bootstrap.
        human: the habits of the references. Rates and length are of all of them, the vocabulary
            is that of one reference an image: more captions would have more words.
        signature: what the figures depend on, key by key.
        against: the other system, if there is one.
        differences: by metric, how much more the system has than the other.
        missing: metrics that were left out since something is not installed, and what.
        failed: metrics that could not be computed, and why.
        problems: rows of the dataset that were left out.
    """

    system: System
    images: list[Captioned]
    intervals: dict[str, tuple[float, float]]
    human: Habits
    signature: dict[str, str | int]
    against: System | None = None
    differences: dict[str, Difference] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)


def _silent(_: str) -> None:
    """Report to nobody."""


def evaluate(options: EvaluateOptions, report: Callable[[str], None] = _silent) -> Evaluation:
    """Score a file of captions; `report` hears what is being done.

    Raises:
        DataError: the captions or the references cannot be used, or do not belong together.
        ConfigError: options that cannot be.
        MissingExtraError: a metric was asked for by name and what it needs is not installed.
    """
    options.check()
    files = [read_results(path) for path in (options.results, options.against) if path]
    report("reading the references")
    problems = Problems(skip=options.skip_bad)
    read = read_captions(
        options.references,
        reader=options.reader,
        splits=options.split or None,
        seed=options.scenes_seed,
        problems=problems,
    )
    images, captions = pair(files, read, splits=options.split, subset=options.subset)
    scorer = _Scorer(
        options, tokenised([image.captions for image in images]), _corpus(options, problems), report
    )
    system, *others = [
        scorer.score(file.name, own) for file, own in zip(files, captions, strict=True)
    ]
    whole = sum(bool(image.captions) for image in read.images)
    evaluation = Evaluation(
        system=system,
        images=images,
        intervals=_intervals(system, options),
        human=_human(scorer.references),
        signature=sign(images, whole, options.split, scorer.corpus, tuple(system.scores)),
        missing=scorer.missing,
        failed=scorer.failed,
        problems=problems.items,
    )
    if others:
        found = _differences(system, others[0], options)
        evaluation = replace(evaluation, against=others[0], differences=found)
    return evaluation


def tokenised(captions: Sequence[Sequence[str]]) -> list[list[str]]:
    """Captions of images as the metrics take them: words joined by single spaces."""
    return [[" ".join(tokenise(caption)) for caption in own] for own in captions]


def _corpus(options: EvaluateOptions, problems: Problems) -> Corpus | None:
    """The document frequencies of --df."""
    if options.df is None:
        return None
    read = read_captions(options.df, splits=options.df_split or None, problems=problems)
    images = [image for image in read.images if image.captions]
    frequencies = DocumentFrequencies.count(tokenised([image.captions for image in images]))
    name = Path(options.df).name + "".join(f" {split}" for split in options.df_split)
    return Corpus(name, frequencies, digest(images))


class _Scorer:
    """Scores one or two systems on the same images, and notes what could not be had."""

    def __init__(
        self,
        options: EvaluateOptions,
        references: list[list[str]],
        corpus: Corpus | None,
        report: Callable[[str], None],
    ) -> None:
        self.options = options
        self.references = references
        self.corpus = corpus
        self.report = report
        self.missing: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def score(self, name: str, captions: list[str]) -> System:
        """All the scores of one file."""
        hypotheses = [" ".join(tokenise(caption)) for caption in captions]
        scores: dict[str, Score] = {}
        # Java first: if it was asked for and is not there, nothing has been waited for.
        for metric in sorted(self.options.wanted, key=lambda metric: metric not in JAVA):
            self.report(f"scoring {metric}")
            scores |= {score.name: score for score in self._metric(metric, hypotheses)}
        ordered = {key: scores[key] for key in NAMES if key in scores}
        return System(name, captions, ordered, habits(hypotheses))

    def _metric(self, metric: Metric, hypotheses: list[str]) -> list[Score]:
        match metric:
            case "Bleu":
                return bleu(hypotheses, self.references)
            case "ROUGE_L":
                return [rouge_l(hypotheses, self.references)]
            case "CIDEr":
                frequencies = self.corpus.frequencies if self.corpus else None
                return [cider(hypotheses, self.references, frequencies)]
            case _:
                return self._java(metric, hypotheses)

    def _java(self, metric: Metric, hypotheses: list[str]) -> list[Score]:
        """METEOR or SPICE; whatever happens to Java, the other scores are not lost."""
        if metric in self.missing or metric in self.failed:
            return []
        try:
            scorer = meteor if metric == "METEOR" else spice
            return [scorer(hypotheses, self.references)]
        except MissingExtraError as error:
            if self.options.metrics:
                raise
            self.missing[metric] = str(error)
        except NaicError as error:
            self.failed[metric] = str(error)
        return []


def _intervals(system: System, options: EvaluateOptions) -> dict[str, tuple[float, float]]:
    if not options.bootstrap or not system.scores:
        return {}
    scores = list(system.scores.values())
    values = resample(scores, times=options.bootstrap, seed=options.seed)
    return {score.name: interval(values[:, i]) for i, score in enumerate(scores)}


def _differences(system: System, other: System, options: EvaluateOptions) -> dict[str, Difference]:
    """Of the metrics that both have: one may have failed for one of them."""
    both = [name for name in system.scores if name in other.scores]
    if not both:
        return {}
    ours, theirs = ([scores[name] for name in both] for scores in (system.scores, other.scores))
    found = differences(ours, theirs, times=options.bootstrap, seed=options.seed)
    return {difference.name: difference for difference in found}


def _human(references: list[list[str]]) -> Habits:
    every = habits([sentence for own in references for sentence in own])
    return replace(every, vocabulary=habits([own[0] for own in references]).vocabulary)
