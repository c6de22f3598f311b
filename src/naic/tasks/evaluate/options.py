"""The options of `naic evaluate`."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from tyro.conf import Positional, arg

from naic.data.records import CaptionReader
from naic.errors import ConfigError
from naic.files import printable, what_is

Metric = Literal["Bleu", "METEOR", "ROUGE_L", "CIDEr", "SPICE"]
# In the order in which papers print them, with the public evaluation's names.
NAMES = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr", "SPICE")
SLOW: tuple[Metric, ...] = ("METEOR", "SPICE")
FEWEST_RESAMPLES, MOST_RESAMPLES = 100, 1_000_000
TEST = "test"  # the split whose evaluations are logged
COMMITTED = Path("docs/results/test-evaluations.jsonl")
ELSEWHERE = Path("test-evaluations.jsonl")
LONGEST_JAVA = 1e6  # seconds; a clock cannot be set to any number


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What to score against what, and where to put the figures; the command line fills it in.

    Attributes:
        results: The captions, as COCO's server takes them: [{"image_id": 42, "caption": "..."}].
        references: The human captions: a dataset in any format that `naic prepare` reads, or a
            feature store that it made. No image is needed.
        split: Score the images of these splits, such as: val.
        reader: How --references is to be read; by default it is found out.
        json: Write all figures to this file.
        csv: Write the scores to this file.
        per_image: Write the scores of each image to this file, .jsonl or .csv.
        html: Write a page to this file: captions, references and scores of each image, the worst
            first, to be searched and sorted in a browser.
        images: Show the images on the page of --html, from these folders; with --embed they may
            be uncompressed tars too.
        embed: Put small copies of the images into the page, instead of links to their files.
        against: Captions of another system for the same images, to be compared in pairs.
        also: Captions of further systems for the same images, to be scored beside the others.
        metrics: Only these scores; by default all. One that cannot be had is then an error.
        fast: Leave out METEOR and SPICE, which take longer than all the others together.
        meteor: METEOR as naic has it, or by the reference program in Java; the scores are equal.
        java_seconds: The time limit of SPICE, and of METEOR in Java; by default it grows with the
            number of images.
        subset: Score only the images that have a caption, instead of refusing.
        df: Take CIDEr's document frequencies from this dataset instead of the evaluated images.
        df_split: Count the document frequencies in these splits, such as: train restval.
        bootstrap: How many resampled sets of images the 95 % intervals come from; 0 for none.
        seed: Which resampled sets.
        scenes_seed: Which scenes, where --references or --df is a number of scenes of shapes.
        skip_bad: Leave bad rows of the dataset out and count them, instead of stopping.
        log: Where an evaluation on the split test is noted, a line for each scored file; by
            default docs/results/test-evaluations.jsonl if the current folder has it, else
            test-evaluations.jsonl.
        why: Why you evaluate on the split test, as a note for that log.
    """

    results: Annotated[Positional[Path], arg(metavar="RESULTS.json")]
    references: Annotated[str, arg(metavar="PATH")]
    split: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    reader: CaptionReader | None = None
    json: Annotated[Path | None, arg(metavar="FILE")] = None
    csv: Annotated[Path | None, arg(metavar="FILE")] = None
    per_image: Annotated[Path | None, arg(metavar="FILE")] = None
    html: Annotated[Path | None, arg(metavar="FILE")] = None
    images: Annotated[tuple[Path, ...], arg(metavar="DIR ...")] = ()
    embed: bool = False
    against: Annotated[Path | None, arg(metavar="OTHER.json")] = None
    also: Annotated[tuple[Path, ...], arg(metavar="MORE.json ...")] = ()
    metrics: Annotated[
        tuple[Metric, ...], arg(metavar=f"{{{','.join(get_args(Metric))}}} ...")
    ] = ()
    fast: bool = False
    meteor: Literal["python", "java"] = "python"
    java_seconds: float | None = None
    subset: bool = False
    df: Annotated[str | None, arg(metavar="PATH")] = None
    df_split: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    bootstrap: int = 1000
    seed: int = 0
    scenes_seed: int = 0
    skip_bad: bool = False
    log: Annotated[Path | None, arg(metavar="FILE")] = None
    why: Annotated[str, arg(metavar="TEXT")] = ""

    def check(self) -> None:
        """Refuse what cannot be, before minutes of work."""
        self._check_numbers()
        for option, source in (("--references", self.references), ("--df", self.df)):
            if source is not None and not source.strip():
                raise ConfigError(option, "the path is empty", "Name a dataset.")
        if self.against is not None and self.bootstrap == 0:
            why = "the comparison is made by resampling, and --bootstrap is 0"
            raise ConfigError("--against", why, "Leave out --bootstrap.")
        if self.fast and (slow := set(SLOW) & set(self.metrics)):
            why = f"it leaves out {' and '.join(sorted(slow))}, which --metrics asks for"
            raise ConfigError("--fast", why, "Give one of the two.")
        if self.df is None and self.df_split:
            raise ConfigError("--df-split", "there is no --df", "Name the dataset with --df.")
        if self.df is not None and "CIDEr" not in self.wanted:
            why = "document frequencies are for CIDEr, which --metrics leaves out"
            raise ConfigError("--df", why, "Leave it out, or add CIDEr.")
        if self.per_image is not None and self.per_image.suffix.lower() not in (".jsonl", ".csv"):
            why = f"the name {printable(self.per_image.name)!r} ends in neither .jsonl nor .csv"
            raise ConfigError("--per-image", why, "Name the file as what it shall be.")
        self._check_html()
        self._check_log()
        self._check_outputs()

    def _check_html(self) -> None:
        """What only a page can show is asked for with a page; a photo is not overwritten by it."""
        for option, given in (("--images", bool(self.images)), ("--embed", self.embed)):
            if given and self.html is None:
                why = "pictures are shown on the page of --html, and there is none"
                raise ConfigError(option, why, "Add --html FILE.")
        if self.embed and not self.images:
            hint = "Name their folder with --images."
            raise ConfigError("--embed", "there are no images to put into the page", hint)
        if self.html is not None and self.html.suffix.lower() not in (".html", ".htm"):
            why = f"the name {printable(self.html.name)!r} ends in neither .html nor .htm"
            raise ConfigError("--html", why, "A browser goes by the name.")

    def _check_log(self) -> None:
        """What would not be logged is not asked for."""
        for option, given in (("--log", self.log is not None), ("--why", bool(self.why))):
            if given and self.split and not names_test(self.split):
                why = f"only evaluations on the split {TEST!r} are logged"
                raise ConfigError(option, why, f"Leave it out, or score --split {TEST}.")

    def _check_numbers(self) -> None:
        if self.bootstrap != 0 and self.bootstrap < FEWEST_RESAMPLES:
            why = f"{self.bootstrap} resampled sets tell nothing about 95 %"
            raise ConfigError("--bootstrap", why, f"Take 0, or {FEWEST_RESAMPLES} or more.")
        if self.bootstrap > MOST_RESAMPLES:
            why = f"{self.bootstrap} resampled sets would take for ever"
            raise ConfigError("--bootstrap", why, f"Take at most {MOST_RESAMPLES}.")
        if self.seed < 0:
            raise ConfigError("--seed", f"{self.seed} is negative", "Take 0 or more.")
        if self.java_seconds is not None and not 0 < self.java_seconds <= LONGEST_JAVA:
            why = f"{self.java_seconds:g} seconds are no time limit"
            hint = f"Take more than 0, and at most {LONGEST_JAVA:.0f}."
            raise ConfigError("--java-seconds", why, hint)

    def _check_outputs(self) -> None:
        """What cannot be written, or would overwrite an input, is seen at once."""
        used = [("RESULTS", self.results), ("--references", Path(self.references))]
        used += [("--against", self.against)] if self.against else []
        used += [("--also", path) for path in self.also]
        used += [("--df", Path(self.df))] if self.df else []
        log = [("--log", self.log)] if self.log else []
        for option, path in [*self.outputs, *log]:
            _check_output(option, path)
            for other, taken in used:
                if _same(path, taken):
                    why = f"{printable(str(path))} is {other} too"
                    raise ConfigError(option, why, "Write to a file of its own.")
                if what_is(taken) == "folder" and _real(path).is_relative_to(_real(taken)):
                    why = f"{printable(str(path))} would be within {other}"
                    raise ConfigError(option, why, "Write to a folder that is no dataset.")
            used.append((option, path))

    @property
    def outputs(self) -> list[tuple[str, Path]]:
        """The files to write, each with its option."""
        named = (("--json", self.json), ("--csv", self.csv), ("--per-image", self.per_image))
        every = (*named, ("--html", self.html))
        return [(option, path) for option, path in every if path is not None]

    @property
    def files(self) -> list[Path]:
        """The files of captions, RESULTS first."""
        return [self.results, *([] if self.against is None else [self.against]), *self.also]

    @property
    def wanted(self) -> tuple[Metric, ...]:
        """The metrics to compute, each once."""
        if self.metrics:
            return tuple(dict.fromkeys(self.metrics))
        every: tuple[Metric, ...] = get_args(Metric)
        return tuple(metric for metric in every if not (self.fast and metric in SLOW))


