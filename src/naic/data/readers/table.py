"""A table of one's own: CSV, TSV or JSON lines with image, caption and maybe split and id."""

import csv
import io
import posixpath
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from naic.data.readers import read_text
from naic.data.records import Entry, Problems, kind, short_names
from naic.errors import DataError
from naic.files import parse_json, printable

_DELIMITERS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_PACKED = (".gz", ".xz")
IMAGE = "image"
ALSO_IMAGE = ("path", "file", "filename", "file_name")  # what others call it, `naic caption` too


@dataclass(slots=True)
class CaptionRow:
    """One row: an image and the captions the row gives it."""

    where: str
    image: str
    captions: list[tuple[str, object]]
    split: str = ""
    id: str = ""


def read_table(source: Path, problems: Problems) -> Iterator[Entry]:
    """Entries of a table; all rows of one image, wherever they stand, are its captions.

    An image is looked for beneath the roots, then where its path leads from the table's folder.
    """
    suffix = _suffix(source)
    if suffix in _DELIMITERS:
        rows = csv_rows(read_text(source), source, _DELIMITERS[suffix], problems)
    elif suffix in _JSON_LINES:
        rows = _json_rows(source, problems)
    else:
        hint = f"Name it {', '.join([*_DELIMITERS, *_JSON_LINES])}, as what it holds."
        raise DataError(printable(str(source)), f"a table cannot be {suffix or 'nameless'}", hint)
    yield from entries_of(rows, source.absolute().parent, problems)


def is_table(path: Path) -> bool:
    """Whether the name says that the file is a table."""
    return _suffix(path) in (*_DELIMITERS, *_JSON_LINES)


