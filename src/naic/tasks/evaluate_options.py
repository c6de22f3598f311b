"""The options of `naic evaluate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, get_args

from tyro.conf import Positional, arg

from naic.data.readers.detect import CaptionReader
from naic.errors import ConfigError

Metric = Literal["Bleu", "METEOR", "ROUGE_L", "CIDEr", "SPICE"]
# In the order in which papers print them, with the public evaluation's names.
NAMES = ("Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4", "METEOR", "ROUGE_L", "CIDEr", "SPICE")
JAVA: tuple[Metric, ...] = ("METEOR", "SPICE")
FEWEST_RESAMPLES = 100


@dataclass(frozen=True, slots=True)
class EvaluateOptions:
    """What to score against what, and where to put the figures; the command line fills it in.

    Attributes:
        results: The captions, as COCO's server takes them: [{"image_id": 42, "caption": "..."}].
        references: The human captions: a dataset in any format that `naic prepare` reads, or a
            feature store that it made. No picture is needed.
        split: Score the images of these splits, such as: val.
        reader: How --references is to be read; by default it is found out.
        json: Write all figures to this file.
        csv: Write the scores to this file.
        per_image: Write the scores of each image to this file, .jsonl or .csv.
        against: Captions of another system for the same images, to be compared in pairs.
        metrics: Only these scores; by default all. One that cannot be had is then an error.
        fast: Leave out METEOR and SPICE, which need Java and take minutes.
        subset: Score only the images that have a caption, instead of refusing.
        df: Take CIDEr's document frequencies from this dataset instead of the evaluated images.
        df_split: Count the document frequencies in these splits, such as: train restval.
        bootstrap: How many resampled sets of images the 95 % intervals come from; 0 for none.
        seed: Which resampled sets.
        scenes_seed: Which scenes, where --references is a number of scenes of shapes.
        skip_bad: Leave bad rows of the dataset out and count them, instead of stopping.
    """

    results: Annotated[Positional[Path], arg(metavar="RESULTS.json")]
    references: Annotated[str, arg(metavar="PATH")]
    split: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    reader: CaptionReader | None = None
    json: Annotated[Path | None, arg(metavar="FILE")] = None
    csv: Annotated[Path | None, arg(metavar="FILE")] = None
    per_image: Annotated[Path | None, arg(metavar="FILE")] = None
    against: Annotated[Path | None, arg(metavar="OTHER.json")] = None
    metrics: Annotated[
        tuple[Metric, ...], arg(metavar=f"{{{','.join(get_args(Metric))}}} ...")
    ] = ()
    fast: bool = False
    subset: bool = False
    df: Annotated[str | None, arg(metavar="PATH")] = None
    df_split: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    bootstrap: int = 1000
    seed: int = 0
    scenes_seed: int = 0
    skip_bad: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before minutes of work."""
        if self.bootstrap != 0 and self.bootstrap < FEWEST_RESAMPLES:
            why = f"{self.bootstrap} resampled sets tell nothing about 95 %"
            raise ConfigError("--bootstrap", why, f"Take 0, or {FEWEST_RESAMPLES} or more.")
        if self.against is not None and self.bootstrap == 0:
            why = "the comparison is made by resampling, and --bootstrap is 0"
            raise ConfigError("--against", why, "Leave out --bootstrap.")
        if self.seed < 0:
            raise ConfigError("--seed", f"{self.seed} is negative", "Take 0 or more.")
        if self.fast and (slow := set(JAVA) & set(self.metrics)):
            why = f"it leaves out {' and '.join(sorted(slow))}, which --metrics asks for"
            raise ConfigError("--fast", why, "Give one of the two.")
        if self.df is None and self.df_split:
            raise ConfigError("--df-split", "there is no --df", "Name the dataset with --df.")
        if self.per_image is not None and self.per_image.suffix not in (".jsonl", ".csv"):
            why = f"{self.per_image.suffix or 'a nameless suffix'} is no format for it"
            raise ConfigError("--per-image", why, "Name the file .jsonl or .csv.")
        self._check_outputs()

    def _check_outputs(self) -> None:
        """A folder that is not there, or an input that would be overwritten, is seen at once."""
        used = {self.results.absolute(), Path(self.references).absolute()}
        used |= {self.against.absolute()} if self.against else set()
        for option, path in (
            ("--json", self.json),
            ("--csv", self.csv),
            ("--per-image", self.per_image),
        ):
            if path is None:
                continue
            if path.absolute() in used:
                why = f"{path} is named twice"
                raise ConfigError(option, why, "Write to a file of its own.")
            used.add(path.absolute())
            if not path.absolute().parent.is_dir():
                why = f"the folder {path.parent} does not exist"
                raise ConfigError(option, why, "Make it, or choose another.")

    @property
    def wanted(self) -> tuple[Metric, ...]:
        """The metrics to compute."""
        if self.metrics:
            return self.metrics
        every: tuple[Metric, ...] = get_args(Metric)
        return tuple(metric for metric in every if not (self.fast and metric in JAVA))
