"""What a finished output holds, read back: rows to put new ones after, and whose they are."""

import io
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from naic.data.readers.delimited import Sheet, open_sheet
from naic.errors import DataError
from naic.files import parse_json, printable
from naic.tasks.caption.options import Format
from naic.tasks.caption.rows import ALTERNATIVE, ARRAYS, columns_of, csv_row
from naic.text.cells import MARK

_CSV_COLUMNS = "path,caption,"  # more may follow
_OTHER = "Give the options it was made with, or another --out."


def rows_held(kind: Format, columns: Sequence[str], text: str, name: str) -> list[str]:
    """The rows of an output of this kind.

    Args:
        kind: its format.
        columns: those that a CSV file must have.
        text: the whole of it.
        name: what to call it.

    Raises:
        DataError: it is of another format, or has other columns.
    """
    if kind == "text":
        _refuse_tables(text, name)
    else:
        text = text.removeprefix(MARK)
    if kind in ARRAYS:
        held = [json.dumps(entry) for entry in _entries(text, name)]
    elif kind == "csv":
        held = _csv_held(text, columns, name)
    else:
        held = _as_one(text)
    if kind != "text":
        keys_of(kind, held, name)  # rows of another kind have none
    return held


def keys_of(kind: Format, held: Iterable[str], name: str) -> set[str]:
    """The keys of the images that the rows of `held` are of."""
    match kind:
        case "csv":
            return {row[0] for own in held for row in _csv_rows(own, name) if row}
        case "jsonl":
            lines = [line for own in held for line in own.split("\n") if line.strip()]
        case _:
            lines = list(held)
    key = "image_id" if kind == "coco" else "path"
    keys = set()
    for number, line in enumerate(lines, 1):
        row = parse_json(line, f"{name}, row {number}")
        if not isinstance(row, dict) or not isinstance(row.get(key), str | int):
            raise DataError(f"{name}, row {number}", f"there is no {key!r}", _OTHER)
        keys.add(str(row[key]))
    return keys


def known_rows(kind: Format, held: Sequence[str]) -> Callable[[str], bool]:
    """What tells whether a row stands in `held` just as it is.

    So a command that appends can be given again after its end, and nothing comes twice.
    """
    match kind:
        case "json" | "coco":
            return frozenset(held).__contains__
        case "csv":
            cells = {tuple(row) for own in held for row in _csv_rows(own)}
            return lambda row: tuple(next(_csv_rows(row))) in cells
        case _:
            return _Lines(held).have


class _Lines:
    """Lines of text, to look for rows in; a row with alternatives has several."""

    def __init__(self, held: Iterable[str]) -> None:
        self._lines = [line.removesuffix("\r") for own in held for line in own.split("\n")]
        self._runs: dict[int, set[str]] = {}

    def have(self, row: str) -> bool:
        """Whether the lines of the row stand here, one after the other."""
        count = row.count("\n") + 1
        if count not in self._runs:
            starts = range(len(self._lines) - count + 1)
            self._runs[count] = {"\n".join(self._lines[i : i + count]) for i in starts}
        return row in self._runs[count]


def _as_one(text: str) -> list[str]:
    """The lines of a text, as they are, to be put before others."""
    return [text.removesuffix("\n").removesuffix("\r")] if text.strip() else []


def _csv_held(text: str, columns: Sequence[str], name: str) -> list[str]:
    """The rows of a table as they are; of one that a spreadsheet wrote, as we would write them."""
    first, _, rest = text.partition("\n")
    if first.rstrip("\r") == ",".join(columns):
        return _as_one(rest)
    rows = [row for row in _cells_of(open_sheet(text), name) if any(map(str.strip, row))]
    found = [cell.strip() for cell in rows[0]] if rows else []
    if found != columns:
        _refuse_columns(found, columns, name)
    for number, row in enumerate(rows, 1):
        if len(row) != len(columns):
            why = f"it has {len(row)} cells where the header has {len(columns)}"
            raise DataError(f"{name}, row {number}", why, "Mend it.")
    return [csv_row(row) for row in rows[1:]]


def _refuse_columns(found: Sequence[str], columns: Sequence[str], name: str) -> None:
    theirs = ", ".join(printable(column[:40]) for column in found) or "none"
    why = f"its columns are {theirs}; those of this command are {', '.join(columns)}"
    raise DataError(name, why, _to_agree(found, columns))


def _to_agree(found: Sequence[str], columns: Sequence[str]) -> str:
    """What to change in the command for a table to go on with; or that there is nothing."""
    wanted, given = (_alternatives(own) for own in (found, columns))
    sure = "confidence" in found
    if list(found) != columns_of(wanted, confidence=sure):
        strange = [own for own in found if own not in columns_of(wanted, confidence=True)]
        named = f"has no {', '.join(map(printable, strange))}" if strange else "has another order"
        return (
            f"What naic caption writes {named}: change that in the file, or choose another --out."
        )
    changes = []
    if sure != ("confidence" in columns):
        changes.append("add --confidence" if sure else "leave out --confidence")
    if wanted != given:
        verb = "give" if given else "add"
        changes.append(f"{verb} --alternatives {wanted}" if wanted else "leave out --alternatives")
    told = " and ".join(changes)
    return f"{told[:1].upper()}{told[1:]}, or choose another --out."


def _alternatives(columns: Sequence[str]) -> int:
    """With how many alternatives a table has these columns; 0 is none."""
    count = sum(column.startswith(ALTERNATIVE) for column in columns)
    return count + 1 if count else 0


def _refuse_tables(text: str, name: str) -> None:
    """Lines of text may be anything, but CSV or JSON would be spoilt by what is put after it."""
    text = text.removeprefix(MARK).lstrip()
    first = text.partition("\n")[0].rstrip()
    if f"{first},".startswith(_CSV_COLUMNS):
        raise DataError(name, "it is CSV, and --format text was asked for", _OTHER)
    # An image may be called [1].jpg: its line is no JSON.
    if text.startswith(("{", "[")) and (first in "{[" or _is_json(first) or _is_json(text)):
        raise DataError(name, "it is JSON, and --format text was asked for", _OTHER)


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _entries(text: str, name: str) -> list[object]:
    value = parse_json(text, name)
    if not isinstance(value, list):
        raise DataError(name, "it holds no JSON array", _OTHER)
    return value


def _csv_rows(text: str, name: str = "") -> Iterator[list[str]]:
    lines = ["\n", *io.StringIO(text, newline="")]  # the header went before
    return _cells_of(Sheet(",", lines, first=1), name)


def _cells_of(sheet: Sheet, name: str) -> Iterator[list[str]]:
    for record in sheet.records():
        if record.cells is None:
            where = f"{name}, row {record.number} (line {record.line})"
            raise DataError(where, f"it is no CSV ({record.error})", _OTHER)
        yield record.cells
