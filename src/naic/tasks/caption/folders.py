"""Folders that files are written to: each held for one run, and swept of what a kill left there."""

import contextlib
import errno
import os
import re
import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Self

from naic.errors import Problem, WriteError
from naic.files import printable, sync_folder, write_atomically, writing
from naic.resume import Warn, hold_folder

_LEFT_BEHIND = re.compile(r"(.+)\.[0-9]+-[0-9]+\.part")  # by a kill: see write_atomically
_SHORT = ".naic-caption-"  # begins the name of a file on its way to one too long for a temporary
_SHORT_LEFT = re.compile(re.escape(_SHORT) + r"[0-9]+(\.[0-9]+-[0-9]+\.part)?")
_SAME = ("st_ino", "st_size", "st_mtime_ns")  # of a file that nobody has written to
_NO_USE_GOING_ON = (errno.ENOSPC, errno.EDQUOT, errno.EIO)


class Folders:
    """Keeps other runs away from where one writes.

    With an output folder that is held for the whole run; otherwise the folder that is written to
    at the time. `warn` hears once of a disk that has no locks.
    """

    def __init__(self, out: Path | None, own: Collection[str], warn: Warn) -> None:
        """`own` are the paths of the files to write: half-written ones of theirs are deleted."""
        self._out = out
        self._own = own
        self._warn = warn
        self._held = True
        self._lock = contextlib.ExitStack()
        self._folder: Path | None = None
        self._swept: set[Path] = set()

    def __enter__(self) -> Self:
        if self._out is not None:
            with writing(self._out):
                self._out.mkdir(parents=True, exist_ok=True)
            self._hold(self._out)
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def enter(self, folder: Path) -> None:
        """What follows is written to this folder.

        Raises:
            StoreError: another run writes to it.
            WriteError: it cannot be made, or looked at.
        """
        if folder == self._folder:
            return
        self._folder = None
        if self._out is None:
            self._lock.close()
            self._hold(folder)
        else:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
        self._folder = folder
        if self._held and folder not in self._swept:  # what others write now is not ours to delete
            self._swept.add(folder)
            self._sweep(folder)

    def _hold(self, folder: Path) -> None:
        """Keep others away from the folder."""

        def warn(problem: Problem) -> None:
            if self._held:  # the first that has no locks
                self._warn(problem)

        self._held = self._lock.enter_context(hold_folder(folder, warn)) and self._held

    def _sweep(self, folder: Path) -> None:
        """Delete what a killed run left half-written of the files that this one is to write."""
        with writing(folder), os.scandir(folder) as entries:
            names = [entry.name for entry in entries]
        for name in names:
            found = _LEFT_BEHIND.fullmatch(name)
            ours = found is not None and str(folder / found[1]) in self._own
            if ours or _SHORT_LEFT.fullmatch(name):
                with writing(folder / name):
                    (folder / name).unlink()


def short_neighbour(path: Path) -> Path:
    """A name beside `path` that a sweep knows, whatever the length of its own."""
    return path.with_name(f"{_SHORT}{os.getpid()}")


def write_any_name(path: Path, data: bytes) -> None:
    """As `write_atomically`, which needs a longer name than the file's, with any name."""
    try:
        write_atomically(path, data)
    except WriteError as error:
        if not isinstance(error.__cause__, OSError) or error.__cause__.errno != errno.ENAMETOOLONG:
            raise
        short = short_neighbour(path)
        write_atomically(short, data)
        try:
            with writing(path):
                short.replace(path)
                sync_folder(path.parent)
        finally:
            short.unlink(missing_ok=True)


def take_place(temporary: Path, path: Path, was: os.stat_result, *, dates: bool) -> None:
    """Give a new file the owner and permissions of the one at `path`, and then its name.

    Args:
        temporary: the new file, a neighbour.
        path: the file that it replaces.
        was: what that was when it was read.
        dates: whether its dates and extended attributes are kept too.

    Raises:
        WriteError: another program has changed it meanwhile, or it cannot be replaced.
    """
    with writing(path):
        now = path.stat()
        if any(getattr(was, name) != getattr(now, name) for name in _SAME):
            why = "another program has changed it meanwhile"
            raise WriteError(printable(str(path)), why, "Give the command again.")
        with contextlib.suppress(PermissionError):  # only root may give files away
            os.chown(temporary, was.st_uid, was.st_gid)
        (shutil.copystat if dates else shutil.copymode)(path, temporary)
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_folder(path.parent)


def no_use_going_on(error: WriteError) -> bool:
    """Whether the other files could not be written either: the disk is full, or broken."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno in _NO_USE_GOING_ON
