"""An output file that is made over hours: a journal beside it until it is whole.

`captions.jsonl` is written as `captions.jsonl.part`: what the run is, then a line for each picture.
After a kill the same command reads it and goes on. At the end the file is made from it under a
third name and renamed, so a reader sees the old file or the whole new one.
"""

import contextlib
import fcntl
import hashlib
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from io import FileIO
from pathlib import Path
from typing import Any, BinaryIO

from naic.data.folders import printable
from naic.data.readers.files import what_is
from naic.data.records import Problem
from naic.errors import ConfigError, StoreError, WriteError
from naic.files import TEMPORARY_SUFFIX, sync_folder, writing

_MAGIC = b'{"naic caption journal": 1, '


@dataclass(frozen=True, slots=True)
class Start:
    """What a run found when it first began, and must find again after a kill.

    Attributes:
        skipped: positions of the pictures that are not captioned: they have captions already.
        held: the rows of the file that was there, if they are kept.
        digest: of the file that was there; None if there was none.
    """

    skipped: Sequence[int] = ()
    held: Sequence[str] = ()
    digest: str | None = None


class Journal:
    """The journal of one run, held against all others; made by `journal`.

    Attributes:
        start: what the run found when it began.
        rows: how many captions are in it.
        problems: the pictures that have none, with the reason.
        fresh: it was begun just now.
    """

    def __init__(self, target: Path, file: FileIO) -> None:
        self.target = target
        self.part = _part(target)
        self._file = file
        self.start = Start()
        self.rows = 0
        self.problems: list[Problem] = []
        self.fresh = False

    @property
    def done(self) -> int:
        """How many pictures need no more work."""
        return self.rows + len(self.problems)

    def read(self, plan: dict[str, Any], begin: Callable[[], Start], batch: int) -> None:
        """Take up the journal of the run `plan`, or begin it.

        Whole batches are taken up: in others the sums of the network could differ in their last
        bits. `plan["pictures"]` is their number.
        """
        with writing(self.part), self.part.open("rb") as reader:
            header = reader.readline()
            if not header.endswith(b"\n") and _begins_alike(header):
                self.fresh = True  # new, or killed at its very first line
                self.start = begin()
                self._begin({"plan": plan, "start": asdict(self.start)})
                return
            begun, self.start = self._parse(header)
            self._refuse_other(begun, plan)
            self._take_up(reader, plan["pictures"] - len(self.start.skipped), batch)

    def add(self, outcome: str | Problem) -> None:
        """Note a row, or what is wrong with the picture."""
        value = asdict(outcome) if isinstance(outcome, Problem) else outcome
        self._write(json.dumps([self.done, value]).encode() + b"\n")
        self._count(outcome)

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

        temporary = self.target.with_name(f"{self.target.name}.whole{TEMPORARY_SUFFIX}")
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
        text = json.dumps({"naic caption journal": 1, **content}).encode()
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

    def _parse(self, header: bytes) -> tuple[dict[str, Any], Start]:
        try:
            kept = json.loads(header)
            return dict(kept["plan"]), Start(**kept["start"])
        except (ValueError, TypeError, KeyError):
            why = "it is there, and is no journal of naic caption"
            raise WriteError(printable(str(self.part)), why, "Move it away.") from None

    def _refuse_other(self, begun: dict[str, Any], plan: dict[str, Any]) -> None:
        differing = [key for key, value in plan.items() if begun.get(key) != value]
        if differing:
            why = f"it is of a run that was begun otherwise ({', '.join(differing)})"
            hint = "Give that command again, or delete the file to begin anew."
            raise ConfigError(printable(str(self.part)), why, hint)

    def _take_up(self, reader: BinaryIO, wanted: int, batch: int) -> None:
        """Read the lines that are whole, and cut off the rest."""
        ends = array("Q", [reader.tell()])
        outcomes: list[str | Problem] = []
        for line in reader:
            outcome = _outcome(line, len(outcomes))
            if outcome is None or len(outcomes) == wanted:
                break
            outcomes.append(outcome if isinstance(outcome, Problem) else "")
            ends.append(ends[-1] + len(line))
        keep = len(outcomes)
        if keep < wanted:
            keep -= keep % batch
        for outcome in outcomes[:keep]:
            self._count(outcome)
        self._file.truncate(ends[keep])

    def _count(self, outcome: str | Problem) -> None:
        if isinstance(outcome, Problem):
            self.problems.append(outcome)
        else:
            self.rows += 1

    def _own_rows(self) -> Iterator[str]:
        """From the disk: there may be millions."""
        with self.part.open("rb") as file:
            file.readline()
            for line in file:
                row = json.loads(line)[1]
                if isinstance(row, str):
                    yield row


@contextlib.contextmanager
def journal(
    out: Path, plan: dict[str, Any], begin: Callable[[], Start], batch: int
) -> Iterator[Journal]:
    """The journal of the output file `out`; a second run into it is refused.

    A link is followed: the file that it leads to is made, and the link stays. If the run fails
    before anything is in the journal, none is left.
    """
    target = Path(os.path.realpath(out))
    with _hold(_part(target), printable(str(out))) as file:
        made = Journal(target, file)
        try:
            made.read(plan, begin, batch)
            yield made
        except BaseException:  # Ctrl-C too
            if made.fresh and not made.done:
                made.discard()
            raise


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file; None if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def _part(target: Path) -> Path:
    return target.with_name(target.name + TEMPORARY_SUFFIX)


def _outcome(line: bytes, number: int) -> str | Problem | None:
    """What a line of the journal says; None of a line that a kill or a power cut left torn."""
    try:
        position, value = json.loads(line)
        if position != number or not line.endswith(b"\n"):
            return None
        return value if isinstance(value, str) else Problem(**value)
    except (ValueError, TypeError):
        return None


def _begins_alike(header: bytes) -> bool:
    return header.startswith(_MAGIC) or _MAGIC.startswith(header)


def _hold(part: Path, name: str) -> FileIO:
    """The open journal, locked; the kernel drops the lock when the process dies, however it dies.

    Its last holder may have finished and removed it between our opening and our locking: then what
    we hold has no name any more, and we begin again.
    """
    while True:
        if what_is(part) not in ("file", "missing"):
            raise WriteError(printable(str(part)), "it is no regular file", "Move it away.")
        with writing(part):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            file = FileIO(os.open(part, flags, 0o666), "r+")
        try:
            _lock(file, name)
            if part.exists() and os.path.samestat(os.fstat(file.fileno()), part.stat()):
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _lock(file: FileIO, name: str) -> None:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        why = "another run is writing to it"
        raise StoreError(name, why, "Wait for it to end, or choose another --out.") from None
    except OSError as error:
        why = f"it cannot be locked against other runs ({error.strerror})"
        raise StoreError(name, why, "Choose an --out on a disk of this machine.") from error
