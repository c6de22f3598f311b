"""The options of `naic caption`."""

import math
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, get_args

from tyro.conf import Positional, arg
from tyro.constructors import PrimitiveConstructorSpec

from naic.errors import ConfigError
from naic.files import printable
from naic.text.neutral import SAID
from naic.text.tokeniser import single_words

if TYPE_CHECKING:  # numpy, too, is not needed to read a command line
    from naic.decode.wishes import Wishes

STDIN = "-"  # as a path: a list of names on standard input
MOST_ALTERNATIVES = 100
CHOICES, MOST_CHOICES = 10, 100  # sentences to rescore; as naic.runtime.rescore has it
MOST_AT_ONCE = 4096  # as the captioner has it, which is not imported for this

Format = Literal["text", "json", "jsonl", "csv", "txt", "coco"]
Existing = Literal["skip", "overwrite", "append"]
Write = Literal["xmp", "exif"]
Runtime = Literal["auto", "eager", "compile", "graph", "onnx"]
Precision = Literal["auto", "float32", "bfloat16", "float16", "int8"]

# What the end of an --out says of its format; any other says nothing.
_SUFFIXES: dict[str, tuple[Format, ...]] = {
    ".json": ("json", "coco"),
    ".jsonl": ("jsonl",),
    ".csv": ("csv",),
}
_FOR_UNDO = ("paths", "write", "undo", "recursive", "null")
_OTHER_NAME = "Leave --format away, or name another file."


def path_word(option: str) -> PrimitiveConstructorSpec[Path]:
    """How a path is read from the command line: an empty word is refused.

    It is what a shell makes of "$UNSET", and as a Path it would be the current folder.
    """

    def read(words: list[str]) -> Path:
        if not words[0]:
            hint = "If it came from a variable of the shell, that is not set."
            raise ConfigError(option, "it is empty", hint)
        return Path(words[0])

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH",
        instance_from_str=read,
        is_instance=lambda value: isinstance(value, Path),
        str_from_instance=lambda path: [str(path)],
    )


def choices_of(kind: object) -> str:
    """How the help shows them; by itself it would name None among them."""
    return f"{{{','.join(get_args(kind))}}}"


_Image = Annotated[Path, path_word("PATH")]
_Model = Annotated[Path, path_word("--model")]
_Teacher = Annotated[Path, path_word("--rescore")]
_Out = Annotated[Path, path_word("--out")]