def _suffix(path: Path) -> str:
    """The last suffix that tells of the content: `.csv` of `a.csv.gz`."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    return next((suffix for suffix in reversed(suffixes) if suffix not in _PACKED), "")


def entries_of(rows: Iterator[CaptionRow], folder: Path, problems: Problems) -> Iterator[Entry]:
    """One entry for each image, in the order in which the images first come."""
    images: dict[str, CaptionRow] = {}
    for row in rows:
        first = images.setdefault(posixpath.normpath(row.image), row)
        if first is row:
            continue
        if row.split and first.split and row.split != first.split:
            why = f"the image is in split {row.split!r}, but in {first.split!r} at {first.where}"
            problems.add(row.where, printable(why), "Put each image into one split.")
        elif row.id and first.id and row.id != first.id:
            why = f"the image has the id {row.id!r}, but {first.id!r} at {first.where}"
            problems.add(row.where, printable(why), "Give each image one id.")
        else:
            first.split, first.id = first.split or row.split, first.id or row.id
            first.captions.extend(row.captions)
    ids = short_names(list(images))
    for key, row in images.items():
        names = [row.image]
        if "/" in row.image and not row.image.startswith("/"):
            names.append(f"{folder}/{row.image}")  # it may be meant from the table's own folder
        yield Entry(row.where, row.id or ids[key], names, row.captions, row.split)


def csv_rows(text: str, source: Path, delimiter: str, problems: Problems) -> Iterator[CaptionRow]:
    """The rows of a CSV; the header is row 1, as a spreadsheet counts."""
    file = printable(source.name)
    # Strict: a quote left open would otherwise swallow the rest of the file without a word.
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    columns: list[str] | None = None
    number = 0
    while True:
        number, line = number + 1, reader.line_num + 1
        where = f"{file}, row {number} (line {line})"
        try:
            cells = next(reader)
        except StopIteration:
            break
        except csv.Error as error:
            lines = f"line {line}" if reader.line_num <= line else f"lines {line}-{reader.line_num}"
            why = f"{lines} cannot be split into cells ({error})"
            problems.add(where, why, 'Write a quote inside a quoted cell twice, as "".')
            continue
        if not any(cell.strip() for cell in cells):
            continue
        if columns is None:
            columns = _header(cells, source, delimiter)
        elif row := _csv_row(cells, columns, where, problems):
            yield row
    if columns is None:
        raise DataError(printable(str(source)), "the table is empty", "Its first row is a header.")


def _header(cells: list[str], source: Path, delimiter: str) -> list[str]:
    columns = [cell.strip().lower() for cell in cells]
    found = ", ".join(repr(printable(cell[:40])) for cell in cells[:12])
    by = "commas" if delimiter == "," else "tabs"
    hint = f"The first row names the columns, by {by}: image, caption and maybe split and id."
    naming = _naming_image(columns)
    if len(naming) > 1 and IMAGE not in columns:
        why = f"the columns {' and '.join(map(repr, naming))} may both name the image"
        raise DataError(printable(str(source)), why, "Call one of them image.")
    columns = [IMAGE if column in naming else column for column in columns]
    for column in (IMAGE, "caption"):
        if column not in columns:
            why = f"there is no column {column!r} (columns found: {found})"
            raise DataError(printable(str(source)), why, hint)
    for column in (IMAGE, "caption", "split", "id"):
        if columns.count(column) > 1:
            why = f"there are two columns {column!r} (columns found: {found})"
            raise DataError(printable(str(source)), why, hint)
    return columns


def _naming_image(names: Iterable[str]) -> list[str]:
    """Those of the names that say what the image is; beside `image` the others are no matter."""
    names = list(names)
    return [name for name in names if name == IMAGE] or [n for n in names if n in ALSO_IMAGE]


def _csv_row(
    cells: list[str], columns: list[str], where: str, problems: Problems
) -> CaptionRow | None:
    if len(cells) != len(columns):
        why = f"it has {len(cells)} cells where the header has {len(columns)}"
        problems.add(where, why, "Put a caption that holds the separator in quotes.")
        return None
    row = dict(zip(columns, cells, strict=True))
    image = row[IMAGE].strip()
    if not image:
        problems.add(where, "no image is named", "Name the image, or remove the row.")
        return None
    captions: list[tuple[str, object]] = [(where, row["caption"])]
    return CaptionRow(
        where, image, captions, row.get("split", "").strip(), row.get("id", "").strip()
    )


def _json_rows(source: Path, problems: Problems) -> Iterator[CaptionRow]:
    lines = read_text(source).split("\n")
    if not any(line.strip() for line in lines):
        raise DataError(printable(str(source)), "the table is empty", "Write an object a line.")
    for number, line in enumerate(lines, 1):
        where = f"{printable(source.name)}, line {number}"
        if not line.strip():
            continue
        try:
            value = parse_json(line, where)
        except DataError as error:
            problems.add(where, error.why, error.hint)
            continue
        if row := _json_row(value, where, problems):
            yield row


def _json_row(value: object, where: str, problems: Problems) -> CaptionRow | None:
    if not isinstance(value, dict):
        why = f"it is {kind(value)} where an object is expected"
        problems.add(where, why, 'Write {"image": ..., "caption": ...}.')
        return None
    naming = _naming_image(value)
    if len(naming) > 1:
        why = f"{' and '.join(map(repr, naming))} may both name the image"
        problems.add(where, why, "Call one of them 'image'.")
        return None
    name = naming[0] if naming else IMAGE
    image, split, id_ = value.get(name), value.get("split"), value.get("id")
    if not isinstance(image, str) or not image.strip():
        why = f"{name!r} is {kind(image)}, not a path" if image else "no image is named"
        problems.add(where, why, "Name the image.")
        return None
    if not isinstance(split, str | None):
        problems.add(where, f"'split' is {kind(split)}, not a string", "Name the split.")
        return None
    if isinstance(id_, bool) or not isinstance(id_, str | int | None):
        problems.add(where, f"'id' is {kind(id_)}", "Give a string or a whole number.")
        return None
    if ("caption" in value) == ("captions" in value):
        why = (
            "it has both 'caption' and 'captions'"
            if "caption" in value
            else "there is no 'caption'"
        )
        problems.add(where, why, 'Give one of them; "captions": [] marks an unlabelled image.')
        return None
    given = value["caption"] if "caption" in value else value["captions"]
    captions = [(where, caption) for caption in (given if isinstance(given, list) else [given])]
    return CaptionRow(where, image.strip(), captions, split or "", "" if id_ is None else str(id_))
