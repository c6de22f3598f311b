"""A file as its bytes say it: packed or not, in UTF-8, UTF-16 or Windows-1252; what is no text."""

import gzip
import lzma
import re
import zlib
from pathlib import Path

from naic.data.records import kind
from naic.errors import DataError, Problem
from naic.files import parse_json, printable, what_is
from naic.images.formats import Unsupported, sniff
from naic.resume import Warn

XZ, GZIP = b"\xfd7zXZ\x00", b"\x1f\x8b"
_STREAMS = (Path("/dev/stdin"), Path("/dev/fd"))  # what a shell hands us: somebody writes to it
_UTF8_MARK = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_HEAD = 1 << 20  # enough for the first images of any known file; COCO's own has no captions yet
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ZIP = b"PK\x03\x04"
_SAVE_AS = (
    "Save it as CSV: in Excel by File, Save As, CSV UTF-8; in LibreOffice by File, Save As, "
    "Text CSV, with the character set Unicode (UTF-8)."
)
_AS_UTF8 = "save the file as UTF-8, in Excel as CSV UTF-8."

_FEW = 8
_CONTROL = bytes((*range(9), *range(14, 27), *range(28, 32)))  # not those that text is laid out by
_ESCAPED = re.compile("[\udc80-\udcff]")  # a byte that is not UTF-8
# What Windows-1252 makes of text in other code pages: four letters of no Latin word in a row, a
# sign within a word, or a capital after a small letter.
_OTHER_RUN = re.compile("[^\x00-\x7f\xa0]{4,}")
_OTHER_SIGN = re.compile(r"[^\W\d_][¡¢¤¥¦§©¬±²³¶¹¼½¾¿ƒ†‡ˆ‰‚„][^\W\d_]|[a-zß-öø-ÿ][À-ÖØ-ÞŒŠŸŽ]")
_HALF = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]")  # of a character that UTF-16 writes in two parts
_NEWLINE = re.compile("\r\n|\r|\n")
_STRANGE_WORD = re.compile('[^\\s,;"]*[^\x00-\x7f][^\\s,;"]*')


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked if they are xz or gzip whatever the file is called.

    UTF-16, which Excel calls Unicode text and PowerShell writes, is made UTF-8.
    """
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
    refuse_workbook(data, name)
    return _as_utf8(data, name)


def read_head(path: Path) -> bytes:
    """The first megabyte, as `read_bytes` gives it; a whole file would take seconds, twice."""
    name = printable(str(path))
    try:
        with path.open("rb") as file:
            start = file.read(6)
        if start.startswith(XZ):
            with lzma.open(path) as file:
                data = file.read(_HEAD)
        elif start.startswith(GZIP):
            with gzip.open(path) as file:
                data = file.read(_HEAD)
        else:
            with path.open("rb") as file:
                data = file.read(_HEAD)
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        why = f"it cannot be read ({error})"
        raise DataError(name, why, "Check it, or get it again.") from error
    refuse_workbook(data, name)
    return _as_utf8(data, name, "replace")  # it may end within a character


def refuse_workbook(data: bytes, name: str) -> None:
    """Tell what to do with a spreadsheet that was not saved as text.

    Raises:
        DataError: it is one.
    """
    if data.startswith(_OLD_OFFICE):
        raise DataError(name, "it is an Excel workbook, or another file of old Office", _SAVE_AS)
    if not data.startswith(_ZIP):
        return
    if b"opendocument.spreadsheet" in data[:256]:
        raise DataError(name, "it is a LibreOffice workbook", _SAVE_AS)
    if b"xl/" in data:
        raise DataError(name, "it is an Excel workbook", _SAVE_AS)
    raise DataError(name, "it is a ZIP archive or an office document", f"Unpack it. {_SAVE_AS}")


def _as_utf8(data: bytes, name: str, errors: str = "surrogatepass") -> bytes:
    if not data.startswith(_UTF16_MARKS):
        return data
    try:  # half a character stays half a one, and its row is named
        return data.decode("utf-16", errors).encode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        hint = f"Copy it again, or {_AS_UTF8}"
        raise DataError(name, "it is UTF-16 text that is damaged or cut", hint) from None


def read_text(path: Path, warn: Warn) -> str:
    """The text of a file, decoded as `decode_text` does it."""
    return decode_text(read_bytes(path), printable(str(path)), warn)


def decode_text(data: bytes, name: str, warn: Warn) -> str:
    """The text of these bytes; those that are not UTF-8 become lone surrogates (see `is_text`).

    Text that looks like Windows-1252, which Excel's plain CSV is in the west, is read so, and
    `warn` hears of it: no file says which of the old code pages it is in.

    Raises:
        DataError: it is no text.
    """
    data = data.removeprefix(_UTF8_MARK)
    _refuse_binary(data, name)
    text = data.decode("utf-8", "surrogateescape")
    if text.isascii():
        return text
    bad = len(_ESCAPED.findall(text))
    if not bad:
        return text
    right = sum(not letter.isascii() for letter in text) - bad
    # Where letters are UTF-8, what is not is damage: its row is named.
    western = None if 10 * right > bad else _western(data)
    if western is None:
        return text
    warn(_was_western(western, name))
    return western


def _refuse_binary(data: bytes, name: str) -> None:
    head = data[:4096]
    count = len(head) - len(head.translate(None, _CONTROL))
    if count < _FEW or 20 * count < len(head):  # a few may have got into a row, which is named
        return
    if not head[1::2].strip(b"\0") or not head[::2].strip(b"\0"):
        why = "it looks like UTF-16 text without the mark at its beginning"
        raise DataError(name, why, f"Please {_AS_UTF8}")
    found = sniff(head)
    is_kind = found.kind if isinstance(found, Unsupported) else f"{found} data"
    raise DataError(name, f"it is no text, but {is_kind}", "Give the file with the captions.")


def _western(data: bytes) -> str | None:
    """The bytes as Windows-1252, if that makes words of them."""
    if _HALF.search(data):
        return None
    try:
        text = data.decode("cp1252")
    except UnicodeDecodeError:
        return None
    strange = _OTHER_SIGN.search(text) is not None or any(
        sum(map(str.isalpha, run)) > 1 for run in _OTHER_RUN.findall(text)
    )
    return None if strange else text


def _was_western(text: str, name: str) -> Problem:
    found = _STRANGE_WORD.search(text)
    assert found is not None
    line = 1 + len(_NEWLINE.findall(text, 0, found.start()))
    why = (
        "it is not UTF-8, and was read as Windows-1252, which Excel's plain CSV is: "
        f"{printable(found[0][:40])!r} on line {line}"
    )
    return Problem(name, why, f"If that is not what you wrote, {_AS_UTF8}")


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
    name = printable(str(path))
    value = decode_json(read_bytes(path), name, unused)  # strict about UTF-8: no row can be named
    if not isinstance(value, dict):
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
