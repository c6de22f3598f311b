"""A text file for each image: `photo.txt` beside `photo.jpg`, or in a folder that mirrors it.

Each is written whole under another name and renamed. There is no journal: the files that are there
are what is done.
"""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, Self

from naic.errors import ConfigError, Problem, WriteError
from naic.files import printable, what_is, writing
from naic.images.formats import IMAGE_SUFFIXES, stems_of_texts, without_suffix
from naic.resume import Warn
from naic.tasks.caption.find import Found, Places, cannot_open
from naic.tasks.caption.folders import Folders, no_use_going_on, write_any_name
from naic.tasks.caption.options import Existing

SUFFIX = ".txt"
LINK = "it is a link, and what it leads to is not written over"


def sidecar(image: Found, out: Path | None, *, full: bool = False) -> str:
    """The path of an image's text file; `full` keeps the suffix of the image in it."""
    named = image.path if out is None else os.path.join(out, image.name)  # noqa: PTH118
    return (named if full else without_suffix(named)) + SUFFIX


class _Listed(NamedTuple):
    """A folder."""

    names: frozenset[str]  # of all that is in it
    stems: dict[str, str]  # what the text of each image in it is called, without the suffix
    alike: dict[str, list[str]]  # its images by what they are called without theirs


class Texts:
    """Which text file is whose.

    `a.txt` is that of `a.jpg`. Where `a.png` lies in the same folder, theirs are `a.jpg.txt` and
    `a.png.txt`, whichever of the two a command names: so nothing is written over that another run
    wrote. They are called so also where two images of one run would have one file in an output
    folder. With `keep`, an `a.txt` that was there when `a.png` came is the text of `a.jpg`.

    Attributes:
        owners: the images by what tells their text file from others.
    """

    def __init__(self, images: Sequence[Found], out: Path | None, *, keep: bool) -> None:
        self._out = out
        self._keep = keep
        self._places = Places()
        self._folders: dict[str, _Listed] = {}
        self._full = set[str]()  # the images of the run that would have a text with another one
        while True:
            self.owners: dict[str, list[Found]] = {}
            for image in images:
                self.owners.setdefault(self.key(self.of(image)), []).append(image)
            clashing = [image.path for own in self.owners.values() for image in self._rivals(own)]
            if not clashing:
                return
            self._full.update(clashing)

    def key(self, path: str) -> str:
        """What tells two files apart: not how they are spelt, nor on macOS the case of letters."""
        return _spelt(self._places.key(path))

    def of(self, image: Found) -> str:
        """The path of an image's text file."""
        return sidecar(image, self._out, full=not cannot_open(image.path) and self._in_full(image))

    def unclear(self, image: Found) -> str | None:
        """A text file that may be of this image, or of another that is called like it."""
        short = sidecar(image, self._out)
        if short == self.of(image) or not os.path.lexists(short) or self.key(short) in self.owners:
            return None
        return None if self._first(image) else short

    def _in_full(self, image: Found) -> bool:
        folder, name = os.path.split(image.path)
        listed = self._listed(folder)
        there, own = os.path.split(sidecar(image, self._out, full=True))
        # If no other is called so now, one was there once: what this one got then is its own.
        if own in self._listed(there).names and _spelt(name) not in listed.alike:
            return True
        alike = listed.stems.get(name) == name and self._first(image) != name
        return image.path in self._full or alike

    def _first(self, image: Found) -> str | None:
        """Of the images called like this one, the one that was alone when `a.txt` was written."""
        folder, name = os.path.split(image.path)
        alike = self._listed(folder).alike.get(_stem(name), [])
        if not self._keep or len(alike) < 2:
            return None
        try:
            written = os.lstat(sidecar(image, self._out)).st_mtime_ns
            came = {
                name: os.stat(os.path.join(folder, name)).st_ctime_ns  # noqa: PTH116, PTH118
                for name in alike
            }
        except (OSError, ValueError):
            return None
        first = [name for name in alike if came[name] <= written]
        return first[0] if len(first) == 1 else None

    def _rivals(self, own: Sequence[Found]) -> list[Found]:
        """Those of the images that would share a text file and can have another name for it."""
        able = [image for image in own if not cannot_open(image.path)]
        if len(able) < 2:
            return []
        return [im for im in able if self.of(im) != sidecar(im, self._out, full=True)]

    def _listed(self, folder: str) -> _Listed:
        if folder not in self._folders:
            try:
                names = frozenset(os.listdir(folder or "."))  # noqa: PTH208  # there may be millions
            except (OSError, ValueError):  # opening the image tells why
                names = frozenset()
            images = [name for name in names if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES]  # noqa: PTH122
            alike: dict[str, list[str]] = {}
            for name in images:
                alike.setdefault(_stem(name), []).append(name)
            self._folders[folder] = _Listed(names, stems_of_texts(images, _spelt), alike)
        return self._folders[folder]


