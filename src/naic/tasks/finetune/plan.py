"""The options of `naic finetune`, and what it is about to learn: images, held-out ones, words."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

from tyro.conf import Positional, arg

from naic.data.readers import Reading, read
from naic.data.readers.captions import detect
from naic.data.records import Problems, ReaderName, Record
from naic.errors import ConfigError, DataError, Problem, VocabularyError
from naic.progress import SILENT, Callbacks
from naic.tasks.finetune.own_style import without_style
from naic.text import MAX_IDS, Vocabulary, tokenise
from naic.text.style import Style


@dataclass(frozen=True, slots=True)
class FinetuneOptions:
    """Whose captions, which model, and how long; the command line fills it in.

    Attributes:
        captions: A table (CSV, TSV or JSONL) with the columns image, caption and perhaps split, or
            as `naic caption` writes it; or any other dataset that `naic prepare` reads.
        out: The folder for the tuned model (DIR/best) and its scores; the same command goes on
            with a run that was cut off.
        images: Folders or .tar files with the images, when they do not lie beside CAPTIONS.
        model: The folder of the model to begin with; by default the model inside naic.
        reader: How CAPTIONS is to be read; left out, it is told from the file.
        epochs: How often each image is learnt from; left out, a number that suits how many images
            there are.
        learning_rate: The highest one; left out, one that suits how many images there are.
        batch: Images in a step.
        style: Look for a style: a fixed beginning, words left out, capitals. It is kept beside the
            weights, and the weights learn the rest.
        new_words: A word that MODEL does not know is learnt if it comes this often in the captions
            to learn from; 0 learns none.
        seed: Which images are held out, if CAPTIONS has no split, and the order of the others.
        device: auto, cpu or cuda.
        skip_bad: Leave bad rows of CAPTIONS out and count them, instead of naming all and stopping.
        keep_work: Keep DIR/work (features, both stages, checkpoints) when all is done.
        dry_run: Say what would be done and write nothing.
    """

    captions: Annotated[Positional[str], arg(metavar="CAPTIONS")]
    out: Annotated[Path, arg(metavar="DIR")]
    images: Annotated[tuple[Path, ...], arg(metavar="PATH ...")] = ()
    model: Annotated[Path | None, arg(metavar="DIR")] = None
    reader: ReaderName | None = None
    epochs: Annotated[int | None, arg(metavar="INT")] = None
    learning_rate: Annotated[float | None, arg(metavar="FLOAT")] = None
    batch: int = 16
    style: bool = True
    new_words: int = 3
    seed: int = 1
    device: str = "auto"
    skip_bad: bool = False
    keep_work: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        if self.epochs is not None and self.epochs < 1:
            raise ConfigError("--epochs", f"{self.epochs} is below 1", "Leave it out, or try 10.")
        if self.learning_rate is not None and not 0 < self.learning_rate <= 0.1:
            why = f"{self.learning_rate} is not above 0 and up to 0.1"
            raise ConfigError("--learning-rate", why, "Leave it out, or try 1e-4.")
        for option, value, least in (
            ("--batch", self.batch, 1),
            ("--new-words", self.new_words, 0),
            ("--seed", self.seed, 0),
        ):
            if value < least:
                raise ConfigError(option, f"{value} is below {least}", "Leave it out.")


TRAIN, HELD_OUT = "train", "val"
LEARNT_FROM = ("", "train", "training", "restval")  # names that tables give to splits
_HELD_OUT = ("val", "valid", "validation", "dev")
_LEFT_OUT = ("test", "testing")  # any other is a slip of the pen
FEWEST = 10  # images: of fewer, nothing could be said about those that were held out
_IMAGES_SEEN = 3000  # in all, whatever their number; few images come more often
_FEWEST_EPOCHS, _MOST_EPOCHS = 3, 20
# docs/results/finetune.md: what these were chosen by.
_MANY, _RATE_OF_FEW, _RATE_OF_MANY = 500, 2e-4, 3e-4


@dataclass(frozen=True, slots=True)
class FinetunePlan:
    """What would be done.

    Attributes:
        reader: how the captions were read.
        reading: images with captions, each in the split "train" or "val".
        left_out: images without captions, or of other splits.
        own_split: whether the source itself says which images are held out.
        new_words: words that the model will learn to say, the most frequent first.
        unknown: other words of the captions that it does not know.
        epochs: how often each image is learnt from.
        learning_rate: the highest one.
        batch: images in a step.
        problems: rows that could not be used.
    """

    reader: ReaderName
    reading: Reading
    left_out: int
    own_split: bool
    new_words: tuple[str, ...]
    unknown: tuple[str, ...]
    epochs: int
    learning_rate: float
    batch: int
    problems: list[Problem]

    @property
    def learnt_from(self) -> int:
        """How many images are learnt from."""
        return self.reading.splits[TRAIN]

    @property
    def held_out(self) -> int:
        """How many images the model is judged by."""
        return self.reading.splits[HELD_OUT]

    @property
    def digest(self) -> str:
        """SHA-256 of the images' names, splits and captions: another table is another run."""
        state = hashlib.sha256()
        for record in self.reading.records:
            state.update(repr((record.id, record.split, record.captions)).encode())
        return state.hexdigest()


