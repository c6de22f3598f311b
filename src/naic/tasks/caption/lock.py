"""One run at a time writes to a place; where the disk knows no locks, that is said and no more.

The kernel drops a lock when its process dies, however it dies.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from io import FileIO
from pathlib import Path

from naic.data.folders import printable
from naic.data.readers.files import what_is
from naic.data.records import Problem
from naic.errors import StoreError, WriteError
from naic.files import locked, writing

Warn = Callable[[Problem], None]

# What a file system without locks answers, such as some of a network.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)
_ALONE = "The run goes on. Give no second command that writes there before it ends."


def hold_file(path: Path, name: str, warn: Warn) -> FileIO:
    """The file, open to be added to, and locked; `name` is what to call it.

    Its last holder may have finished and removed it between our opening and our locking: then what
    we hold has no name any more, and we begin again.
    """
    while True:
        if what_is(path) not in ("file", "missing"):
            raise WriteError(printable(str(path)), "it is no regular file", "Move it away.")
        with writing(path):
            flags = os.O_RDWR | os.O_CREAT | os.O_APPEND
            file = FileIO(os.open(path, flags, 0o666), "r+")
        try:
            unlocked = _lock(file, name)
            if path.exists() and os.path.samestat(os.fstat(file.fileno()), path.stat()):
                if unlocked:
                    warn(unlocked)
                return file
        except BaseException:
            file.close()
            raise
        file.close()


def _lock(file: FileIO, name: str) -> Problem | None:
    """Keep other runs away from the file, or say that this cannot be done where it lies."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        why = "another run is writing to it"
        raise StoreError(name, why, "Wait for it to end, or choose another --out.") from None
    except OSError as error:
        why = f"it cannot be locked against other runs ({error.strerror})"
        if error.errno in _NO_LOCKS:
            return Problem(name, why, _ALONE)
        raise StoreError(name, why, "Choose an --out on a disk of this machine.") from error
    return None


@contextlib.contextmanager
def hold_folder(folder: Path, warn: Warn) -> Iterator[bool]:
    """Hold the folder; False where there are no locks, and other runs may write to it too.

    Raises:
        StoreError: another run writes to it, or it cannot be opened.
    """
    with contextlib.ExitStack() as lock:
        try:
            lock.enter_context(locked(folder))
            held = True
        except StoreError as error:
            cause = error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in _NO_LOCKS:
                raise
            warn(Problem(printable(error.what), error.why, _ALONE))
            held = False
        yield held
