"""An output file that is made over hours: a journal beside it until it is whole.

`captions.jsonl` is written as `captions.jsonl.part`: what the run is, then a line for each image.
After a kill the same command reads it and goes on, with the images that are there by then. At the
end the file is made from it under a third name and renamed, so a reader sees the old file or the
whole new one.
"""

import contextlib
import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any, NamedTuple

from naic.errors import ConfigError, Problem, WriteError
from naic.files import TEMPORARY_SUFFIX, printable, sync_folder, writing
from naic.resume import Warn, digest_of, hold_file, refuse_changed
from naic.tasks.caption.unsure import Unsure

_MAGIC = b'{"naic caption journal": 2, '
_NOWHERE = -1


@dataclass(frozen=True, slots=True)
class Start:
    """What a run found when it first began, and must find again after a kill.

    Attributes:
        held: the rows of the file that was there, if they are kept.
        digest: of the file that was there; None if there was none.
    """

    held: Sequence[str] = ()
    digest: str | None = None


class _Line(NamedTuple):
    """Where a line ends, which wanted image it is of, if any, and why that has no row."""

    end: int
    number: int
    missing: Problem | Unsure | None


class Journal:
    """The journal of one run, held against all others; made by `journal`.

    Attributes:
        start: what the run found when it began.
        rows: how many captions of wanted images are in it.
        problems: the wanted images that could not be used, with the reason.
        unsure: the paths of those whose captions are left out, and why.
        fresh: it was begun just now.
    """

    def __init__(self, target: Path, file: FileIO) -> None:
        self.target = target
        self.part = _part(target)
        self._file = file
        self.start = Start()
        self.rows = 0
        self.problems: list[Problem] = []
        self.unsure: list[tuple[str, Unsure]] = []
        self.fresh = False
        self._wanted: Sequence[str] = ()
        self._lines = self._size = 0
        self._places = array("q")  # of the line of each wanted image

    def read(self, request: dict[str, Any], begin: Callable[[], Start]) -> None:
        """Take up the journal of the run that was asked for in this way, or begin it."""
        with writing(self.part), self.part.open("rb") as reader:
            header = reader.readline()
        alike = header.startswith(_MAGIC) or _MAGIC.startswith(header)
        if not header.endswith(b"\n") and alike:
            self.fresh = True  # new, or killed at its very first line
            self.start = begin()
            self._begin({"plan": request, "start": asdict(self.start)})
            return
        begun, self.start = self._parse(header)
        hint = "Give that command again, or delete the file to begin anew."
        refuse_changed(printable(str(self.part)), begun, request, hint)
        self._size = len(header)

    def take_up(self, wanted: Sequence[str], batch: int) -> list[int]:
        """Read what is known of the images with these paths; which of them are to be captioned.

        The list may have changed since: lines of images that were deleted are not used. Whole
        batches are taken up: in others the sums of the network could differ in their last bits.

        Raises:
            ConfigError: captions of images that are there, but not wanted, would be lost.
        """
        self._wanted = wanted
        self._places = array("q", [_NOWHERE]) * len(wanted)
        lines = self._whole_lines({path: number for number, path in enumerate(wanted)})
        if len({line.number for line in lines} - {_NOWHERE}) < len(wanted):
            del lines[len(lines) - len(lines) % batch :]
        for line in lines:
            if line.number != _NOWHERE:
                self._note(line.number, self._size, line.missing)
            self._size = line.end
        self._lines = len(lines)
        with writing(self.part):
            self._file.truncate(self._size)
        return [number for number, place in enumerate(self._places) if place == _NOWHERE]

    def add(self, number: int, outcome: str | Problem | Unsure) -> None:
        """Note the row of the wanted image of this number, or why it has none."""
        missing = None if isinstance(outcome, str) else outcome
        value = outcome if isinstance(outcome, str) else asdict(outcome)
        line = json.dumps([self._lines, self._wanted[number], value]).encode() + b"\n"
        begin = self._size
        self._write(line)
        self._lines += 1
        self._note(number, begin, missing)

    def finish(
        self,
        whole: Callable[[Iterable[str]], Iterable[str]],
        known: Callable[[str], bool] = lambda row: False,
    ) -> int:
        """Make the file from the rows; `whole` says what stands around them.

        Rows that are `known` to be in the file already are left out; returns how many.
        """
        kept = 0

        def rows() -> Iterator[str]:
            nonlocal kept
            yield from self.start.held
            for row in self._own_rows():
                if known(row):
                    kept += 1
                else:
                    yield row

        temporary = _whole(self.target)
        digest = hashlib.sha256()
        with writing(self.target):
            try:
                with temporary.open("wb") as file:
                    for piece in whole(rows()):
                        data = piece.encode("utf-8", "surrogateescape")
                        digest.update(data)
                        file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                self._refuse_changed(digest.hexdigest())
                temporary.replace(self.target)
            except BaseException:  # Ctrl-C too
                with contextlib.suppress(OSError):
                    temporary.unlink()
                raise
            sync_folder(self.target.parent)
            self.part.unlink()
        return kept

    def _refuse_changed(self, new: str) -> None:
        """Nobody's work is written over; after a kill at the very end, the file is ours already."""
        if digest_of(self.target) not in (self.start.digest, new):
            why = "somebody else has written to it since this run began"
            hint = f"Move it away and give the same command; {self.part.name} has all."
            raise WriteError(printable(str(self.target)), why, hint)

    def discard(self) -> None:
        """Remove the journal: there is nothing in it that could be lost."""
        with contextlib.suppress(OSError):
            self.part.unlink()

    def _begin(self, content: dict[str, Any]) -> None:
        text = json.dumps({"naic caption journal": 2, **content}).encode()
        assert text.startswith(_MAGIC)
        with writing(self.part):
            self._file.truncate(0)
        self._write(text + b"\n")

    def _write(self, data: bytes) -> None:
        """To the end of the file at once: what is said to be noted is not lost by a kill."""
        rest = memoryview(data)
        with writing(self.part):
            while rest:
                rest = rest[self._file.write(rest) :]
        self._size += len(data)

    def _parse(self, header: bytes) -> tuple[dict[str, Any], Start]:
        try:
            kept = json.loads(header)
            return dict(kept["plan"]), Start(**kept["start"])
        except (ValueError, TypeError, KeyError):
            why = "it is there, and is no journal of naic caption"
            raise WriteError(printable(str(self.part)), why, "Move it away.") from None

    def _whole_lines(self, numbers: dict[str, int]) -> list[_Line]:
        """Those before the first that a kill or a power cut left torn."""
        found: list[_Line] = []
        end = self._size
        with writing(self.part), self.part.open("rb") as reader:
            reader.seek(end)
            for data in reader:
                parsed = _read_line(data, len(found))
                if parsed is None:
                    break
                path, missing = parsed
                if path not in numbers and missing is None:
                    self._refuse_lost(path)
                end += len(data)
                found.append(_Line(end, numbers.get(path, _NOWHERE), missing))
        return found

    def _refuse_lost(self, path: str) -> None:
        """The caption of an image that was deleted is no loss; others are of another command.

        So they are if the folder is gone: its disk may not be mounted.
        """
        if os.path.lexists(path):
            why = "which this command does not name"
            hint = "Give the command that began it, or delete the file to begin anew."
        elif not Path(path).parent.is_dir():
            why = "and the folder that it was in is gone"
            hint = "Mount its disk; or, if you deleted it, make an empty folder in its place."
        else:
            return
        what = f"it has a caption of {printable(path)}, {why}"
        raise ConfigError(printable(str(self.part)), what, hint)

    def _note(self, number: int, place: int, missing: Problem | Unsure | None) -> None:
        self._places[number] = place
        if missing is None:
            self.rows += 1
        elif isinstance(missing, Unsure):
            self.unsure.append((self._wanted[number], missing))
        else:
            self.problems.append(missing)

    def _own_rows(self) -> Iterator[str]:
        """In the order of the wanted images; from the disk, as there may be millions."""
        with self.part.open("rb") as file:
            for place in self._places:
                if place != _NOWHERE:
                    file.seek(place)
                    row = json.loads(file.readline())[-1]
                    if isinstance(row, str):
                        yield row


