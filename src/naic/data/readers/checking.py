"""The checks that all readers share: what of an entry can be used, and what is wrong with it."""

import difflib
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from naic.data.records import (
    PLACES_SHOWN,
    Entry,
    Problems,
    Record,
    UnseenImage,
    is_text,
    kind,
)
from naic.errors import DataError, ImageError, Problem
from naic.files import printable

if TYPE_CHECKING:  # captions alone are read without it
    from naic.data.sources import ImageFinder
    from naic.images.sources import ImageSource

LONGEST_CAPTION = 1000  # characters: a model learns from the first 16 words
_LOST = "\ufffd"  # what a program writes for a letter that it could not read
_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
_CONTROL = re.compile("[\x00-\x08\x0e-\x1b\x7f-\x84\x86-\x9f]")  # those that are no white space


@dataclass
class Checker:
    """Makes records of entries; what cannot be used goes to `problems`, once each.

    Attributes:
        finder: where images are looked for. Without one, an entry that does not bring its image
            gets an `UnseenImage`.
        problems: hears of what cannot be used.
        careful: the captions were written or mended in some program: they are also checked for
            what programs do to text, and for rows that are there twice.
        look: whether it is checked that images with captions can be opened (see `look_at`).
        splits: the splits that can be meant; None is any.
    """

    finder: "ImageFinder | None"
    problems: Problems
    careful: bool = False
    look: bool = False
    splits: Collection[str] | None = None
    _first: dict[str, str] = field(default_factory=dict)  # id -> where it was first met
    _used: dict["ImageSource", str] = field(default_factory=dict)  # image -> where it was found
    _twice: list[str] = field(default_factory=list)  # where a caption is that was there before

    def pass_over(self, entry: Entry) -> None:
        """Remember the id of an entry that was not asked for: it must not come again."""
        self._first.setdefault(entry.id, entry.where)

    def check(self, entry: Entry) -> Record | None:
        """The record, or None if the entry cannot be used and was noted as a problem."""
        if not self._good_id(entry) or not self._good_split(entry):
            return None
        image = entry.image or self._find(entry, self.finder)
        if image is not None and self.look and entry.captions and not self._opens(entry, image):
            image = None
        captions = self._good_captions(entry)  # all are told of, whatever is wrong with the image
        if image is None:
            return None
        if entry.captions and not captions:
            count = len(entry.captions)
            told = count == 1 and entry.captions[0][0] == entry.where  # of this very row
            if self.problems.skip and not told:  # else what is wrong with each is enough
                why = (
                    f"none of its {count} captions can be used"
                    if count > 1
                    else "its caption cannot be used"
                )
                self.problems.add(entry.where, why, "Give it a caption, or take the image out.")
            return None
        return Record(entry.id, image, tuple(captions), entry.split, entry.facts)

    def warn_of_repeats(self, source: str) -> None:
        """Tell of captions that an image has from two rows: two people may have said the same."""
        if not self._twice:
            return
        rest = len(self._twice) - PLACES_SHOWN
        more = f" and {rest:,} more" if rest > 0 else ""
        why = (
            "what an earlier row says of the same image is said again, and counts again, in "
            f"{'; '.join(self._twice[:PLACES_SHOWN])}{more}"
        )
        hint = "Take that out if it is there by mistake."
        self.problems.warn(Problem(printable(source), why, hint, "said twice"))

    def _good_id(self, entry: Entry) -> bool:
        lost = self._and_captions(entry)
        if not entry.id.strip():
            self.problems.add(entry.where, f"the id is empty{lost}", "Give each image an id.")
            return False
        if what := _not_text(entry):
            why = f"its {what} is not valid Unicode text{lost}"
            self.problems.add(entry.where, why, "Save the file as UTF-8.", "no Unicode text")
            return False
        first = self._first.setdefault(entry.id, entry.where)
        if first is not entry.where:
            why = f"the id {entry.id!r} was already used by {first}{lost}"
            self.problems.add(entry.where, why, "Give each image its own id.", "id used twice")
            return False
        return True

    def _good_split(self, entry: Entry) -> bool:
        if self.splits is None or entry.split in self.splits:
            return True
        names = sorted(name for name in self.splits if name)
        close = difflib.get_close_matches(entry.split.lower(), names, n=1)
        meant = f"Is {close[0]} meant? " if close else ""
        why = f"there is no split {printable(entry.split)!r}{self._and_captions(entry)}"
        hint = f"{meant}Splits are called {', '.join(names)}."
        self.problems.add(entry.split_where or entry.where, why, hint, "unknown split")
        return False

    def _find(self, entry: Entry, finder: "ImageFinder | None") -> "ImageSource | None":
        if finder is None:
            return UnseenImage(entry.names[0])
        lost = self._and_captions(entry)
        try:
            image = finder.find(*entry.names)
        except DataError as error:
            why = f"{error.what}: {error.why}{lost}"
            self.problems.add(entry.where, why, error.hint, "image that cannot be told for sure")
            return None
        if image is None:
            roots = ", ".join(printable(str(root)) for root in finder.roots)
            nor = "" if finder.last is None else ", nor at that path from the working folder"
            meant = mended(entry.names[0])
            was = f" (was {meant!r} meant?)" if meant else ""
            why = f"the image {printable(entry.names[0])!r} is not in {roots}{nor}{was}{lost}"
            hint = "Pass the folder or the uncompressed tar that holds it with --images."
            self.problems.add(entry.where, why, hint, "image not found")
            return None
        first = self._used.setdefault(image, entry.where)
        if first is not entry.where:
            why = f"its image {image.name} is already that of {first}{lost}"
            hint = "Name each image by a path that is its own."
            self.problems.add(entry.where, why, hint, "image under two names")
            return None
        return image

    def _opens(self, entry: Entry, image: "ImageSource") -> bool:
        """Whether the file is an image, as far as can be told without decoding it."""
        from naic.images.sources import FileImage, TarImage

        if isinstance(image, FileImage | TarImage):
            try:
                image.look_at()
            except ImageError as error:
                why = f"its image {error.what}: {error.why}{self._and_captions(entry)}"
                self.problems.add(entry.where, why, error.hint, f"image: {error.why}")
                return False
        return True

    def _and_captions(self, entry: Entry) -> str:
        """A report must not hide that captions go with the image they belong to."""
        count = len(entry.captions)
        if count == 0 or not self.problems.skip:  # the run stops: nothing is left out
            return ""
        return f" (left out with its {count} caption{'s' if count > 1 else ''})"

    def _good_captions(self, entry: Entry) -> list[str]:
        captions: dict[str, str] = {}  # with the place where it was first said
        found = []
        for where, caption in entry.captions:
            good = self._good_caption(where, caption)
            if good is None:
                continue
            found.append(good)
            if self.careful and captions.setdefault(good, where) != where:
                self._twice.append(where.rpartition(", ")[2])
        return found

    def _good_caption(self, where: str, caption: object) -> str | None:
        if not isinstance(caption, str):
            why = f"the caption is not text but {kind(caption)}"
            self.problems.add(where, why, "Write the caption as a string.")
        elif not is_text(caption):
            self.problems.add(where, "the caption is not valid Unicode", "Save the file as UTF-8.")
        elif not caption.strip():
            self.problems.add(
                where, "the caption is empty", "Write a caption, or take the row out."
            )
        elif _LETTER_OR_DIGIT.search(caption) is None:
            why = f"the caption {caption[:20]!r} has no letter or digit"
            hint = "Write a caption, or take the row out."
            self.problems.add(where, why, hint, "caption without a word")
        elif fault := _fault(caption) if self.careful else None:
            self.problems.add(where, *fault)
        else:
            return caption.strip()
        return None


