"""`naic evaluate`: a file of captions and a dataset in, scores that can be compared out."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from naic.data.readers.captions import Captions, ImageCaptions, read_captions
from naic.data.records import CaptionReader, Problems
from naic.errors import ConfigError, MissingExtraError, NaicError, Problem
from naic.files import printable
from naic.metrics.cider import DocumentFrequencies, bleu, cider, rouge_l
from naic.metrics.score import (
    FEWEST_IMAGES,
    Difference,
    Habits,
    Score,
    differences,
    habits,
    interval,
    resample,
)
from naic.progress import SILENT, Callbacks
from naic.tasks.evaluate.options import NAMES, SLOW, EvaluateOptions, Metric
from naic.tasks.evaluate.pictures import Picture, check_roots, find_pictures
from naic.tasks.evaluate.results_file import ResultsFile, pair, read_results
from naic.tasks.evaluate.signature import Corpus, digest, sign
from naic.text import tokenise


@dataclass(frozen=True, slots=True)
class System:
    """One file of captions, scored.

    Attributes:
        name: the file.
        sha256: of the file as it was read, unpacked.
        captions: one for each image, as they were given.
        scores: by the public evaluation's names, in their order.
        habits: how the captions are written.
    """

    name: str
    sha256: str
    captions: list[str]
    scores: dict[str, Score]
    habits: Habits


@dataclass(frozen=True, slots=True)
class Further:
    """A system that was scored beside the others, with the intervals of its scores."""

    system: System
    intervals: dict[str, tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Everything that was measured.

    Attributes:
        system: the captions that were to be scored.
        images: the images scored, in the order of the references.
        intervals: the 95 % interval of each score; empty without a bootstrap, and where there
            are too few images for one.
        human: the habits of the references. Rates and length are of all of them, the vocabulary
            is that of one reference an image: more captions would have more words.
        signature: what the figures depend on, key by key.
        source: where the references and document frequencies came from, as the user named them.
        against: the other system, if there is one.
        differences: by metric, how much more the system has than the other.
        missing: metrics that were left out since something is not installed, and what.
        failed: metrics that could not be computed, and why.
        problems: rows of the dataset that were left out, and captions of images among these.
        also: further systems, scored on the same images.
        pictures: with --images, for each image its file, or None; else empty.
    """

    system: System
    images: list[ImageCaptions]
    intervals: dict[str, tuple[float, float]]
    human: Habits
    signature: dict[str, str | int]
    source: dict[str, str | list[str] | None]
    against: System | None = None
    differences: dict[str, Difference] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    also: list[Further] = field(default_factory=list)
    pictures: list[Picture | None] = field(default_factory=list)

    @property
    def systems(self) -> list[System]:
        """All that were scored: the one, what it is compared with, the further ones."""
        against = [] if self.against is None else [self.against]
        return [self.system, *against, *(one.system for one in self.also)]


def evaluate(options: EvaluateOptions, callbacks: Callbacks = SILENT) -> Evaluation:
    """Score a file of captions.

    Raises:
        DataError: the captions or the references cannot be used, or do not belong together.
        ConfigError: options that cannot be.
        MissingExtraError: a metric was asked for by name and what it needs is not installed.
    """
    options.check()
    check_roots(options.images, embed=options.embed)
    files = [read_results(path) for path in options.files]
    callbacks.say("reading the references")
    problems = Problems(skip=options.skip_bad, warn=callbacks.problem)
    split = sorted(set(options.split))
    read = _read("--split", options.references, options.reader, split, options, problems)
    images, captions = pair(files, read, splits=split, subset=options.subset, problems=problems)
    pictures = find_pictures(options.images, [image.id for image in images])
    scorer = _Scorer(
        options,
        tokenised([image.captions for image in images]),
        _corpus(options, problems),
        callbacks,
    )
    system, *others = [scorer.score(file, own) for file, own in zip(files, captions, strict=True)]
    also = others[len(others) - len(options.also) :]
    whole = sum(bool(image.captions) for image in read.images)
    evaluation = Evaluation(
        system=system,
        images=images,
        intervals=_intervals(system, options),
        human=_human(scorer.references),
        signature=sign(images, whole, scorer.corpus, tuple(system.scores), scorer.programs),
        source=_source(options, read.reader),
        missing=scorer.missing,
        failed=scorer.failed,
        problems=problems.items,
        also=[Further(one, _intervals(one, options)) for one in also],
        pictures=pictures,
    )
    if options.against is not None:
        found = _differences(system, others[0], options)
        evaluation = replace(evaluation, against=others[0], differences=found)
    return evaluation


