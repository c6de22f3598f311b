"""The pictures of a page: found by the ids of images, linked to, or made small to be put into it.

A wrong picture beside a caption is worse than none: where several files could be meant, none is
shown.
"""

import base64
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from io import BytesIO
from pathlib import Path
from typing import TypeAlias
from urllib.parse import quote

from naic.data.tars import index_tar
from naic.errors import ConfigError, ImageError
from naic.files import printable, walk, what_is
from naic.images.formats import Name, take_apart, without_image_suffix
from naic.images.sources import FileImage, TarImage

Picture: TypeAlias = FileImage | TarImage
EDGE = 240  # pixels of the longer side of a small copy: a page shows it at 176, screens are fine
_QUALITY = 55  # of WebP: about 5 KB each


def check_roots(roots: Sequence[Path], *, embed: bool) -> None:
    """Refuse what has no pictures that a page could show."""
    for root in roots:
        found, name = what_is(root), printable(str(root))
        if found == "missing":
            raise ConfigError("--images", f"there is no {name}", "Check the path.")
        if found != "folder" and not embed:
            why = f"{name} is no folder, and a page can show only images that are files"
            raise ConfigError("--images", why, "Name a folder, or add --embed.")


def find_pictures(roots: Sequence[Path], ids: Sequence[str]) -> list[Picture | None]:
    """The picture of each image, found as its caption is: by the id, or by the parts of it.

    Raises:
        ConfigError: there is not one.
        DataError: a tar cannot be read.
    """
    if not roots:
        return []
    index = _Index()
    for root in dict.fromkeys(roots):
        for name, picture in _pictures(root):
            index.add(name, picture)
    found = [index.find(id_) for id_ in ids]
    if not any(found):
        names = " ".join(printable(str(root)) for root in roots)
        why = f"{names} has none of the {len(ids):,} images, such as {printable(ids[0])}"
        raise ConfigError("--images", why, "A file is named as the id of its image is.")
    return found


def _pictures(root: Path) -> Iterator[tuple[str, Picture]]:
    """Each image file beneath a folder, or in a tar, with its path from there."""
    if what_is(root) == "folder":
        for folder, files in walk(str(root), lambda *_: None):
            for file in sorted(files):
                path = Path(folder, file)
                yield path.relative_to(root).as_posix(), FileImage(path)
        return
    for name, member in index_tar(root).items():
        yield name, TarImage(root, *member)


class _Index:
    """Pictures by their names."""

    def __init__(self) -> None:
        self._exact: dict[str, list[Picture]] = {}
        self._plain: dict[str, list[tuple[Name, Picture]]] = {}

    def add(self, name: str, picture: Picture) -> None:
        stem = without_image_suffix(name)
        if stem == name:  # something else
            return
        for key in (name, stem):
            self._exact.setdefault(key, []).append(picture)
        apart = take_apart(name)
        self._plain.setdefault(apart.plain, []).append((apart, picture))

    def find(self, id_: str) -> Picture | None:
        exact = self._exact.get(id_) or self._exact.get(without_image_suffix(id_))
        if exact:
            return exact[0] if len(exact) == 1 else None
        name = take_apart(id_)
        fitting = [one for own, one in self._plain.get(name.plain, []) if name.agrees(own)]
        return fitting[0] if len(fitting) == 1 else None


def link(path: Path, page: Path) -> str:
    """The way from a page to a file, as the page can have it: both may be moved together."""
    return quote(os.fsencode(os.path.relpath(path, page.parent)))


def small_copies(pictures: Sequence[Picture | None]) -> Iterator[str | None]:
    """Each picture as the base64 text of a small WebP file; None where it cannot be opened."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(_small_copy, pictures)


def _small_copy(picture: Picture | None) -> str | None:
    if picture is None:
        return None
    try:
        image = picture.load(EDGE)
    except ImageError:
        return None
    image.thumbnail((EDGE, EDGE))
    file = BytesIO()
    image.save(file, "WEBP", quality=_QUALITY)
    return base64.b64encode(file.getvalue()).decode()