def _stem(name: str) -> str:
    return _spelt(without_suffix(name))


def _spelt(name: str) -> str:
    return name.casefold() if sys.platform == "darwin" else name


class Choice(NamedTuple):
    """What a run is to do.

    Attributes:
        todo: the images to caption.
        texts: where their texts go.
        problems: those that cannot have a file.
        kept: how many have theirs already.
    """

    todo: list[Found]
    texts: Texts
    problems: list[Problem]
    kept: int


def choose(images: Sequence[Found], out: Path | None, existing: Existing, warn: Warn) -> Choice:
    """The images to caption, and where their texts go.

    `warn` hears of texts that may be of one of several images, and are left as they are.

    Raises:
        ConfigError: two images would have one file, or an image would be written over.
    """
    texts = Texts(images, out, keep=existing == "skip")
    _refuse_images(images, texts, out)
    problems = _settle(texts)
    chosen = {own[0] for own in texts.owners.values()}
    wanted = [image for image in images if image in chosen]
    todo = wanted
    if existing == "skip":
        todo = [image for image in wanted if not os.path.lexists(texts.of(image))]
    for unclear in dict.fromkeys(filter(None, map(texts.unclear, todo))):
        why = "several images are called so, and it is left as it is: each gets a text of its own"
        hint = "If you know whose it is, put the image's suffix into its name, as in photo.jpg.txt."
        warn(Problem(printable(unclear), why, hint))
    return Choice(todo, texts, problems, len(wanted) - len(todo))


def _refuse_images(images: Sequence[Found], texts: Texts, out: Path | None) -> None:
    """Refuse an image whose name is that of a text: `a.txt` beside `a.jpg`, or alone."""
    odd = {texts.key(own.path): own for own in images if own.path.lower().endswith(SUFFIX)}
    if not odd:
        return
    for image in images:
        for path in (sidecar(image, out), texts.of(image)):
            if found := odd.get(texts.key(path)):
                why = "the text file of an image would be written over it"
                raise ConfigError(printable(found.path), why, "Give the image another name.")


def _settle(texts: Texts) -> list[Problem]:
    """Leave each file one owner. An image that naic cannot open, such as a RAW, gives way."""
    problems = []
    for name, own in texts.owners.items():
        able = [image for image in own if not cannot_open(image.path)]
        if len(able) > 1:
            first, second = (printable(image.path) for image in able[:2])
            why = f"{second} would have the same text file, {printable(texts.of(able[0]))}"
            hint = "Use --format jsonl or csv, or give one of the two another name."
            raise ConfigError(first, why, hint)
        kept = (able or own)[0]
        for image in own:
            if image is not kept:
                why = f"its text file would be that of {printable(kept.path)}"
                hint = "It is not captioned. Give it another name, or use --format jsonl."
                problems.append(Problem(printable(image.path), why, hint))
        texts.owners[name] = [kept]
    return problems


class Sidecars:
    """Writes the text files of one run, and keeps other runs away from where it writes."""

    def __init__(self, out: Path | None, existing: Existing, choice: Choice, warn: Warn) -> None:
        self._out = out
        self._texts = choice.texts
        self._append = existing == "append"
        self._folders = Folders(out, set(map(choice.texts.of, choice.todo)), warn)

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
        path = Path(self._texts.of(image))
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
