"""Reading a source whole: unpacked, decoded, parsed, and every failure named with its place."""

import gzip
import lzma
import zlib
from pathlib import Path

from naic.data.records import kind
from naic.errors import DataError
from naic.files import parse_json, printable, what_is

XZ, GZIP = b"\xfd7zXZ\x00", b"\x1f\x8b"
_UTF16 = (b"\xff\xfe", b"\xfe\xff")
_STREAMS = (Path("/dev/stdin"), Path("/dev/fd"))  # what a shell hands us: somebody writes to it


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