def _fault(caption: str) -> tuple[str, str, str] | None:
    """What some program did to a caption: why it cannot be used, what to do, and the kind."""
    if len(caption) > LONGEST_CAPTION:
        why = f"the caption has {len(caption):,} characters, more than {LONGEST_CAPTION:,}"
        hint = "Is a quote missing, so that it holds further rows? Else shorten it."
        return why, hint, "caption that is far too long"
    if bad := _CONTROL.search(caption):
        why = f"the caption has a control character (U+{ord(bad[0]):04X})"
        return why, "Take it out.", "control character"
    if _LOST in caption:
        place = caption.index(_LOST)
        why = (
            f"the caption has letters that were lost: {caption[max(0, place - 10) : place + 10]!r}"
        )
        return why, "Write them again.", f"lost letters ({_LOST})"
    if meant := mended(caption):
        why = f"the caption reads {caption[:40]!r} where {meant[:40]!r} is meant"
        hint = "Open the table that you began with as UTF-8, or write these letters again."
        return why, hint, "UTF-8 that a program took for Windows-1252"
    return None


def mended(text: str) -> str:
    """What was written, where a program took UTF-8 for Windows-1252; empty where none did."""
    if text.isascii():
        return ""
    try:
        return text.encode("cp1252").decode("utf-8")
    except UnicodeError:
        return ""


def _not_text(entry: Entry) -> str:
    """Which part of an entry cannot be written as UTF-8; often the id is made from the path."""
    if not is_text(entry.split):
        return "split"
    if is_text(entry.id):
        return ""
    return "id" if all(map(is_text, entry.names)) else "path"
