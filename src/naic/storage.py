"""Files by path or by URL: on this machine, in an object store, on a web server.

A path is a file of this machine, and takes nothing but Python. A URL (`s3://bucket/key`,
`https://host/file`, `memory://name`) goes through fsspec (`stores.py`), which is imported when the
first URL is met. What is asked of a store is little, so that any of them can do it: read a file,
write a whole one, list a prefix once.
"""

import contextlib
import errno
import fcntl
import mmap
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any, Final, cast
from urllib.parse import unquote, urlsplit

from naic.errors import StorageError, WriteError
from naic.files import TEMPORARY_SUFFIX, walk, write_atomically, writing
from naic.stores import IS_MISSING, LOOK_AGAIN, open_store, shown, telling

_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.:_-]*://")
_FILE: Final = "file://"
# Stores in which an object appears when its last byte has arrived, and not before. Over sftp, or in
# a mounted folder of another machine, a name stands for what has been written so far.
_WHOLE_OR_NOT: Final = frozenset(("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "adl", "memory"))
_PART: Final = 16 * 2**20  # bytes of an upload's part: S3 takes 10,000 parts, so 160 GB
_PARTS_AT_ONCE: Final = 4  # they are in memory meanwhile
_SCRATCH: Final = "naic-shard-"


def is_remote(where: str) -> bool:
    """Whether this is a URL, not a file of this machine; `file://` leads to one of these."""
    return _URL.match(where) is not None and not where.startswith(_FILE)


def local(where: str) -> Path:
    """The path that a path or a `file://` URL means."""
    if where.startswith(_FILE):
        return Path(unquote(urlsplit(where).path))
    return Path(where)


def join(base: str, *names: str) -> str:
    """A name, or several, beneath a folder or a prefix."""
    if not is_remote(base):
        return str(local(base).joinpath(*names))
    return "/".join([base.rstrip("/"), *(name.strip("/") for name in names)])


def name_of(where: str) -> str:
    """The last part of a path or a URL, without what a URL asks (`?…`)."""
    if not is_remote(where):
        return local(where).name
    path = urlsplit(where).path if where.startswith(("http://", "https://")) else where
    return path.rstrip("/").rpartition("/")[2]


def open_read(where: str) -> IO[bytes]:
    """A file to read from, in which one can also seek.

    Raises:
        StorageError: it is not there, or cannot be read.
        MissingExtraError: fsspec is needed, or what it needs for this kind of URL.
    """
    with _reading(where):
        if not is_remote(where):
            return local(where).open("rb")
        store, path = open_store(where)
        return cast(IO[bytes], store.open(path, "rb"))


def read_bytes(where: str) -> bytes:
    """The whole of a file. Raises as `open_read` does."""
    with _reading(where):
        if not is_remote(where):
            return local(where).read_bytes()
        store, path = open_store(where)
        return cast(bytes, store.cat_file(path))


def write_whole(where: str, data: bytes | Path) -> None:
    """Write a file that is whole, or as it was before, at every moment, whatever is killed.

    On this machine that is `write_atomically`, and folders are made; in an object store one request
    is sent, or many parts and one that makes an object of them. A process that is killed between
    parts leaves parts without a name, which no listing shows and the store's rules remove; one
    that fails takes them back.

    Args:
        where: a path, or a URL of an object store.
        data: the bytes, or a file of this machine that has them.

    Raises:
        WriteError: it cannot be written there.
        MissingExtraError: as `open_read`.
    """
    if not is_remote(where):
        target = local(where)
        with writing(target):
            target.parent.mkdir(parents=True, exist_ok=True)
        with _bytes_of(data) as chunk:
            write_atomically(target, chunk)
        return
    protocol = where.partition("://")[0].lower()
    if protocol not in _WHOLE_OR_NOT:
        why = f"half a file could be seen there while it is written, as in any store by {protocol}"
        raise WriteError(
            shown(where), why, "Write to a folder of this machine, or to an s3:// bucket."
        )
    in_parts = protocol in ("s3", "s3a")
    how = {"chunksize": _PART, "max_concurrency": _PARTS_AT_ONCE} if in_parts else {}
    with telling(where, WriteError, "written"):
        store, path = open_store(where)
        if isinstance(data, bytes):
            store.pipe_file(path, data, **how)
        else:
            store.put_file(str(data), path, **how)


def write_new(where: str, data: bytes) -> None:
    """Write a file unless there is one; of two who do so at once one is heard, the first.

    In an object store it is the last: not all of them know conditions.
    """
    if is_remote(where):
        if not exists(where):
            write_whole(where, data)
        return
    target = local(where)
    mine = target.with_name(
        f"{target.name}.{os.getpid()}-{threading.get_ident()}-new{TEMPORARY_SUFFIX}"
    )
    write_whole(str(mine), data)
    try:
        os.link(mine, target)  # which replaces nothing
    except FileExistsError:
        pass
    except OSError:  # a file system without links
        if not target.exists():
            write_whole(where, data)
    finally:
        mine.unlink(missing_ok=True)


def exists(where: str) -> bool:
    """Whether a file is there; that a server cannot be asked is an error, and no "no"."""
    try:
        return str(_info(where)["type"]) == "file"
    except StorageError as error:
        if error.why == IS_MISSING:
            return False
        raise


def size(where: str) -> int | None:
    """Bytes of a file; None where a web server does not say. Raises as `open_read` does."""
    return cast(int | None, _info(where)["size"])


def list_under(prefix: str, suffixes: Sequence[str]) -> list[str]:
    """The files beneath a folder or a prefix that end in one of these, in order of their names.

    That is one listing (a store answers a thousand names at a time). Nothing there is no error.

    Raises:
        StorageError: it cannot be listed.
        MissingExtraError: as `open_read`.
    """
    if not is_remote(prefix):
        found = _list_local(local(prefix))
    elif prefix.startswith(("http://", "https://")):
        raise StorageError(shown(prefix), "a web server has no listing", "Name each file's URL.")
    else:
        with _reading(prefix):
            store, root = open_store(prefix)
            names = cast(list[str], store.find(root))
        found = [join(prefix, name.removeprefix(root.rstrip("/"))) for name in names]
    return sorted(name for name in found if name.endswith(tuple(suffixes)))


def _list_local(root: Path) -> list[str]:
    def failed(folder: str, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):  # gone meanwhile, or nothing there yet
            why = f"cannot be listed ({error.strerror})"
            raise StorageError(folder, why, "Check the folder's permissions.") from error

    return [f"{folder}/{name}" for folder, names in walk(str(root), failed) for name in names]


@contextlib.contextmanager
def local_copy(where: str, folder: Path | None = None) -> Iterator[Path]:
    """A file of this machine with the same bytes: the file itself, or a copy for as long as this.

    A shard is read whole and in order, by libraries that want a path; and a connection that breaks
    in the middle is then found before the first image, by the length.

    Args:
        where: a path or a URL.
        folder: where copies are kept; the system's temporary folder.

    Raises:
        StorageError: it cannot be read, or not all of it came.
        MissingExtraError: as `open_read`.
    """
    if not is_remote(where):
        with _reading(where):
            local(where).stat()
        yield local(where)
        return
    with _scratch(folder or Path(tempfile.gettempdir())) as scratch:
        copy = scratch / (name_of(where) or "file")
        expected = size(where)
        with _reading(where):
            _fetch(where, copy)
        got = copy.stat().st_size
        if expected is not None and got != expected:
            why = f"{got:,} of its {expected:,} bytes came"
            raise StorageError(shown(where), why, LOOK_AGAIN)
        yield copy


def _fetch(where: str, copy: Path) -> None:
    """Copy a file of a store; a disk that is full here is no fault of that file."""
    store, path = open_store(where)
    try:
        store.get_file(path, str(copy))
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        hint = "Free some space, or set TMPDIR to a folder with room for a shard for each process."
        raise WriteError(str(copy.parent.parent), "the disk is full", hint) from error


@contextlib.contextmanager
def _scratch(parent: Path) -> Iterator[Path]:
    """A folder that is ours while its lock is held; those of killed processes are removed."""
    for left in parent.glob(f"{_SCRATCH}*"):
        with contextlib.suppress(OSError):  # it is in use, another's, or gone
            held = os.open(left, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(left)
            finally:
                os.close(held)
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=parent))
        try:
            held = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:  # somebody took it for a left one, as below
            continue
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            if folder.exists():  # nobody took it for a left one before it was locked
                yield folder
                return
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


def _info(where: str) -> dict[str, Any]:
    with _reading(where):
        if not is_remote(where):
            path = local(where)
            return {"size": path.stat().st_size, "type": "file" if path.is_file() else "other"}
        store, path_there = open_store(where)
        return cast(dict[str, Any], store.info(path_there))


@contextlib.contextmanager
def _bytes_of(data: bytes | Path) -> Iterator[bytes | memoryview]:
    """The bytes, or those of a file without a copy of them in memory."""
    if isinstance(data, bytes):
        yield data
    elif data.stat().st_size == 0:  # nothing to map
        yield b""
    else:
        with (
            data.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped,
            memoryview(mapped) as view,
        ):
            yield view


def _reading(where: str) -> "contextlib.AbstractContextManager[None]":
    return telling(where, StorageError, "read")