@contextlib.contextmanager
def journal(
    out: Path, request: dict[str, Any], begin: Callable[[], Start], warn: Warn
) -> Iterator[Journal]:
    """The journal of the output file `out`; a second run into it is refused.

    A link is followed: the file that it leads to is made, and the link stays. If the run fails
    before anything is in the journal, none is left. `warn` hears of a disk that has no locks, where
    a second run cannot be noticed.
    """
    target = Path(os.path.realpath(out))
    with writing(out), contextlib.suppress(FileNotFoundError):
        _whole(target).lstat()  # a name too long for it is told of now, not in the end
    with hold_file(_part(target), printable(str(out)), warn) as file:
        made = Journal(target, file)
        try:
            made.read(request, begin)
            yield made
        except BaseException:  # Ctrl-C too
            if made.fresh and not (made.rows or made.problems or made.unsure):
                made.discard()
            raise


def _part(target: Path) -> Path:
    return target.with_name(target.name + TEMPORARY_SUFFIX)


def _whole(target: Path) -> Path:
    return target.with_name(f"{target.name}.whole{TEMPORARY_SUFFIX}")


def _read_line(data: bytes, number: int) -> tuple[str, Problem | Unsure | None] | None:
    """The image that a line is of, and why it has no row; None: the line is not whole."""
    try:
        position, path, value = json.loads(data)
        missing = None if isinstance(value, str) else _missing(**value)
    except (ValueError, TypeError):
        return None
    whole = position == number and isinstance(path, str) and data.endswith(b"\n")
    return (path, missing) if whole else None


def _missing(**value: Any) -> Problem | Unsure:  # noqa: ANN401 - as they were written
    return Unsure(**value) if "confidence" in value else Problem(**value)
