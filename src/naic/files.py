"""How naic touches the disk: whole files and folders or none, one writer, odd names and all."""

import contextlib
import errno
import json
import os
import re
import shutil
import stat
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from naic.errors import CheckpointError, ConfigError, DataError, WriteError

TEMPORARY_SUFFIX = ".part"
# The files of a model folder (`models/folder.py`).
WEIGHTS, CONFIG, VOCABULARY, CARD = "model.safetensors", "config.toml", "vocab.json", "README.md"
STYLE = "style.json"  # beside them, where the model has one
REPRODUCTION, FINETUNING = "run.json", "finetune.json"  # what a folder of many runs was asked for
COMMAND = "command.txt"  # of a fine-tuning, in its folder work: what was run
CODES = "/codes"  # how the name of a packed weight ends in a safetensors file (`packing.py`)
_SAVING, _REMOVED = ".saving-", ".removed-"
# Control characters (a terminal obeys them), marks that turn the direction of a line, lone
# surrogates, which stand for bytes that are not UTF-8, and what has no place in XML.
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def write_atomically(path: Path, *chunks: bytes | memoryview) -> None:
    """Write the chunks to `path` so that after a crash it is whole, or as it was before.

    The bytes go to a neighbour first, are synced, then renamed over `path`; the folder is synced
    too, since without that a power cut may undo the rename. A link is followed: the file that it
    leads to is written, and the link stays. What is no file, such as a device, is refused.
    """
    with writing(path):
        target = Path(os.path.realpath(path))
        if target.exists() and not target.is_file():
            why = "it is there, and is no regular file"
            raise WriteError(str(path), why, "Choose another name.")
        _write_and_rename(target, chunks)


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell of a disk that is full, or a folder that is not ours, as our own error."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            hint = "Free some space and run the same command again."
            raise WriteError(str(path), "the disk is full", hint) from error
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
def whole_folder(folder: Path) -> Iterator[Path]:
    """A temporary neighbour to fill, which then takes the name `folder`, synced to the disk.

    A kill leaves at most a `.saving-…` folder behind, for `sweep` to remove.
    """
    if os.path.lexists(folder):
        raise CheckpointError(str(folder), "is there already", "Choose a new name.")
    temporary = folder.with_name(f"{_SAVING}{folder.name}.{os.getpid()}")
    with writing(folder):
        try:
            shutil.rmtree(temporary, ignore_errors=True)  # of a dead process that had our number
            temporary.mkdir(parents=True)
            yield temporary
            sync_folder(temporary)
            temporary.rename(folder)
            sync_folder(folder.parent)
        except BaseException:  # Ctrl-C too
            shutil.rmtree(temporary, ignore_errors=True)
            raise


def remove_folder(folder: Path) -> None:
    """Remove a folder so that its name never stands for half of it."""
    if folder.is_symlink():  # what it leads to is not ours
        folder.unlink()
        return
    doomed = folder.with_name(f"{_REMOVED}{folder.name}.{os.getpid()}")
    folder.rename(doomed)
    shutil.rmtree(doomed)


def sweep(parent: Path) -> None:
    """Remove what killed writers left in `parent`; only the holder of the run's lock may."""
    for prefix in (_SAVING, _REMOVED):
        for path in parent.glob(f"{prefix}*"):
            shutil.rmtree(path)


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


def keep_in_cache(path: Path, data: bytes) -> None:
    """Write a file of the cache; where that cannot be done, it is made again next time."""
    with contextlib.suppress(OSError, WriteError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, data)


def printable(text: str) -> str:
    """`text` with what a report, an id or a UTF-8 file cannot hold written as an escape.

    File names may be anything; none of those may fail, or be fooled, by an odd one.
    """
    if text.isprintable():
        return text
    return _UNPRINTABLE.sub(lambda bad: bad[0].encode("unicode_escape").decode("ascii"), text)


def is_folder(entry: "os.DirEntry[str]") -> bool:
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
            if not is_folder(entry):
                files.append(entry.name)
            elif not entry.name.startswith("."):
                (linked if entry.is_symlink() else real).append(entry.path)
        yield folder, files


def what_is(path: Path) -> Literal["folder", "file", "special", "missing"]:
    """What lies at a path; never raises, whatever the path looks like."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return "missing"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "special"


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """A JSON object; of two values under one key Python would drop the first without a word."""
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _repeated(pairs)
    return value


def _repeated(pairs: list[tuple[str, object]]) -> "_RepeatedKeyError":
    keys = [key for key, _ in pairs]
    return _RepeatedKeyError(printable(next(key for key in keys if keys.count(key) > 1)))


class _RepeatedKeyError(Exception):
    """A key that an object of the JSON has twice."""


def parse_json(text: str, where: str, unused: tuple[str, str] | None = None) -> object:
    """The value of a JSON text; raises DataError with `where`, and the line and column.

    The line is left out for a text of one line: the caller knows better which one that is.
    `unused` is a key to forget at once wherever an object also has a string under another:
    what nobody reads need not fill the memory until the whole file is parsed.
    """
    dropped, kept = unused or ("", "")

    def lean(pairs: list[tuple[str, object]]) -> dict[str, object]:
        value = dict(pairs)  # `_once`, written out: this runs 700,000 times for COCO's file
        if len(value) < len(pairs):
            raise _repeated(pairs)
        if dropped in value and isinstance(value.get(kept), str):
            del value[dropped]
        return value

    try:
        value: object = json.loads(text, object_pairs_hook=lean if unused else _once)
    except json.JSONDecodeError as error:
        place = f"column {error.colno}"
        if "\n" in text.strip():
            place = f"line {error.lineno}, {place}"
        hint = "Repair that place, or get the file again: it may be cut off."
        raise DataError(where, f"broken JSON at {place}: {error.msg}", hint) from None
    except _RepeatedKeyError as error:
        why = f"an object in the JSON has the key {str(error)!r} twice"
        raise DataError(where, why, "Keep one of the two.") from None
    except RecursionError:
        raise DataError(where, "the JSON is nested too deeply", "Is it a dataset?") from None
    except ValueError as error:
        why = f"the JSON holds a number of too many digits ({error})"
        raise DataError(where, why, "Is it a dataset?") from None
    return value


def safetensors_header(
    tensors: Iterable[tuple[str, str, Sequence[int], int]],
    metadata: dict[str, str],
    separators: tuple[str, str] | None = None,
) -> bytes:
    """What a safetensors file of these tensors begins with; their bytes follow in this order.

    Written by hand, so that tensors go to the disk one by one as they lie in memory, and so that
    the same tensors give the same bytes whatever the library's version.

    Args:
        tensors: name, kind (as "F16"), shape and number of bytes of each.
        metadata: what else the header says.
        separators: of the JSON.
    """
    header: dict[str, object] = {"__metadata__": metadata}
    end = 0
    for name, kind, shape, size in tensors:
        start, end = end, end + size
        header[name] = {"dtype": kind, "shape": [*shape], "data_offsets": [start, end]}
    text = json.dumps(header, separators=separators).encode()
    text += b" " * (-len(text) % 8)  # the tensors start aligned
    return len(text).to_bytes(8, "little") + text