def tokenised(captions: Sequence[Sequence[str]]) -> list[list[str]]:
    """Captions of images as the metrics take them: words joined by single spaces."""
    return [[" ".join(tokenise(caption)) for caption in own] for own in captions]


def _read(
    option: str,
    source: str,
    reader: CaptionReader | None,
    splits: Sequence[str],
    options: EvaluateOptions,
    problems: Problems,
) -> Captions:
    """The captions of a source; `option` is what the user chose its splits with."""
    try:
        return read_captions(
            source,
            reader=reader,
            splits=splits or None,
            seed=options.scenes_seed,
            problems=problems,
        )
    except ConfigError as error:  # there is no such split
        raise ConfigError(option, error.why, error.hint) from None


def _source(options: EvaluateOptions, reader: CaptionReader) -> dict[str, str | list[str] | None]:
    return {
        "references": printable(Path(options.references).absolute().name),
        "reader": reader,
        "split": sorted(set(options.split)),
        "df": None if options.df is None else printable(Path(options.df).absolute().name),
        "df_split": sorted(set(options.df_split)),
    }


def _corpus(options: EvaluateOptions, problems: Problems) -> Corpus | None:
    """The document frequencies of --df."""
    if options.df is None:
        return None
    read = _read("--df-split", options.df, None, options.df_split, options, problems)
    images = [image for image in read.images if image.captions]
    frequencies = DocumentFrequencies.count(tokenised([image.captions for image in images]))
    return Corpus(frequencies, digest(images))


class _Scorer:
    """Scores one or two systems on the same images, and notes what could not be had."""

    def __init__(
        self,
        options: EvaluateOptions,
        references: list[list[str]],
        corpus: Corpus | None,
        callbacks: Callbacks,
    ) -> None:
        self.options = options
        self.references = references
        self.corpus = corpus
        self.callbacks = callbacks
        self.missing: dict[str, str] = {}
        self.failed: dict[str, str] = {}
        self.programs: dict[str, str] = {}

    def score(self, file: ResultsFile, captions: list[str]) -> System:
        """All the scores of one file."""
        hypotheses = [" ".join(tokenise(caption)) for caption in captions]
        scores: dict[str, Score] = {}
        # The slow ones first: if what they need is not there, nothing has been waited for.
        for metric in sorted(self.options.wanted, key=lambda metric: metric not in SLOW):
            self.callbacks.say(f"scoring {metric}")
            scores |= {score.name: score for score in self._metric(metric, hypotheses)}
        ordered = {key: scores[key] for key in NAMES if key in scores}
        return System(file.name, file.sha256, captions, ordered, habits(hypotheses))

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
                return self._slow(metric, hypotheses)

    def _slow(self, metric: Metric, hypotheses: list[str]) -> list[Score]:
        """METEOR or SPICE; whatever happens to them, the other scores are not lost."""
        if metric in self.missing or metric in self.failed:
            return []
        from naic.metrics import meteor, spice

        limit = self.options.java_seconds
        try:
            if metric == "METEOR":
                way = self.options.meteor
                found = meteor.meteor(hypotheses, self.references, seconds=limit, way=way)
                self.programs["meteor"] = meteor.program()
            else:
                found = spice.spice(hypotheses, self.references, seconds=limit)
                self.programs["spice"] = spice.program()
        except MissingExtraError as error:
            if self.options.metrics:
                raise
            self.missing[metric] = str(error)
        except NaicError as error:
            self.failed[metric] = str(error)
        else:
            return [found]
        return []


def _intervals(system: System, options: EvaluateOptions) -> dict[str, tuple[float, float]]:
    if not options.bootstrap or not system.scores or len(system.captions) < FEWEST_IMAGES:
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
    if len(system.captions) < FEWEST_IMAGES:
        pairs = zip(ours, theirs, strict=True)
        return {a.name: Difference(a.value - b.value) for a, b in pairs}
    found = differences(ours, theirs, times=options.bootstrap, seed=options.seed)
    return dict(zip(both, found, strict=True))


def _human(references: list[list[str]]) -> Habits:
    every = habits([sentence for own in references for sentence in own])
    return replace(every, vocabulary=habits([own[0] for own in references]).vocabulary)