def default_log() -> Path:
    """The committed log where the current folder is a checkout with one, else one of its own."""
    return COMMITTED if COMMITTED.is_file() else ELSEWHERE


def names_test(splits: Sequence[str]) -> bool:
    """Whether one of these splits is a test split."""
    return any(split.casefold() == TEST for split in splits)


def check_log(log: Path | None) -> None:
    """Refuse a log that cannot be written, before minutes or hours of work."""
    _check_output("--log", log or default_log())


def _check_output(option: str, path: Path) -> None:
    name, folder = printable(str(path)), _real(path).parent
    if path == Path():  # also what an empty string becomes
        raise ConfigError(option, "the path is empty", "Name a file.")
    if (found := what_is(path)) not in ("file", "missing"):
        why = f"{name} is a folder" if found == "folder" else f"{name} is no regular file"
        raise ConfigError(option, why, "Name a file.")
    if what_is(folder) != "folder":
        why = f"the folder {printable(str(path.parent))} does not exist"
        raise ConfigError(option, why, "Make it, or choose another.")
    if not os.access(folder, os.W_OK | os.X_OK):
        why = f"the folder {printable(str(path.parent))} cannot be written to"
        raise ConfigError(option, why, "Choose another, or change its permissions.")


def _real(path: Path) -> Path:
    """The path with all links followed; unlike `resolve` it bears a link to itself."""
    return Path(os.path.realpath(path))


def _same(one: Path, other: Path) -> bool:
    """Whether both are one file, however they are spelt."""
    try:
        return one.samefile(other)
    except OSError:  # one is not there, or not to be had
        return _real(one) == _real(other)
