"""A text file for each image: `photo.txt` beside `photo.jpg`, or in a folder that mirrors it.

Each is written whole under another name and renamed. There is no journal: the files that are there
are what is done.
"""

import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Self

from naic.errors import ConfigError, Problem, WriteError
from naic.files import printable, what_is, writing
from naic.images.formats import without_suffix
from naic.resume import Warn
from naic.tasks.caption.find import Found, Places, cannot_open
from naic.tasks.caption.folders import Folders, no_use_going_on, write_any_name
from naic.tasks.caption.options import Existing

SUFFIX = ".txt"
LINK = "it is a link, and what it leads to is not written over"


def sidecar(image: Found, out: Path | None) -> str:
    """The path of an image's text file."""
    if out is None:
        return without_suffix(image.path) + SUFFIX
    return os.path.join(out, without_suffix(image.name) + SUFFIX)  # noqa: PTH118


def choose(
    images: Sequence[Found], out: Path | None, existing: Existing
) -> tuple[list[Found], list[Problem], int]:
    """The images to caption, those that cannot have a file, and how many have theirs already.

    Raises:
        ConfigError: two images would have one file, or an image would be written over.
    """
    places = Places()
    owners = by_sidecar(images, out, places)
    for image in images:
        if _key(image.path, places) in owners:
            why = "the text file of an image would be written over it"
            raise ConfigError(printable(image.path), why, "Give the image another name.")
    problems = _settle(owners, out)
    chosen = {own[0] for own in owners.values()}
    todo = [image for image in images if image in chosen]
    if existing != "skip":
        return todo, problems, 0
    missing = [image for image in todo if not os.path.lexists(sidecar(image, out))]
    return missing, problems, len(todo) - len(missing)


def by_sidecar(images: Iterable[Found], out: Path | None, places: Places) -> dict[str, list[Found]]:
    """The images by the text file that each would have."""
    owners: dict[str, list[Found]] = {}
    for image in images:
        owners.setdefault(_key(sidecar(image, out), places), []).append(image)
    return owners


def _key(path: str, places: Places) -> str:
    """What tells two files apart: not how they are spelt, and on macOS not the case of letters."""
    key = places.key(path)
    return key.casefold() if sys.platform == "darwin" else key


def _settle(owners: dict[str, list[Found]], out: Path | None) -> list[Problem]:
    """Leave each file one owner. An image that naic cannot open, such as a RAW, gives way."""
    problems = []
    for name, own in owners.items():
        able = [image for image in own if not cannot_open(image.path)]
        if len(able) > 1:
            first, second = (printable(image.path) for image in able[:2])
            why = f"{second} would have the same text file, {printable(sidecar(able[0], out))}"
            hint = "Use --format jsonl or csv, or give one of the two another name."
            raise ConfigError(first, why, hint)
        kept = (able or own)[0]
        for image in own:
            if image is not kept:
                why = f"its text file would be that of {printable(kept.path)}"
                hint = "It is not captioned. Give it another name, or use --format jsonl."
                problems.append(Problem(printable(image.path), why, hint))
        owners[name] = [kept]
    return problems


class Sidecars:
    """Writes the text files of one run, and keeps other runs away from where it writes."""

    def __init__(
        self, out: Path | None, existing: Existing, todo: Iterable[Found], warn: Warn
    ) -> None:
        self._out = out
        self._append = existing == "append"
        self._folders = Folders(out, {sidecar(image, out) for image in todo}, warn)

    def __enter__(self) -> Self:
        self._folders.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._folders.__exit__()

    def write(self, image: Found, text: str) -> Problem | None:
        """Write the text of an image; a file that cannot be written is a problem of its own.

        Raises:
            WriteError: the disk is full: the others could not be written either.
            StoreError: another run writes to the folder.
        """
        path = Path(sidecar(image, self._out))
        try:
            self._folders.enter(path.parent)
            with writing(path):
                if path.is_symlink():
                    hint = "Delete the link to have a text there."
                    return Problem(printable(str(path)), LINK, hint)
                # What is no file is refused below; to read a pipe might never end.
                before = path.read_bytes() if self._append and what_is(path) == "file" else b""
            data = _added(before, text.encode())
            if data != before:
                write_any_name(path, data)
        except WriteError as error:
            if no_use_going_on(error):
                raise
            hint = error.hint if self._out else "Use --out DIR to put it elsewhere."
            return Problem(printable(error.what), error.why, hint)
        return None


def _added(before: bytes, text: bytes) -> bytes:
    """The text as lines after those that are there; if it is there, nothing is added.

    So a run that was killed can be given again: no caption comes twice.
    """
    lines = before.splitlines()
    new = [line for line in text.splitlines() if line not in lines] if before else [text]
    if not new:
        return before
    end = b"\n" if before and not before.endswith((b"\n", b"\r")) else b""
    return before + end + b"\n".join(new) + b"\n"
