"""Images looked up by the names that a dataset gives them, in folders and tars.

One rule keeps a foreign annotation file harmless: an image is only ever taken from beneath a
root the user named. Names with `..`, and absolute paths that lead elsewhere, are reduced to
their base name and looked for inside the roots. Only the paths of a table, which people write
themselves, are followed wherever they lead.
"""

import os
import stat
import unicodedata
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from naic.data.tars import TarMember, index_tar
from naic.errors import DataError
from naic.files import is_folder, printable, walk
from naic.images.sources import FileImage, TarImage


class _FolderRoot:
    def __init__(self, path: Path) -> None:
        self.path = os.path.abspath(path)  # noqa: PTH100  # textual on purpose: links stay
        self.parts = [part for part in self.path.split("/") if part]
        self.name = self.parts[-1] if self.parts else ""
        self._top = Folder(self.path)
        self._by_base: dict[str, list[str]] | None = None

    def _folder(self, parts: Sequence[str]) -> "Folder | None":
        folder = self._top
        for part in parts:
            inner = folder.folder(part)
            if inner is None:
                return None
            folder = inner
        return folder

    def has(self, folders: Sequence[str]) -> bool:
        """Whether there is such a sub-folder."""
        return self._folder(folders) is not None

    def at(self, parts: Sequence[str]) -> FileImage | None:
        folder = self._folder(parts[:-1])
        path = None if folder is None else folder.file(parts[-1])
        return None if path is None else FileImage(path)

    def named(self, base: str) -> list[FileImage]:
        """All files of that name, in whatever sub-folder."""
        if self._by_base is None:
            self._by_base = {}
            for folder, files in walk(self.path, lambda *_: None):
                for file in files:
                    for name in spellings(file):
                        self._by_base.setdefault(name, []).append(os.path.join(folder, file))  # noqa: PTH118
        paths = dict.fromkeys(p for name in spellings(base) for p in self._by_base.get(name, ()))
        return [FileImage(Path(path)) for path in paths]


class _TarRoot:
    def __init__(self, path: Path) -> None:
        self.parts = [part for part in os.path.abspath(path).split("/") if part]  # noqa: PTH100
        self.name = path.stem
        self._archive = path
        self._members = index_tar(path)
        self._by_base: dict[str, list[TarMember]] = {}
        self._folders = set[str]()
        for key, member in self._members.items():
            folder, _, base = key.rpartition("/")
            self._folders.add(folder)
            self._by_base.setdefault(base, []).append(member)

    def has(self, folders: Sequence[str]) -> bool:
        """Whether files of the tar lie in that very folder."""
        return "/".join(folders) in self._folders

    def at(self, parts: Sequence[str]) -> TarImage | None:
        member = self._members.get("/".join(parts))
        return None if member is None else TarImage(self._archive, *member)

    def named(self, base: str) -> list[TarImage]:
        """All members of that name, in whatever folder of the tar."""
        return [TarImage(self._archive, *member) for member in self._by_base.get(base, ())]


