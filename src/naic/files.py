"""How naic touches the disk: whole files or none, one writer to a folder, one cache folder."""

import contextlib
import errno
import fcntl
import os
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from naic.errors import ConfigError, StoreError, WriteError

TEMPORARY_SUFFIX = ".part"


def write_atomically(path: Path, *chunks: bytes | memoryview) -> None:
    """Write the chunks to `path` so that after a crash it is whole, or as it was before.

    The bytes go to a neighbour first, are synced, then renamed over `path`; the folder is synced
    too, since without that a power cut may undo the rename. A link is followed: the file that it
    leads to is written, and the link stays. What is no file, such as a device, is refused.
    """
    try:
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            why = "it is there, and is no regular file"
            raise WriteError(str(path), why, "Choose another name.")
        _write_and_rename(target, chunks)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise WriteError(
                str(path), "the disk is full", "Free some space and run the same command again."
            ) from error
        hint = "Check the name, and the folder's permissions."
        raise WriteError(str(path), f"cannot be written ({error.strerror})", hint) from error


def _write_and_rename(target: Path, chunks: Iterable[bytes | memoryview]) -> None:
    # With process and thread in its name: two writers of one file must not share a temporary.
    writer = f"{os.getpid()}-{threading.get_ident()}"
    temporary = target.with_name(f"{target.name}.{writer}{TEMPORARY_SUFFIX}")
    try:
        with temporary.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
        sync_folder(target.parent)
    except BaseException:  # Ctrl-C too
        with contextlib.suppress(OSError):  # what went wrong first is what must be told
            temporary.unlink()
        raise


def sync_folder(folder: Path) -> None:
    """Make a rename in `folder` survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_temporaries(folder: Path, *names: str) -> None:
    """Delete what a killed writer of these files left half-written, and nothing else.

    `names` may have wildcards. Only the holder of the folder's lock may call this.
    """
    for name in names:
        for path in folder.glob(f"{name}.*{TEMPORARY_SUFFIX}"):
            path.unlink()


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold `folder` for one writer; a second one is refused at once.

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
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                str(folder),
                "another run is writing to this folder",
                "Wait for it to end, or choose another --out.",
            ) from None
        except OSError as error:
            raise StoreError(
                str(folder),
                f"cannot be locked against other runs ({error.strerror})",
                "Choose an --out on a disk of this machine.",
            ) from error
        yield
    finally:
        os.close(descriptor)


def cache_folder() -> Path:
    """Where things that can be made again are kept: $NAIC_CACHE, else the user's cache folder."""
    if chosen := os.environ.get("NAIC_CACHE"):
        return Path(chosen)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "naic"
    try:
        return Path.home() / ".cache" / "naic"
    except RuntimeError:  # no HOME, and a user whom the system does not know: a bare container
        # No fall back to the system's temporary folder: others could put things there for us.
        why = "it is not set, and this user has no home folder to keep a cache in"
        raise ConfigError("NAIC_CACHE", why, "Set it to a folder.") from None
