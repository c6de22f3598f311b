"""Going on with a run that was cut off: one process at a time, and only with the same request.

A task that takes long writes down what it was asked for before it does anything else. When it is
started again with the same request it goes on with what is there; with another one it is refused,
and so is a folder that holds something else. What a training run goes on from is found here too:
those who only look at one need no torch.
"""

import contextlib
import errno
import fcntl
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from fnmatch import fnmatch
from io import FileIO
from pathlib import Path
from typing import Any

from naic.errors import ConfigError, Problem, StoreError, WriteError
from naic.files import printable, what_is, write_atomically, writing

# What lies where in the folder of a training run (`train/checkpoint.py`, `train/report.py`).
CHECKPOINTS, MODELS, BEST, STATE = "checkpoints", "models", "best", "state.json"
REPORT = "report.json"  # written last
_STEP = re.compile(r"step-(\d{8,})")

Warn = Callable[[Problem], None]
OTHER_FOLDER = "Choose another --out."
_LONGEST_SHOWN = 40  # letters of a setting in a message: digests are longer
# What a file system without locks answers, such as some of a network.
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS)
_LOOK = 0.05  # seconds; a look takes microseconds
_ALONE = "The run goes on. Give no second command that writes there before it ends."


@contextlib.contextmanager
def locked(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Hold `folder` for one writer; a second one is refused at once.

    Several writers that know of each other hold it `shared`, and together keep out all others.

    The lock is on the folder itself, so no lock file is left behind, and the kernel drops it when
    the process dies, however it dies.
    """
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError as error:
        raise StoreError(
            str(folder), f"cannot be opened ({error.strerror})", "Choose another --out."
        ) from error
    try:
        try:
            _take(descriptor, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        except BlockingIOError:
            hint = "Wait for it to end, or choose another --out."
            raise StoreError(str(folder), "another run is writing to this folder", hint) from None
        except OSError as error:
            why = f"cannot be locked against other runs ({error.strerror})"
            hint = "Choose an --out on a disk of this machine."
            raise StoreError(str(folder), why, hint) from error
        yield
    finally:
        os.close(descriptor)


def _take(descriptor: int, kind: int) -> None:
    """Lock at once or not at all; who only looks (`is_held`) is gone at the second try."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        time.sleep(_LOOK)
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)


def is_held(folder: Path) -> bool | None:
    """Whether a writer holds the folder (see `locked`); None where that cannot be told."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False


@contextlib.contextmanager
def claim(folder: Path, *, shared: bool = False) -> Iterator[None]:
    """Make the folder if it is not there, and keep other runs out of it (see `locked`)."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with locked(folder, shared=shared):
        yield


def keep_request(path: Path, request: dict[str, Any], what: str, own: Collection[str] = ()) -> None:
    """Write down what is asked of the folder of `path`, or refuse one that was asked otherwise.

    Args:
        path: the file that keeps the request.
        request: all that a run that goes on must agree in.
        what: what the folder would hold, for the message.
        own: names, with wildcards, of what may be there before the request is.
    """
    if not path.exists():
        refuse_strangers(path.parent, [f"{path.name}*", *own], what)
        write_atomically(path, pretty(request))
        return
    try:
        before = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise StoreError(str(path), f"cannot be read ({error})", OTHER_FOLDER) from error
    refuse_changed(str(path.parent), before, request)


def refuse_strangers(folder: Path, own: Collection[str], what: str) -> None:
    """Refuse a folder with anything in it that is not named like one of `own` (with wildcards)."""
    if what_is(folder) in ("file", "special"):
        raise StoreError(str(folder), "it is no folder", OTHER_FOLDER)
    strangers = sorted(
        path.name
        for path in folder.glob("*")
        if not any(fnmatch(path.name, pattern) for pattern in own)
    )
    if strangers:
        why = f"the folder is not empty ({', '.join(strangers[:3])}) and holds no {what}"
        raise StoreError(str(folder), printable(why), OTHER_FOLDER)


def refuse_changed(
    where: str,
    before: object,
    request: Mapping[str, Any],
    hint: str = "Give the same command as before, or choose another --out.",
) -> None:
    """Refuse a request that differs from the one that the run was begun with."""
    kept = before if isinstance(before, dict) else {}
    changed = [
        _changed(name, kept.get(name), value)
        for name, value in request.items()
        if kept.get(name) != value
    ]
    if changed:
        raise ConfigError(where, f"it was begun with {', '.join(changed)}", hint)


def _changed(name: str, before: object, now: object) -> str:
    if max(len(repr(before)), len(repr(now))) > _LONGEST_SHOWN:
        return f"another {name}"
    begun = f"no {name}" if before is None else f"{name} = {before!r}"
    return f"{begun} (now {now!r})"


def digest_of(path: Path) -> str | None:
    """SHA-256 of a file; None if there is none."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return None


def pretty(value: dict[str, Any]) -> bytes:
    """JSON that people may read."""
    return (json.dumps(value, indent=2) + "\n").encode()


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


def step_name(step: int) -> str:
    """The name of a step's folder: names in order are steps in order."""
    return f"step-{step:08d}"


def checkpoints(run: Path) -> dict[int, Path]:
    """All checkpoints by their steps, oldest first, whole or not.

    Whatever has such a name counts, so that none is missed.
    """
    paths = (run / CHECKPOINTS).glob("step-*")
    matched = ((_STEP.fullmatch(path.name), path) for path in paths)
    return dict(sorted((int(m[1]), path) for m, path in matched if m))


def best_step(run: Path) -> int | None:
    """The step that the best model is of; None where there is none, or a copy of it."""
    try:
        found = _STEP.match((run / BEST).readlink().name)  # there may be more: "step-00000400-2"
    except OSError:
        return None
    return int(found[1]) if found else None
