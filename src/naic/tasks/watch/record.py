"""The hidden file of a watched folder: who watches it, and which photos need no second try.

What is done shows by the text files. What cannot be done, such as a photo that cannot be opened,
shows nowhere: it is noted here with its size and times, so that it is told once and tried again
only when it changes, after a restart too. If the file is lost, or captions are made otherwise than
when it was written, those photos are tried and told of once more.
"""

import json
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from naic.errors import StoreError
from naic.files import printable, writing
from naic.resume import Warn, hold_file

NAME = ".naic-watch"
_MAGIC = "naic watch"


class Signature(NamedTuple):
    """What shows that a file changed. No inode: some network disks give a new one each time."""

    size: int
    modified: int  # nanoseconds
    status: int  # nanoseconds: other permissions are a change too


def signature_of(path: str) -> Signature | None:
    """Of the file, or what a link leads to; None: it is gone."""
    try:
        found = os.stat(path)  # noqa: PTH116  # strings: a Path for each costs too much
    except (OSError, ValueError):
        return None
    return Signature(found.st_size, found.st_mtime_ns, found.st_ctime_ns)


class Record:
    """Which photos were tried in vain, and as what they were seen; made by `hold`."""

    def __init__(self, path: Path, file: FileIO, request: str) -> None:
        self._path = path
        self._file = file
        self._request = request
        self._known = dict(_read(path, request))
        self._write_anew(self._known)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not self._known

    def tried(self, name: str, now: Signature) -> bool:
        """Whether this photo was tried in vain just as it is now."""
        return self._known.get(name) == now

    def note(self, name: str, seen: Signature) -> None:
        """Note a photo that was tried in vain; a second note takes the place of the first."""
        self._known[name] = seen
        self._add(_line(name, seen))

    def keep(self, names: set[str]) -> None:
        """Forget all other photos: they are gone, have their text by now, or changed."""
        left = {name: seen for name, seen in self._known.items() if name in names}
        if len(left) < len(self._known):
            self._known = left
            self._write_anew(left)

    def _write_anew(self, known: Mapping[str, Signature]) -> None:
        """A kill in between forgets what was tried in vain, and nothing else."""
        own = {"process": os.getpid(), "host": socket.gethostname(), "request": self._request}
        head = {_MAGIC: 1, **own}
        lines = [_line(name, seen) for name, seen in known.items()]
        with writing(self._path):
            self._file.truncate(0)
        self._add(json.dumps(head).encode() + b"\n" + b"".join(lines))

    def _add(self, data: bytes) -> None:
        with writing(self._path):
            self._file.write(data)


@contextmanager
def hold(place: Path, request: str, warn: Warn) -> Iterator[Record]:
    """The record of the folder that takes the text files, held against all other watches.

    `request` tells how captions are made: what was tried in vain may now be had.

    Raises:
        StoreError: another watch has it.
        WriteError: nothing can be written there.
    """
    path = place / NAME
    with writing(place):
        place.mkdir(parents=True, exist_ok=True)
    try:
        file = hold_file(path, printable(str(path)), warn)
    except StoreError as error:
        if error.__cause__ is not None:  # it is not that someone else has it
            raise
        why = f"another naic watch is at work there{_holder(path)}"
        hint = "Stop that one first, or leave the folder to it."
        raise StoreError(printable(str(place)), why, hint) from None
    with file:
        record = Record(path, file, request)
        try:
            yield record
        finally:
            if record.empty:
                with suppress(OSError):
                    path.unlink()


def _holder(path: Path) -> str:
    """Who says in the record that it is its own."""
    with suppress(OSError, ValueError, KeyError, TypeError), path.open("rb") as file:
        head = json.loads(file.readline())
        return printable(f" (process {head['process']} on {head['host']})")
    return ""


def _line(name: str, seen: Signature) -> bytes:
    return json.dumps([name, *seen]).encode() + b"\n"  # in ASCII: any name


def _read(path: Path, request: str) -> Iterator[tuple[str, Signature]]:
    """What a record holds. A line that is none, as after a power cut, is left out."""
    with writing(path):
        lines = path.read_bytes().splitlines()
    for line in lines:
        with suppress(ValueError, TypeError):
            found = json.loads(line)
            if isinstance(found, dict):  # the head
                if found.get("request") != request:
                    return
                continue
            name, *numbers = found
            if isinstance(name, str) and all(isinstance(number, int) for number in numbers):
                yield name, Signature(*numbers)
