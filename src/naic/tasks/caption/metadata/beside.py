"""XMP files beside photos: which file is whose, read and written whole."""

import contextlib
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from naic.errors import DataError, WriteError
from naic.files import printable, sync_folder, what_is, writing
from naic.images.formats import IMAGE_SUFFIXES, without_suffix
from naic.tasks.caption.find import Found
from naic.tasks.caption.folders import short_neighbour, take_place, write_any_name
from naic.tasks.caption.metadata.inside import persons_texts
from naic.tasks.caption.metadata.mark import Held, Mark
from naic.tasks.caption.metadata.sidecar import PLACES, held, with_caption, without_caption
from naic.tasks.caption.metadata.xmp import MOST_BYTES
from naic.tasks.caption.options import Existing
from naic.tasks.caption.sidecars import LINK

SUFFIX = ".xmp"


class _Listed(NamedTuple):
    files: frozenset[str]  # XMP files
    shared: frozenset[str]  # what several images of one folder are called, but for their suffix


class XmpFiles:
    """Reads and writes the XMP files of photos."""

    writes = PLACES

    def __init__(self) -> None:
        self._folders: dict[str, _Listed] = {}

    def file(self, image: Found) -> Path:
        """The XMP file of an image: the one that is there, by darktable's name or by Adobe's.

        A new one is called as Adobe's programs do, photo.xmp; where a folder has photo.jpg and
        photo.png it would be of both, so theirs are photo.jpg.xmp and photo.png.xmp.
        """
        folder, name = os.path.split(image.path)
        listed = self._listed(folder)
        short = without_suffix(name)
        full = f"{name}{SUFFIX}" in listed.files or short in listed.shared
        return Path(folder, f"{name if full else short}{SUFFIX}")

    def _listed(self, folder: str) -> _Listed:
        if folder not in self._folders:
            try:
                names = os.listdir(folder or ".")  # noqa: PTH208  # strings: there may be millions
            except OSError:  # opening the image tells why
                names = []
            images = [name for name in names if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES]  # noqa: PTH122
            stems = Counter(map(without_suffix, images))
            self._folders[folder] = _Listed(
                frozenset(name for name in names if name.endswith(SUFFIX)),
                frozenset(stem for stem, count in stems.items() if count > 1),
            )
        return self._folders[folder]

    def held(self, images: Sequence[Found]) -> Iterator[Held | DataError]:
        """For each image what its XMP file says, and what a person wrote into the image itself."""
        for image in images:
            try:
                yield self._held(image, _read(self.file(image)))
            except DataError as error:
                yield error

    def _held(self, image: Found, data: bytes | None) -> Held:
        there = held(data, printable(str(self.file(image))))
        return Held({**there.texts, **persons_texts(image.path)}, there.mark)

    def write(self, image: Found, mark: Mark, existing: Existing) -> bool:
        """Put the caption into the XMP file; False where nothing in it may be written any more.

        Raises:
            DataError: the file that is there cannot be used.
            WriteError: it cannot be written.
        """
        path = self.file(image)
        data = _read(path)
        places = self._held(image, data).open(self.writes, existing)
        if places:
            _write(path, with_caption(data, mark, places, printable(str(path))), data)
        return bool(places)

    def undo(self, image: Found) -> bool:
        """Take out of the image's XMP files what naic wrote; False where there is nothing of it.

        Both that it may have are looked at: which one naic wrote to depended on what was there.

        Raises:
            DataError: one cannot be used.
            WriteError: one cannot be written.
        """
        folder, name = os.path.split(image.path)
        found = False
        for own in dict.fromkeys((name, without_suffix(name))):
            path = Path(folder, f"{own}{SUFFIX}")
            data = _read(path)
            if data is None:
                continue
            was = without_caption(data, printable(str(path)))
            if was is None:
                with writing(path):
                    path.unlink()
                    sync_folder(path.parent)
            elif was != data:
                _write(path, was, data)
            found |= was != data
        return found


def _read(path: Path) -> bytes | None:
    where = printable(str(path))
    if os.path.islink(path):  # noqa: PTH114  # no error for a name that is too long
        raise DataError(where, LINK, "Replace the link by the file.")
    match what_is(path):
        case "missing":
            return None
        case "file":
            pass
        case _:
            raise DataError(where, "it is no regular file", "Move it away.")
    try:
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        why = f"it cannot be read ({error.strerror})"
        raise DataError(where, why, "Check its permissions.") from error


def _write(path: Path, data: bytes, was: bytes | None) -> None:
    """Write the file whole or not at all; one that is there keeps its permissions."""
    if was is None:
        write_any_name(path, data)
        return
    temporary = short_neighbour(path)
    with writing(path):
        before = path.stat()
        if _read(path) != was:
            why = "another program has changed it meanwhile"
            raise WriteError(printable(str(path)), why, "Give the command again.")
        temporary.unlink(missing_ok=True)
    try:
        with writing(path):
            temporary.write_bytes(data)
        take_place(temporary, path, before, dates=False)
    finally:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