class ImageFinder:
    """Finds images by name under some roots: folders or uncompressed tars.

    Tars are indexed at once, folders when first needed, each one time. A wrong image is worse
    than none: a name that fits several is an error wherever they lie (roots have no precedence),
    and where the folder that a name speaks of exists, no namesake from elsewhere is taken.
    """

    def __init__(
        self, roots: Sequence[Path], trusted: Path | None = None, last: Path | None = None
    ) -> None:
        """With `trusted`, a path that leads from there to a file is followed out of the roots.

        With `last`, so is a path that leads from there, if it leads nowhere from the roots.
        """
        self.roots = tuple(roots)
        self.last = last
        self._trusted = trusted
        self._roots = [_open_root(root) for root in dict.fromkeys(self.roots)]

    def find(self, *candidates: str) -> FileImage | TarImage | None:
        """The image with one of these names, the likeliest name first.

        Each name is tried as a path relative to the roots (or to a root's parent, if it starts
        with the root's own name), then as a path from `last` and as a base name in any sub-folder:
        these are guesses, and if both find something it must be the same.

        Raises:
            DataError: a name fits several different images.
        """
        names = [*candidates, *(n.replace("\\", "/") for n in candidates if "\\" in n)]
        bases: dict[str, bool] = {}  # whether some name puts it into a folder that exists
        for name in names:
            parts = [part for part in name.split("/") if part not in ("", ".")]
            if name.startswith("/"):
                places = self._absolute(name)
            else:
                places = [] if ".." in parts else self._relative(parts)
            hits = [hit for root, inside in places if (hit := root.at(inside))]
            if hits:
                return _only(name, hits)
            if self._trusted is not None and parts:
                # Absolute, as all others are: an image named in two ways must be seen to be one.
                path = Path(os.path.abspath(self._trusted / name))  # noqa: PTH100
                if _exists(path):
                    return FileImage(path)
            if parts:
                placed = len(parts) > 1 and any(root.has(inside[:-1]) for root, inside in places)
                bases[parts[-1]] = placed or bases.get(parts[-1], False)
        there = self._from_last(names)
        for base in (base for base, placed in bases.items() if not placed):
            hits = [*there, *(hit for root in self._roots for hit in root.named(base))]
            if hits:
                return _only(base, hits)
        return there[0] if there else None

    def _from_last(self, names: Sequence[str]) -> list[FileImage]:
        """The file that the first of the relative names that does so leads to from `last`."""
        if self.last is None:
            return []
        paths = (self.last / name for name in names if name and not name.startswith("/"))
        found = next(filter(_exists, paths), None)
        return [] if found is None else [FileImage(Path(os.path.abspath(found)))]  # noqa: PTH100

    def _relative(self, parts: list[str]) -> list[tuple[_FolderRoot | _TarRoot, list[str]]]:
        """Where each root would have the path: beneath it, or it is the path's first folder."""
        places = [(root, parts) for root in self._roots] if parts else []
        if len(parts) > 1:
            places += [(root, parts[1:]) for root in self._roots if root.name == parts[0]]
        return places

    def _absolute(self, name: str) -> list[tuple[_FolderRoot | _TarRoot, list[str]]]:
        """Where an absolute path leads into a root; elsewhere we do not follow it."""
        parts = [part for part in os.path.normpath(name).split("/") if part]
        return [
            (root, parts[len(root.parts) :])
            for root in self._roots
            if parts[: len(root.parts)] == root.parts and len(parts) > len(root.parts)
        ]


def _open_root(root: Path) -> _FolderRoot | _TarRoot:
    try:
        mode = root.stat().st_mode
    except (OSError, ValueError) as error:
        why = "there is no such folder or tar of images"
        if isinstance(error, PermissionError):
            why = "permission denied"
        raise DataError(printable(str(root)), why, "Check the path given to --images.") from error
    if stat.S_ISDIR(mode):
        return _FolderRoot(root)
    if stat.S_ISREG(mode):
        return _TarRoot(root)
    why = "it is neither a folder nor a file"
    raise DataError(printable(str(root)), why, "Give --images a folder or an uncompressed tar.")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name too long, or with a NUL in it
        return False


def _only(name: str, hits: Sequence[FileImage | TarImage]) -> FileImage | TarImage:
    """The one image among the hits; the same file reached by two ways counts once."""
    if len(hits) > 1:
        different = {
            hit.path.resolve()
            if isinstance(hit, FileImage)
            else (hit.archive.resolve(), hit.offset)
            for hit in hits
        }
        if len(different) > 1:
            why = f"the name fits {len(different)} images, {hits[0].name} and {hits[1].name}"
            hint = "Name the image by a longer path, or only the folder it is in with --images."
            raise DataError(printable(name), why, hint)
    return hits[0]


def spellings(name: str) -> tuple[str, ...]:
    """The name and its composed form: macOS and Linux may spell one accent in two ways."""
    if name.isascii():
        return (name,)
    return tuple(dict.fromkeys((name, unicodedata.normalize("NFC", name))))


class Folder:
    """One listing of one folder, made when it is first needed."""

    def __init__(self, path: str) -> None:
        self.path = path

    @cached_property
    def _listing(self) -> "tuple[dict[str, str], dict[str, Folder]]":
        """The names of its files, by all their spellings, and its sub-folders."""
        files: dict[str, str] = {}
        folders: dict[str, Folder] = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if is_folder(entry):
                        folders[entry.name] = Folder(entry.path)
                        continue
                    files[entry.name] = entry.name
                    for other in spellings(entry.name)[1:]:
                        files.setdefault(other, entry.name)
        except OSError as error:
            why = f"the folder cannot be listed ({error.strerror or error})"
            raise DataError(printable(self.path), why, "Check its permissions.") from error
        return files, folders

    def folder(self, name: str) -> "Folder | None":
        """The sub-folder of that name."""
        return self._listing[1].get(name)

    def file(self, name: str) -> Path | None:
        """The file of that name."""
        files = self._listing[0]
        found = next((files[spelling] for spelling in spellings(name) if spelling in files), None)
        return None if found is None else Path(self.path, found)
