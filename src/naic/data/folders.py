"""Folders as they are: walked once whatever links they hold, listed once, odd names and all."""

import os
import re
import unicodedata
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path

from naic.errors import DataError

# Control characters (a terminal obeys them), marks that turn the direction of a line, and lone
# surrogates, which stand for bytes that are not UTF-8.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str) -> str:
    """`text` with what a report, an id or a UTF-8 file cannot hold written as an escape.

    File names may be anything; none of those may fail, or be fooled, by an odd one.
    """
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub(lambda bad: bad[0].encode("unicode_escape").decode("ascii"), text)


def _is_folder(entry: "os.DirEntry[str]") -> bool:
    """Whether the entry is a folder or a link to one; a link to itself is no folder."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def walk(root: str, failed: Callable[[str, OSError], None]) -> Iterator[tuple[str, list[str]]]:
    """Each folder beneath `root` with the names of its files, each real folder once.

    Linked folders come after all real ones, so a folder is met under its own name first and
    a loop of links ends. Hidden folders are passed over. `failed` hears of unreadable ones.
    """
    seen: set[tuple[int, int]] = set()
    real, linked = deque([root]), deque[str]()
    while real or linked:
        folder = real.popleft() if real else linked.popleft()
        try:
            status = os.stat(folder)  # noqa: PTH116  # strings: a Path for each costs too much
            if (status.st_dev, status.st_ino) in seen:
                continue
            seen.add((status.st_dev, status.st_ino))
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            failed(folder, error)
            continue
        files = []
        for entry in entries:
            if not _is_folder(entry):
                files.append(entry.name)
            elif not entry.name.startswith("."):
                (linked if entry.is_symlink() else real).append(entry.path)
        yield folder, files


def spellings(name: str) -> tuple[str, ...]:
    """The name and its composed form: macOS and Linux may spell one accent in two ways."""
    if name.isascii():
        return (name,)
    return tuple(dict.fromkeys((name, unicodedata.normalize("NFC", name))))


class Folder:
    """One listing of one folder, made when it is first needed."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._files: dict[str, str] | None = None
        self._folders: dict[str, Folder] = {}

    def _scan(self) -> dict[str, str]:
        files: dict[str, str] = {}
        try:
            with os.scandir(self.path) as entries:
                for entry in entries:
                    if _is_folder(entry):
                        self._folders[entry.name] = Folder(entry.path)
                        continue
                    files[entry.name] = entry.name
                    for other in spellings(entry.name)[1:]:
                        files.setdefault(other, entry.name)
        except OSError as error:
            why = f"the folder cannot be listed ({error.strerror or error})"
            raise DataError(printable(self.path), why, "Check its permissions.") from error
        return files

    def folder(self, name: str) -> "Folder | None":
        """The sub-folder of that name."""
        if self._files is None:
            self._files = self._scan()
        return self._folders.get(name)

    def file(self, name: str) -> Path | None:
        """The file of that name."""
        if self._files is None:
            self._files = self._scan()
        for spelling in spellings(name):
            if spelling in self._files:
                return Path(self.path, self._files[spelling])
        return None
