"""Captions into metadata, and out of it again: which photos are to be done, and each of them."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Protocol

from naic import __version__
from naic.errors import (
    ConfigError,
    DataError,
    ImageError,
    NaicError,
    Problem,
    StoreError,
    WriteError,
)
from naic.files import printable
from naic.resume import Warn
from naic.tasks.caption.find import Found
from naic.tasks.caption.folders import Folders, no_use_going_on
from naic.tasks.caption.metadata.beside import XmpFiles
from naic.tasks.caption.metadata.exiftool import ExifTool, find_exiftool
from naic.tasks.caption.metadata.inside import WithoutExifTool
from naic.tasks.caption.metadata.mark import Held, Mark
from naic.tasks.caption.metadata.photos import Photos
from naic.tasks.caption.options import CaptionOptions, Existing
from naic.tasks.caption.output import digest
from naic.tasks.caption.rows import DIGITS

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from collections.abc import Collection
    from pathlib import Path

    from naic.runtime.captioner import Caption


class Undone(Protocol):
    """XMP files, or photos themselves, that naic has written to."""

    def file(self, image: Found) -> "Path":
        """The file that is written for an image."""
        ...

    def undo(self, image: Found) -> bool:
        """Take back what naic wrote; False where there is nothing of it."""
        ...


class Kind(Undone, Protocol):
    """XMP files, or photos themselves, to write to."""

    @property
    def writes(self) -> "Collection[str]":
        """The places that a caption can be written to."""
        ...

    def held(self, images: Sequence[Found]) -> Iterator[Held | NaicError]:
        """For each image what is there, or why that cannot be told."""
        ...

    def write(self, image: Found, mark: Mark, existing: Existing) -> bool:
        """Write a caption; False where it may not be."""
        ...


class Marks:
    """The marks of one model and one set of options; to make it reads the model's files.

    Raises:
        CheckpointError: they cannot be read.
    """

    def __init__(self, options: CaptionOptions) -> None:
        self._model = "that inside naic" if options.model is None else options.model.name
        self.request = digest(options)

    def of(self, text: str, confidence: float) -> Mark:
        """The mark of a caption that is written now."""
        return Mark(
            text=text,
            software=f"naic {__version__}",
            model=self._model,
            date=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
            confidence=f"{confidence:.{DIGITS}g}",
            request=self.request,
            before={},
        )


class Writing:
    """One run that writes captions into metadata."""

    def __init__(self, kind: Kind, options: CaptionOptions, warn: Warn) -> None:
        self._kind = kind
        self._existing: Existing = options.existing or "skip"
        self._around = options.prefix, options.suffix
        self._marks = Marks(options)
        self._warn = warn
        self._folders = Folders(None, frozenset[str](), warn)

    def choose(self, images: Sequence[Found]) -> tuple[list[Found], list[Problem], int]:
        """The images to caption, those that cannot be written, and how many need no caption."""
        todo, problems = list[Found](), list[Problem]()
        for image, there in zip(images, self._kind.held(images), strict=True):
            if isinstance(there, NaicError):
                problems.append(Problem(there.what, there.why, there.hint))
            elif not there.done(self._kind.writes, self._existing, self._marks.request):
                todo.append(image)
        return todo, problems, len(images) - len(todo) - len(problems)

    @contextlib.contextmanager
    def begun(self, todo: Sequence[Found]) -> Iterator[None]:
        """Hold the folders of what is written."""
        own = {str(self._kind.file(image)) for image in todo}
        with Folders(None, own, self._warn) as self._folders:
            yield

    def write(self, image: Found, said: "Caption") -> bool | Problem:
        """Write what was said of an image; False where a person has written there meanwhile.

        Raises:
            WriteError: the disk is full: the others could not be written either.
            StoreError: another run writes to the folder.
        """
        text = said.text.join(self._around).strip()
        if not text:
            why = "the model has no words for it"
            return Problem(printable(image.path), why, "Nothing was written.")
        mark = self._marks.of(text, said.confidence)
        return _tried(lambda: self._write(image, mark))

    def _write(self, image: Found, mark: Mark) -> bool:
        self._folders.enter(self._kind.file(image).parent)
        return self._kind.write(image, mark, self._existing)


def _tried(work: Callable[[], bool]) -> bool | Problem:
    """What came of the work; what cannot be written is a problem of its own."""
    try:
        return work()
    except WriteError as error:
        if no_use_going_on(error):
            raise
        return Problem(printable(error.what), error.why, error.hint)
    except StoreError as error:
        if error.__cause__ is None:  # another run has the folder; else there is none
            raise
        return Problem(printable(error.what), error.why, "Nothing was done there.")
    except (DataError, ImageError) as error:
        return Problem(error.what, error.why, error.hint)


@contextlib.contextmanager
def kind_of(options: CaptionOptions) -> Iterator[Kind]:
    """What the captions are written to.

    Raises:
        ConfigError: it is photos, and ExifTool is not installed.
    """
    if options.write == "xmp":
        yield XmpFiles()
        return
    with ExifTool(find_exiftool()) as tool:
        yield Photos(tool)


def take_back(
    options: CaptionOptions, images: Sequence[Found], warn: Warn
) -> Iterator[list[bool | Problem]]:
    """Take back what naic wrote.

    Yields:
        For each image, of its XMP files and of itself, whether there was anything, or why it
        failed. Without ExifTool, photos that naic wrote into have failed.

    Raises:
        ConfigError: only photos are asked for, and ExifTool is not installed.
    """
    with contextlib.ExitStack() as stack:
        kinds: list[Undone] = []
        if options.write != "exif":
            kinds.append(XmpFiles())
        if options.write != "xmp":
            try:
                kinds.append(Photos(stack.enter_context(ExifTool(find_exiftool()))))
            except ConfigError:
                if options.write == "exif":
                    raise
                kinds.append(WithoutExifTool())
        own = {str(kind.file(image)) for kind in kinds for image in images}
        folders = stack.enter_context(Folders(None, own, warn))
        for image in images:
            yield [_tried(partial(_undo, kind, folders, image)) for kind in kinds]


def _undo(kind: Undone, folders: Folders, image: Found) -> bool:
    folders.enter(kind.file(image).parent)
    return kind.undo(image)
