"""A table of one's own: CSV, TSV or JSON lines with image, caption and maybe split and id."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from naic.data.readers.delimited import (
    CAPTION,
    IMAGE,
    Record,
    Sheet,
    naming_image,
    open_sheet,
)
from naic.data.readers.textfiles import read_head, read_text
from naic.data.records import Entry, Problems, kind, short_names
from naic.errors import DataError
from naic.files import parse_json, printable
from naic.text.cells import text_of_cell

# What the cells are told apart by where the header does not tell.
_DELIMITERS = {".csv": ",", ".tsv": "\t", ".tab": "\t", ".txt": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_PACKED = (".gz", ".xz")
_GARBLED_MARK = "ï»¿"  # what Windows-1252 makes of the mark of UTF-8
_COLUMNS = (IMAGE, CAPTION, "split", "id")


@dataclass(slots=True)
class CaptionRow:
    """One row: an image and the captions the row gives it."""

    where: str
    image: str
    captions: list[tuple[str, object]]
    split: str = ""
    id: str = ""
    split_where: str = ""


def read_table(source: Path, problems: Problems) -> Iterator[Entry]:
    """Entries of a table; all rows of one image, wherever they stand, are its captions.

    An image is looked for beneath the roots, then where its path leads from the table's folder.
    """
    suffix = _suffix(source)
    if suffix in _DELIMITERS:
        text = read_text(source, problems.warn)
        rows = csv_rows(open_sheet(text, _DELIMITERS[suffix]), source, problems)
    elif suffix in _JSON_LINES:
        rows = _json_rows(source, problems)
    else:
        read_head(source)  # a workbook is told what to do with
        hint = f"Name it {', '.join([*_DELIMITERS, *_JSON_LINES])}, as what it holds."
        raise DataError(printable(str(source)), f"a table cannot be {suffix or 'nameless'}", hint)
    yield from entries_of(rows, source.absolute().parent, problems)


def is_table(path: Path) -> bool:
    """Whether the name says that the file is a table; any text may be called .txt."""
    return _suffix(path) in (*_DELIMITERS, *_JSON_LINES) and _suffix(path) != ".txt"


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
            problems.add(
                row.where, printable(why), "Put each image into one split.", "image in two splits"
            )
        elif row.id and first.id and row.id != first.id:
            why = f"the image has the id {row.id!r}, but {first.id!r} at {first.where}"
            problems.add(row.where, printable(why), "Give each image one id.", "image with two ids")
        else:
            if row.split and not first.split:
                first.split_where = row.where
            first.split, first.id = first.split or row.split, first.id or row.id
            first.captions.extend(row.captions)
    ids = short_names(list(images))
    for key, row in images.items():
        names = [row.image]
        if "/" in row.image and not row.image.startswith("/"):
            names.append(f"{folder}/{row.image}")  # it may be meant from the table's own folder
        where = row.split_where
        yield Entry(row.where, row.id or ids[key], names, row.captions, row.split, where)


def csv_rows(sheet: Sheet, source: Path, problems: Problems) -> Iterator[CaptionRow]:
    """The rows of a CSV; the header is row 1, as a spreadsheet counts."""
    file = printable(source.name)
    columns: list[str] | None = None
    for record in sheet.records():
        where = f"{file}, row {record.number} (line {record.line})"
        if record.cells is None:
            if columns is None:
                raise DataError(printable(str(source)), *_bad_quotes(record))
            problems.add(where, *_bad_quotes(record), "quotes that do not close")
        elif not any(cell.strip() for cell in record.cells):
            continue
        elif columns is None:
            columns = _header(record.cells, source)
        elif row := _csv_row(record.cells, columns, where, problems):
            yield row
    if columns is None:
        raise DataError(printable(str(source)), "the table is empty", "Its first row is a header.")


def _bad_quotes(record: Record) -> tuple[str, str]:
    why = f"line {record.line} cannot be split into cells ({record.error})"
    return why, 'Write a quote inside a quoted cell twice, as "", and one at its end.'


def _header(cells: list[str], source: Path) -> list[str]:
    columns = [cell.strip().lower() for cell in cells]
    found = ", ".join(repr(printable(cell[:40])) for cell in cells[:12])
    hint = (
        "The first row names the columns, by commas, semicolons or tabs: image, caption and maybe "
        "split and id."
    )
    if columns[0].startswith(_GARBLED_MARK):
        why = "a program took its UTF-8 for Windows-1252 and saved it so"
        again = "Open the table that you began with as UTF-8, and save it as UTF-8."
        raise DataError(printable(str(source)), why, again)
    naming = naming_image(columns)
    if len(naming) > 1 and IMAGE not in columns:
        why = f"the columns {' and '.join(map(repr, naming))} may both name the image"
        raise DataError(printable(str(source)), why, "Call one of them image.")
    columns = [IMAGE if column in naming else column for column in columns]
    for column in (IMAGE, CAPTION):
        if column not in columns:
            why = f"there is no column {column!r} (columns found: {found})"
            raise DataError(printable(str(source)), why, hint)
    for column in _COLUMNS:
        if columns.count(column) > 1:
            why = f"there are two columns {column!r} (columns found: {found})"
            raise DataError(printable(str(source)), why, hint)
    return columns


def _csv_row(
    cells: list[str], columns: Sequence[str], where: str, problems: Problems
) -> CaptionRow | None:
    if len(cells) != len(columns):
        few = len(cells) < len(columns)
        cell = "cell" if len(cells) == 1 else "cells"
        why = f"it has {len(cells)} {cell} where the header has {len(columns)}"
        hint = (
            "Give the row all cells of the header, or take it out."
            if few
            else "Put a caption that holds the separator in quotes."
        )
        problems.add(where, why, hint, f"too {'few' if few else 'many'} cells")
        return None
    row = dict(zip(columns, cells, strict=True))
    image = row[IMAGE].strip()
    if not image:
        problems.add(where, "no image is named", "Name the image, or take the row out.")
        return None
    captions: list[tuple[str, object]] = [(where, text_of_cell(row[CAPTION]))]
    return CaptionRow(
        where, image, captions, row.get("split", "").strip(), row.get("id", "").strip()
    )


def _json_rows(source: Path, problems: Problems) -> Iterator[CaptionRow]:
    lines = read_text(source, problems.warn).split("\n")
    if not any(line.strip() for line in lines):
        raise DataError(printable(str(source)), "the table is empty", "Write an object a line.")
    for number, line in enumerate(lines, 1):
        where = f"{printable(source.name)}, line {number}"
        if not line.strip():
            continue
        try:
            value = parse_json(line, where)
        except DataError as error:
            problems.add(where, error.why, error.hint, "broken JSON")
            continue
        if row := _json_row(value, where, problems):
            yield row


def _json_row(value: object, where: str, problems: Problems) -> CaptionRow | None:
    if not isinstance(value, dict):
        why = f"it is {kind(value)} where an object is expected"
        problems.add(where, why, 'Write {"image": ..., "caption": ...}.')
        return None
    naming = naming_image(list(value))
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
