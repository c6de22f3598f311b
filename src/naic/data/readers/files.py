"""Reading a source whole: unpacked, decoded, parsed, and every failure named with its place."""

import gzip
import json
import lzma
import stat
import zlib
from pathlib import Path
from typing import Literal

from naic.data.folders import printable
from naic.data.readers.entries import kind
from naic.errors import DataError

XZ, GZIP = b"\xfd7zXZ\x00", b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_STREAMS = (Path("/dev/stdin"), Path("/dev/fd"))  # what a shell hands us: somebody writes to it


def what_is(path: Path) -> Literal["folder", "file", "special", "missing"]:
    """What lies at a path; never raises, whatever the path looks like."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return "missing"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "special"


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked if they are xz or gzip whatever the file is called."""
    name = printable(str(path))
    if what_is(path) == "special" and not {path, path.parent} & set(_STREAMS):
        # Reading a pipe without a writer, or a device, may never end.
        raise DataError(name, "it is not a regular file", "Copy it to one.")
    try:
        data = path.read_bytes()
        if data.startswith(XZ):
            data = lzma.decompress(data)
        elif data.startswith(GZIP):
            data = gzip.decompress(data)
    except FileNotFoundError:
        raise DataError(name, "there is no such file", "Check the path.") from None
    except IsADirectoryError:
        raise DataError(name, "it is a folder", "Give the path of a file in it.") from None
    except (lzma.LZMAError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        why = f"it is a damaged or cut archive ({error})"
        raise DataError(name, why, "Download or copy it again.") from error
    except (OSError, ValueError) as error:
        raise DataError(name, f"it cannot be read ({error})", "Check its permissions.") from error
    if data.startswith(_UTF16):
        raise DataError(name, "it is UTF-16 text", "Save it as UTF-8.")
    return data


def read_text(path: Path) -> str:
    """The text of a file; bytes that are not UTF-8 become lone surrogates (see `is_text`)."""
    return read_bytes(path).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")


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


def read_json(path: Path, unused: tuple[str, str] | None = None) -> object:
    """What a JSON file holds; strict about UTF-8, since no row can be named.

    For `unused` see `parse_json`.
    """
    return decode_json(read_bytes(path), printable(str(path)), unused)


def decode_json(data: bytes, name: str, unused: tuple[str, str] | None = None) -> object:
    """What the bytes of a JSON file hold; `name` is what to call it in a message."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        why = f"byte {error.start + 1}, on line {line}, is not UTF-8"
        raise DataError(name, why, "Save the file as UTF-8.") from None
    del data
    if not text.strip():
        raise DataError(name, "the file is empty", "Get it again.")
    return parse_json(text, name, unused)


def read_json_object(path: Path, unused: tuple[str, str] | None = None) -> dict[str, object]:
    """The object that the JSON file of a dataset holds; for `unused` see `parse_json`."""
    value = read_json(path, unused)
    if not isinstance(value, dict):
        name = printable(str(path))
        why = f"it holds {kind(value)} where an object with the key 'images' is expected"
        raise DataError(name, why, "Check that the file and its reader belong together.")
    return value


def list_under(value: dict[str, object], key: str, path: Path) -> list[object]:
    """The list under `key` of the object that `path` holds."""
    name = printable(str(path))
    hint = "Check that the file and its reader belong together."
    if key not in value:
        found = ", ".join(repr(printable(k)) for k in list(value)[:8]) or "none"
        raise DataError(name, f"there is no key {key!r} (keys found: {found})", hint)
    rows = value[key]
    if not isinstance(rows, list):
        raise DataError(name, f"{key!r} holds {kind(rows)} where a list is expected", hint)
    return rows