@dataclass(frozen=True, slots=True)
class CaptionOptions:
    """Which images, which model, and where its captions go; the command line fills it in.

    Attributes:
        paths: Images; folders; patterns such as 'photos/**/*.jpg', in quotes where the shell
            has none; or - for a list of names on standard input, one a line.
        model: A model folder, a file or folder of `naic export`, or an owner/name of the hub; by
            default the model inside naic.
        rescore: A causal model, the teacher of a parallel one, that chooses which of its likeliest
            sentences is said: in one pass, from the same look at the image.
        rescore_choices: How many sentences it chooses from.
        rescore_weight: What the model's own opinion counts beside the teacher's, as a factor of the
            logarithm of its probability.
        format: text, a line for each image; json, one array; jsonl, an object a line; csv; txt,
            a file photo.txt beside each photo.jpg; coco, what COCO's evaluation server takes. By
            default what --out ends in, .json, .jsonl or .csv, and text otherwise.
        out: The file for the captions, which are printed by default; of --format txt a folder that
            takes the files, in folders as the images are.
        write: Put the captions where other programs read them: xmp, a file photo.xmp beside each
            photo; exif, into the photo itself, by ExifTool. With --existing overwrite also where a
            person has written something.
        undo: Take back what --write wrote, and nothing else; no model is loaded. Without --write,
            from XMP files and from photos.
        existing: What to do where captions are already. skip: caption only the images that have
            none; overwrite; append: keep those and add to them. By default, skip with --format txt
            and --write, and an --out that is there is refused.
        recursive: Take the images beneath a folder too, not only those in it.
        null: The names on standard input end in NUL, as of find -print0.
        prefix: Text to put before each caption.
        suffix: Text to put after each caption.
        alternatives: Give the likeliest N sentences; the first is the caption itself.
        confidence: Show how likely the caption is to be right, or of a model without a calibration
            the probability of the sentence; and the probability of each word.
        max_words: Cut longer captions, at a word that can end a sentence.
        max_chars: The same for captions of more characters, with what --prefix and --suffix put
            around them: alt text is often limited to 125.
        min_confidence: Leave out captions that the model is less sure of, from 0 to 1: no caption
            is written, and the image is named on standard error.
        forbid: Words that are not said, such as "man,woman": the likeliest sentence without them
            is. Each form of a word is a word of its own.
        prefer: Words that are said rather than others, where the model considers them.
        neutral: Say person, people, child and the like instead of guessing a gender.
        style: Write captions in the style of the model, if it has learnt one.
        device: auto, cpu, cuda or cuda:N.
        runtime: How the model is run; auto takes a CUDA graph on a GPU, and on a processor ONNX
            Runtime, or PyTorch (eager) for a model folder without a graph.
        precision: In which numbers; auto takes float16 for a CUDA graph, and on a processor int8
            where there is such a graph. float32 is exact, and slower.
        batch: How many images are captioned at once.
    """

    paths: Annotated[Positional[tuple[_Image, ...]], arg(metavar="PATH ...")]
    model: Annotated[_Model | None, arg(metavar="MODEL")] = None
    rescore: Annotated[_Teacher | None, arg(metavar="TEACHER")] = None
    rescore_choices: Annotated[int, arg(metavar="N")] = CHOICES
    rescore_weight: Annotated[float, arg(metavar="W")] = 0.0
    format: Annotated[
        Format | None, arg(metavar=choices_of(Format), help_behavior_hint="(default: by --out)")
    ] = None
    out: Annotated[_Out | None, arg(metavar="PATH")] = None
    write: Annotated[Write | None, arg(metavar=choices_of(Write))] = None
    undo: bool = False
    existing: Annotated[Existing | None, arg(metavar=choices_of(Existing))] = None
    recursive: bool = True
    null: bool = False
    prefix: str = ""
    suffix: str = ""
    alternatives: Annotated[int, arg(metavar="N")] = 0
    confidence: bool = False
    max_words: Annotated[int | None, arg(metavar="N")] = None
    max_chars: Annotated[int | None, arg(metavar="N")] = None
    min_confidence: Annotated[float | None, arg(metavar="P")] = None
    forbid: Annotated[str, arg(metavar="WORDS")] = ""
    prefer: Annotated[str, arg(metavar="WORDS")] = ""
    neutral: bool = False
    style: bool = True
    device: str = "auto"
    runtime: Runtime = "auto"
    precision: Precision = "auto"
    batch: int = 16

    @property
    def kind(self) -> Format:
        """The format: the one that was asked for, or that the name of the output tells."""
        if self.format is not None:
            return self.format
        return _SUFFIXES.get(self._suffix, ("text",))[0]

    def wishes(self) -> "Wishes":
        """What is wished of the words; no longer than what is put around them leaves room for."""
        around = len(self.prefix) + len(self.suffix)
        return {
            "max_words": self.max_words,
            "max_chars": None if self.max_chars is None else self.max_chars - around,
            "forbid": self.forbid,
            "prefer": self.prefer,
            "neutral": self.neutral,
            "style": self.style,
        }

    @property
    def prints(self) -> bool:
        """Whether the captions go to standard output."""
        return self.out is None and self.kind != "txt" and not self.write and not self.undo

    @property
    def _suffix(self) -> str:
        return self.out.suffix.lower() if self.out else ""

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        if not self.paths:
            hint = "Name images, or folders of them: naic caption photo.jpg"
            raise ConfigError("PATH", "no image was named", hint)
        if self.null and Path(STDIN) not in self.paths:
            why = "it is about a list on standard input, and none is read"
            raise ConfigError("--null", why, f"Name {STDIN} among the paths.")
        self._check_numbers()
        if self.undo:
            self._check_undo()
        elif self.write is not None:
            self._check_write()
        else:
            self._check_output()
        for name, text in (("--prefix", self.prefix), ("--suffix", self.suffix)):
            try:
                text.encode()
            except UnicodeEncodeError:
                raise ConfigError(name, "it is not UTF-8 text", "Write it in UTF-8.") from None

    def _check_numbers(self) -> None:
        if self.batch < 1:
            raise ConfigError("--batch", f"{self.batch} is below 1", "Try 16.")
        if self.batch > MOST_AT_ONCE:
            raise ConfigError("--batch", f"{self.batch} is above {MOST_AT_ONCE}", "Try 16.")
        if not 0 <= self.alternatives <= MOST_ALTERNATIVES:
            why = f"{self.alternatives} is not from 0 to {MOST_ALTERNATIVES}"
            raise ConfigError("--alternatives", why, "Try 3.")
        if self.max_words is not None and self.max_words < 1:
            raise ConfigError("--max-words", f"{self.max_words} is below 1", "Try 8.")
        if self.min_confidence is not None and not 0 <= self.min_confidence <= 1:
            why = f"{self.min_confidence} is not from 0 to 1"
            raise ConfigError("--min-confidence", why, "Try 0.5.")
        self._check_rescoring()
        self._check_words()

    def _check_words(self) -> None:
        around = len(self.prefix) + len(self.suffix)
        if self.max_chars is not None and self.max_chars <= around:
            why = f"{self.max_chars} characters leave no room for a caption"
            why += f" beside the {around} of --prefix and --suffix" if around else ""
            raise ConfigError("--max-chars", why, "Try 125.")
        forbidden = single_words("--forbid", self.forbid)
        preferred = single_words("--prefer", self.prefer)
        if both := [word for word in preferred if word in forbidden]:
            why = f"{', '.join(both)} cannot be forbidden and preferred"
            raise ConfigError("--prefer", why, "Leave one of the two out.")
        if self.neutral and (said := [word for word in forbidden if word in SAID]):
            why = f"{', '.join(said)} is what --neutral says instead of other words"
            raise ConfigError("--forbid", why, "Leave one of the two out.")
        if preferred and self.rescore is not None:
            why = "with --rescore the teacher chooses, and has no word to prefer"
            raise ConfigError("--prefer", why, "Use one of the two; --forbid goes with both.")

    def _check_rescoring(self) -> None:
        choices, weight = self.rescore_choices, self.rescore_weight
        if self.rescore is None:
            for name, value, usual in (("choices", choices, CHOICES), ("weight", weight, 0.0)):
                if value != usual:
                    why = "it is about sentences that a teacher chooses from, and none is named"
                    raise ConfigError(f"--rescore-{name}", why, "Name one: --rescore TEACHER")
            return
        if not 1 <= choices <= MOST_CHOICES:
            why = f"{choices} is not from 1 to {MOST_CHOICES}"
            raise ConfigError("--rescore-choices", why, f"Try {CHOICES}.")
        if not 0 <= weight < math.inf:
            raise ConfigError("--rescore-weight", f"{weight} is no number from 0 on", "Try 0.3.")
        if self.alternatives > choices:
            why = f"{self.alternatives} are more than the {choices} that are rescored"
            raise ConfigError("--alternatives", why, "Raise --rescore-choices, or ask for fewer.")

    def _check_undo(self) -> None:
        """Refuse what is about captions that are made: none is."""
        for own in fields(self):
            if own.name not in _FOR_UNDO and getattr(self, own.name) != own.default:
                why = "--undo takes captions back, and makes none"
                raise ConfigError(f"--{own.name.replace('_', '-')}", why, "Leave it away.")

    def _check_write(self) -> None:
        """Refuse what metadata have no place for."""
        for name in ("format", "out", "alternatives", "confidence"):
            if getattr(self, name):
                why = "--write puts the captions, with their confidence, into metadata only"
                hint = "Leave it away, or give a second command without --write."
                raise ConfigError(f"--{name}", why, hint)
        if self.existing == "append":
            why = "a photo has one description, to which nothing is added"
            raise ConfigError("--existing append", why, "Use skip or overwrite.")
        for name, text in (("--prefix", self.prefix), ("--suffix", self.suffix)):
            if not text.isprintable():
                why = "it has a character that cannot be printed, which metadata cannot hold"
                raise ConfigError(name, why, "Leave that away.")

    def _check_output(self) -> None:
        """Refuse options that the format has no place for, rather than forget them."""
        if self.out == Path(STDIN):
            raise ConfigError("--out", f"{STDIN} is no file", "Leave --out away to print.")
        if self.kind == "txt" and self._suffix in (".txt", *_SUFFIXES):
            why = f"--format txt makes a folder of texts, and {self._suffix} is the end of a file"
            hint = "For one file leave --format away; for the texts name a folder."
            raise ConfigError(f"--out {printable(str(self.out))}", why, hint)
        if self.kind not in _SUFFIXES.get(self._suffix, (self.kind,)):
            why = f"its name says {self._suffix[1:]}, and --format {self.kind} was asked for"
            raise ConfigError(f"--out {printable(str(self.out))}", why, _OTHER_NAME)
        if self.existing and self.prints:
            why = "it is about files, and the captions are printed"
            raise ConfigError("--existing", why, "Name a file with --out, or use --format txt.")
        if self.existing == "skip" and self.kind == "text":
            why = "lines of text do not tell for sure which images they are of"
            raise ConfigError("--existing skip", why, "Use --format jsonl or csv.")
        if self.confidence and self.kind in ("txt", "coco"):
            why = f"--format {self.kind} has no place for it"
            raise ConfigError("--confidence", why, "Use --format jsonl or csv.")
        if self.alternatives and self.kind == "coco":
            why = "COCO's format has one caption for an image"
            raise ConfigError("--alternatives", why, "Use --format jsonl or csv.")
