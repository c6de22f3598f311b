"""The images of a shard, one after another: a tar, a Parquet file, or a list of files."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from PIL import Image

from naic.data.records import short_names
from naic.data.tars import index_tar
from naic.errors import DataError, ImageError, StorageError
from naic.files import printable
from naic.images.formats import IMAGE_SUFFIXES, UNSUPPORTED_SUFFIXES
from naic.images.opening import open_image
from naic.images.sources import FileImage, ImageSource, TarImage
from naic.storage import is_remote, join, local, local_copy, name_of, read_bytes
from naic.stores import shown, telling

TAR, PARQUET, LIST = ".tar", ".parquet", ".txt"
KINDS = (TAR, PARQUET, LIST)
AGAIN = "Copy the shard again, or make it anew; the same command then does this shard alone."
_IMAGES = IMAGE_SUFFIXES | UNSUPPORTED_SUFFIXES  # the latter become rows that say why not
_TAR_END = 512  # bytes of zeros that a tar ends with, at least


class Row(NamedTuple):
    """An image of a shard, and what it is known by in there."""

    key: str
    image: ImageSource


@dataclass(frozen=True, slots=True)
class Columns:
    """Which columns of a Parquet file have the images and their keys; None: those that look so."""

    image: str | None = None
    key: str | None = None


@dataclass(frozen=True, slots=True)
class UrlImage:
    """An image in a store, or on a web server; it is fetched when it is decoded."""

    url: str

    @property
    def name(self) -> str:
        """The URL."""
        return printable(shown(self.url))

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError."""
        try:
            data = read_bytes(self.url)
        except StorageError as error:
            raise ImageError(self.name, error.why, error.hint) from error
        return open_image(data, name=self.name, at_least=at_least)

    def describe(self) -> None:
        """Nothing: who has the connection also has the image."""


@contextlib.contextmanager
def open_rows(source: str, columns: Columns) -> Iterator[Iterator[Row]]:
    """The images of the shard at this path or URL, in its order, as long as the context lasts.

    Raises:
        DataError: the shard is damaged; also when that shows later, from the iterator.
        StorageError: it cannot be read.
        MissingExtraError: what reads Parquet, or this kind of URL, is not installed.
    """
    with local_copy(source) as path:
        name = name_of(source)  # without what a URL asks
        if name.endswith(TAR):
            yield _tar_rows(path, source)
        elif name.endswith(PARQUET):
            from naic.tasks.shards.parquet import parquet_rows

            yield parquet_rows(path, source, columns)
        else:
            yield _listed_rows(path, source)


def stored_image(name: str, source: str) -> ImageSource:
    """The image that a shard names; what is relative lies beside the shard."""
    if "://" in name or Path(name).is_absolute():  # file:// too
        where = name
    elif is_remote(source):
        where = join(source.rpartition("/")[0], name)
    else:
        where = str(local(source).parent / name)
    return UrlImage(where) if is_remote(where) else FileImage(local(where))


def _tar_rows(path: Path, source: str) -> Iterator[Row]:
    """The images of a tar by their names in it; other files are texts and tables beside them.

    The table of contents is made first, which finds a tar that was cut off before any work.
    """
    try:
        members = index_tar(path)
    except DataError as error:
        raise DataError(name_of(source), error.why, AGAIN) from error
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAR_END))
        if file.read().strip(b"\0"):
            why = "it does not end as a tar does: it is cut off, or something was added to it"
            raise DataError(name_of(source), why, AGAIN)
    images = [name for name in members if _is_image(name)]
    if members and not images:
        hint = f"Images are known by their suffix: {', '.join(sorted(IMAGE_SUFFIXES))}."
        raise DataError(name_of(source), f"none of its {len(members):,} files is an image", hint)
    for name, key in short_names(images).items():
        member = members[name]
        yield Row(printable(key), TarImage(path, member.name, member.offset, member.size))


def _is_image(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in _IMAGES and not path.name.startswith(".")


def _listed_rows(path: Path, source: str) -> Iterator[Row]:
    """The images that a list names, a path or a URL a line."""
    with (
        telling(source, StorageError, "read"),
        path.open(encoding="utf-8-sig", errors="surrogateescape") as lines,
    ):
        for line in lines:
            if name := line.rstrip("\r\n"):
                yield Row(printable(name), stored_image(name, source))
