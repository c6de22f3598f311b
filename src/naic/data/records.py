"""Records: what a reader finds, the checks that all readers share, and what cannot be used."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, get_args

from PIL.Image import Image

from naic.errors import DataError, ImageError, Problem
from naic.files import printable
from naic.images.formats import without_suffix

if TYPE_CHECKING:  # captions alone are read without it
    from naic.data.sources import ImageFinder
    from naic.images.sources import ImageSource

ReaderName = Literal["karpathy", "coco", "flickr8k", "table", "folder", "shapes"]
READER_NAMES: tuple[ReaderName, ...] = get_args(ReaderName)
# What captions can be read with: the readers of images, and a finished feature store.
CaptionReader = Literal[ReaderName, "store"]


@dataclass(frozen=True, slots=True)
class Record:
    """An image, the captions people gave it, and the split it belongs to."""

    id: str
    image: "ImageSource"
    captions: tuple[str, ...] = ()  # empty: an unlabelled image
    split: str = ""  # empty: the source names no split
    facts: Mapping[str, object] | None = None  # what is truly in the image, where it is known


class Problems:
    """Decides what a bad row does: stop at once, or be counted and named in the report."""

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.items: list[Problem] = []

    def add(self, where: str, why: str, hint: str) -> None:
        """Note a bad row; unless bad rows are to be skipped, raise it as a DataError."""
        if not self.skip:
            raise DataError(where, why, f"{hint} Or pass --skip-bad to leave such rows out.")
        self.items.append(Problem(where, why, hint))


_LETTER_OR_DIGIT = re.compile(r"[^\W_]")


@dataclass(slots=True)
class Entry:
    """An image as its source describes it; nothing in it has been checked yet."""

    where: str  # the place in the source, as a person would count it
    id: str
    names: Sequence[str] = ()  # what the image file may be called, the likeliest name first
    captions: Sequence[tuple[str, object]] = ()  # each with its own place in the source
    split: str = ""
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


@dataclass
class Checker:
    """Makes records of entries; what cannot be used goes to `problems`, once each.

    Without a finder, an entry that does not bring its image gets an `UnseenImage`.
    """

    finder: "ImageFinder | None"
    problems: Problems
    _first: dict[str, str] = field(default_factory=dict)  # id -> where it was first met
    _used: dict["ImageSource", str] = field(default_factory=dict)  # image -> where it was found

    def pass_over(self, entry: Entry) -> None:
        """Remember the id of an entry that was not asked for: it must not come again."""
        self._first.setdefault(entry.id, entry.where)

    def check(self, entry: Entry) -> Record | None:
        """The record, or None if the entry cannot be used and was noted as a problem."""
        if not self._good_id(entry):
            return None
        image = entry.image or self._find(entry, self.finder)
        if image is None:
            return None
        captions = [
            good
            for where, caption in entry.captions
            if (good := self._good_caption(where, caption)) is not None
        ]
        if entry.captions and not captions:
            count = len(entry.captions)
            why = (
                f"none of its {count} captions can be used"
                if count > 1
                else "its caption cannot be used"
            )
            self.problems.add(entry.where, why, "Give it a caption, or take the image out.")
            return None
        return Record(entry.id, image, tuple(captions), entry.split, entry.facts)

    def _good_id(self, entry: Entry) -> bool:
        lost = self._and_captions(entry)
        if not entry.id.strip():
            self.problems.add(entry.where, f"the id is empty{lost}", "Give each image an id.")
            return False
        if what := _not_text(entry):
            why = f"its {what} is not valid Unicode text{lost}"
            self.problems.add(entry.where, why, "Save the file as UTF-8.")
            return False
        first = self._first.setdefault(entry.id, entry.where)
        if first is not entry.where:
            why = f"the id {entry.id!r} was already used by {first}{lost}"
            self.problems.add(entry.where, why, "Give each image its own id.")
            return False
        return True

    def _find(self, entry: Entry, finder: "ImageFinder | None") -> "ImageSource | None":
        if finder is None:
            return UnseenImage(entry.names[0])
        lost = self._and_captions(entry)
        try:
            image = finder.find(*entry.names)
        except DataError as error:
            self.problems.add(entry.where, f"{error.what}: {error.why}{lost}", error.hint)
            return None
        if image is None:
            roots = ", ".join(printable(str(root)) for root in finder.roots)
            nor = "" if finder.last is None else ", nor at that path from the working folder"
            why = f"the image {printable(entry.names[0])!r} is not in {roots}{nor}{lost}"
            hint = "Pass the folder or the uncompressed tar that holds it with --images."
            self.problems.add(entry.where, why, hint)
            return None
        first = self._used.setdefault(image, entry.where)
        if first is not entry.where:
            why = f"its image {image.name} is already that of {first}{lost}"
            self.problems.add(entry.where, why, "Name each image by a path that is its own.")
            return None
        return image

    def _and_captions(self, entry: Entry) -> str:
        """A report must not hide that captions go with the image they belong to."""
        count = len(entry.captions)
        if count == 0 or not self.problems.skip:  # the run stops: nothing is left out
            return ""
        return f" (left out with its {count} caption{'s' if count > 1 else ''})"

    def _good_caption(self, where: str, caption: object) -> str | None:
        if not isinstance(caption, str):
            why = f"the caption is not text but {kind(caption)}"
            self.problems.add(where, why, "Write the caption as a string.")
        elif not is_text(caption):
            self.problems.add(where, "the caption is not valid Unicode", "Save the file as UTF-8.")
        elif _LETTER_OR_DIGIT.search(caption) is None:
            why = f"the caption is empty ({caption[:20]!r} has no letter or digit)"
            self.problems.add(where, why, "Write a caption, or take the row out.")
        else:
            return caption.strip()
        return None


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


def _not_text(entry: Entry) -> str:
    """Which part of an entry cannot be written as UTF-8; often the id is made from the path."""
    if not is_text(entry.split):
        return "split"
    if is_text(entry.id):
        return ""
    return "id" if all(map(is_text, entry.names)) else "path"