class OwnCaptions(NamedTuple):
    """What was read: how, the whole source, and what could not be used of it."""

    reader: ReaderName
    whole: Reading
    problems: list[Problem]


def read_own_captions(options: FinetuneOptions, callbacks: Callbacks = SILENT) -> OwnCaptions:
    """Read the captions to learn from; no model is needed for that.

    Raises:
        DataError: they cannot be read, or some cannot be used; all of these are told of.
        ConfigError: they are a feature store.
    """
    reader = options.reader or detect(options.captions)
    if reader == "store":
        why = "it is a feature store, and the model makes features of its own"
        raise ConfigError(options.captions, why, "Name the captions that it was made from.")
    problems = Problems(skip=options.skip_bad, warn=callbacks.problem)
    whole = read(
        reader,
        options.captions,
        images=options.images,
        problems=problems,
        seed=options.seed,
        look=True,
        known_splits=(*LEARNT_FROM, *_HELD_OUT, *_LEFT_OUT),
    )
    share_out(whole.records, options)  # too few images, or none to learn from, is told at once
    return OwnCaptions(reader, whole, problems.items)


def make_plan(
    options: FinetuneOptions, given: OwnCaptions, known: Vocabulary, style: Style | None = None
) -> FinetunePlan:
    """Choose the images to hold out, and count words.

    With a style, the captions to learn from are without what it puts around a sentence.
    """
    whole = given.whole
    records, own_split = share_out(whole.records, options)
    records = without_style(records, style)
    learnt = [text for r in records if r.split == TRAIN for text in r.captions]
    new_words, unknown = strange_words(learnt, known, options.new_words)
    images = sum(record.split == TRAIN for record in records)
    return FinetunePlan(
        reader=given.reader,
        reading=replace(
            whole,
            records=records,
            captions=sum(len(record.captions) for record in records),
            unlabelled=0,
            splits=Counter(record.split for record in records),
        ),
        left_out=len(whole.records) - len(records),
        own_split=own_split,
        new_words=new_words,
        unknown=unknown,
        epochs=options.epochs or default_epochs(images),
        learning_rate=options.learning_rate or (_RATE_OF_MANY if images >= _MANY else _RATE_OF_FEW),
        batch=min(options.batch, images),
        problems=given.problems,
    )


def share_out(records: Sequence[Record], options: FinetuneOptions) -> tuple[list[Record], bool]:
    """The images with captions, in "train" or "val", and whether the source chose them.

    Where it did not, the images to hold out are those with the smallest digests: the same
    whenever the command is given again, and hardly other ones when a few images are added.

    Raises:
        DataError: they are too few.
        ConfigError: no image is in a split to learn from.
    """
    usable = [r for r in records if r.captions and r.split in (*LEARNT_FROM, *_HELD_OUT)]
    if not usable and any(record.captions for record in records):
        why = f"its splits are {', '.join(sorted({repr(record.split) for record in records}))}"
        raise ConfigError(options.captions, why, "Call the one to learn from train.")
    if len(usable) < FEWEST:
        why = f"{len(usable)} images with captions are too few to learn from"
        raise DataError(options.captions, why, f"Give {FEWEST} at least; 50 are a beginning.")
    chosen = {record.id for record in usable if record.split in _HELD_OUT}
    own_split = bool(chosen)
    if not own_split:
        ranks = {r.id: hashlib.sha256(f"{options.seed}/{r.id}".encode()).digest() for r in usable}
        in_order = sorted(usable, key=lambda record: ranks[record.id])
        chosen = {record.id for record in in_order[: how_many_held_out(len(usable))]}
    if len(chosen) == len(usable):
        why = "all of its images are held out for validation"
        raise ConfigError(options.captions, why, "Put some into a split called train.")
    shared = [replace(r, split=HELD_OUT if r.id in chosen else TRAIN) for r in usable]
    return shared, own_split


def how_many_held_out(images: int) -> int:
    """A tenth, but ten of fifty: CIDEr of a handful says little. Never more than a thousand."""
    return min(1000, max(images // 10, min(10, images // 5)))


def default_epochs(images: int) -> int:
    """Few images come often, many a few times."""
    return min(_MOST_EPOCHS, max(_FEWEST_EPOCHS, _IMAGES_SEEN // images))


def strange_words(
    captions: Sequence[str], known: Vocabulary, often: int
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Words that are not known: those to learn, seen `often` or more, and the others."""
    counts = Counter(word for caption in captions for word in tokenise(caption))
    strange = sorted((-n, word) for word, n in counts.items() if word not in known)
    learnt = [word for n, word in strange if often and -n >= often]
    if len(known) + len(learnt) > MAX_IDS:
        why = f"{len(learnt):,} words are new, and there is room for {MAX_IDS - len(known):,}"
        raise VocabularyError("--new-words", why, f"Raise it above {often}.")
    return tuple(learnt), tuple(word for _, word in strange if word not in {*learnt})
