"""Records: what a reader finds, and what cannot be used of it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from PIL.Image import Image

from naic.errors import DataError, ImageError, Problem
from naic.files import printable
from naic.images.formats import without_suffix
from naic.resume import Warn

if TYPE_CHECKING:  # captions alone are read without it
    from naic.images.sources import ImageSource

ReaderName = Literal["karpathy", "coco", "flickr8k", "table", "folder", "shapes"]
READER_NAMES: tuple[ReaderName, ...] = get_args(ReaderName)
# What captions can be read with: the readers of images, and a finished feature store.
CaptionReader = Literal[ReaderName, "store"]
PLACES_SHOWN = 5  # of each kind of problem


@dataclass(frozen=True, slots=True)
class Record:
    """An image, the captions people gave it, and the split it belongs to."""

    id: str
    image: "ImageSource"
    captions: tuple[str, ...] = ()  # empty: an unlabelled image
    split: str = ""  # empty: the source names no split
    facts: Mapping[str, object] | None = None  # what is truly in the image, where it is known


def _ignore(_: Problem) -> None:
    """Nobody wants to know."""


class Problems:
    """Gathers bad rows: all are told of at once, or they are left out, and named in the report.

    `warn` hears of what can be used, but may not be what was meant; once for a source.
    """

    def __init__(self, *, skip: bool = False, warn: Warn = _ignore) -> None:
        self.skip = skip
        self.items: list[Problem] = []
        self._warn = warn
        self._warned: set[str] = set()

    def add(self, where: str, why: str, hint: str, kind: str = "") -> None:
        """Note a bad row; for `kind` see `Problem`."""
        self.items.append(Problem(where, why, hint, kind))

    def warn(self, problem: Problem) -> None:
        """Pass on what may not be meant; of each kind the first only."""
        if problem.kind not in self._warned:
            self._warned.add(problem.kind)
            self._warn(problem)

    def refuse(self, source: str) -> None:
        """Tell of all bad rows at once, unless they are to be left out.

        Raises:
            DataError: there are some.
        """
        if self.skip or not self.items:
            return
        first = self.items[0]
        if len(self.items) == 1:
            hint = f"{first.hint} Or pass --skip-bad to leave such rows out."
            raise DataError(first.where, first.why, hint)
        hint = "Mend them, or pass --skip-bad to leave such rows out."
        raise DataError(printable(source), _all_of_them(self.items, source), hint)


def _all_of_them(items: Sequence[Problem], source: str) -> str:
    """All problems by their kinds; of a kind that is frequent, the first ones."""
    kinds: dict[str, list[Problem]] = {}
    for problem in items:
        kinds.setdefault(problem.kind or problem.why, []).append(problem)
    file = f"{printable(Path(source).name)}, "  # all places begin with it
    of_kinds = "all of one kind" if len(kinds) == 1 else f"of {len(kinds)} kinds"
    lines = [f"{len(items):,} things in it cannot be used, {of_kinds}"]
    for kind_, own in kinds.items():
        lines.append(f"  {len(own):,} x {kind_}. {own[0].hint}")
        for problem in own[:PLACES_SHOWN]:
            why = f": {problem.why}" if problem.kind else ""
            lines.append(f"      {problem.where.removeprefix(file)}{why}")
        if len(own) > PLACES_SHOWN:
            lines.append(f"      and {len(own) - PLACES_SHOWN:,} more")
    return "\n".join([*lines, "Nothing was done"])


@dataclass(slots=True)
class Entry:
    """An image as its source describes it; nothing in it has been checked yet."""

    where: str  # the place in the source, as a person would count it
    id: str
    names: Sequence[str] = ()  # what the image file may be called, the likeliest name first
    captions: Sequence[tuple[str, object]] = ()  # each with its own place in the source
    split: str = ""
    split_where: str = ""  # the place that names the split, if it is another
    image: "ImageSource | None" = None  # for readers that meet the image itself
    facts: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class UnseenImage:
    """The image of a record that was read for its captions alone."""

    name: str

    def load(self, at_least: int | None = None) -> Image:
        """Always raises ImageError: nobody looked where the image is."""
        why = "the dataset was read without its images"
        raise ImageError(printable(self.name), why, "Read it with them.")

    def describe(self) -> None:
        """Nothing."""


def is_text(text: str) -> bool:
    """Whether the text can be written as UTF-8.

    Undecodable bytes are read as lone surrogates, which JSON may also spell out by escapes.
    """
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def kind(value: object) -> str:
    """What a JSON value is, in JSON's words."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true or false"
    if isinstance(value, int | float):
        return "a number"
    if isinstance(value, str):
        return "a string"
    return "a list" if isinstance(value, list) else "an object"


def short_names(names: Sequence[str]) -> dict[str, str]:
    """An id for each path: without its suffix, unless that would name two images at once."""
    stems = {name: without_suffix(name) for name in names}
    count: dict[str, int] = {}
    for stem in [*stems.values(), *names]:
        count[stem] = count.get(stem, 0) + 1
    return {name: stem if count[stem] == 1 else name for name, stem in stems.items()}
