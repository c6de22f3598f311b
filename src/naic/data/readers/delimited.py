"""Rows of CSV as spreadsheets write it: by commas, semicolons or tabs, told from the header."""

import csv
import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

IMAGE = "image"
ALSO_IMAGE = ("path", "file", "filename", "file_name")  # what others call it, `naic caption` too
CAPTION = "caption"
_KNOWN = frozenset((IMAGE, *ALSO_IMAGE, CAPTION, "split", "id"))
_DELIMITERS = (",", ";", "\t")
_SEP = re.compile(r'"?sep=(.)"?;*\s*', re.IGNORECASE)  # a first line that Excel obeys


class Record(NamedTuple):
    """A row of the file.

    Attributes:
        number: of the row, from 1, as a spreadsheet counts.
        line: of the file, from 1, on which it begins.
        cells: what it holds; None: its quotes are not as they should be.
        error: what is wrong with them.
    """

    number: int
    line: int
    cells: list[str] | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Sheet:
    """The text of a table, and by what its cells are told apart."""

    delimiter: str
    lines: Sequence[str]  # with what ends them
    first: int = 0  # the line to begin with

    def records(self) -> Iterator[Record]:
        """All rows, empty ones too.

        A quote that is not closed would swallow the rows behind it: after a row that cannot be
        read, what follows is the next line.
        """
        start, number = self.first, self.first
        while start < len(self.lines):
            rest = (self.lines[i] for i in range(start, len(self.lines)))
            reader = csv.reader(rest, delimiter=self.delimiter, strict=True)
            begun = start
            while True:
                line, number = begun + reader.line_num + 1, number + 1
                try:
                    cells = next(reader)
                except StopIteration:
                    return
                except csv.Error as error:
                    yield Record(number, line, None, str(error))
                    start = line
                    break
                yield Record(number, line, self._whole(cells))

    def _whole(self, cells: list[str]) -> list[str]:
        """The cells of a row that a spreadsheet took for one cell.

        One that expects semicolons shows a row by commas in a single cell. Where the caption has
        quotes it saves this cell in quotes, and all quotes in it twice.
        """
        if len(cells) != 1 or self.delimiter not in cells[0]:
            return cells
        try:
            return next(csv.reader(cells, delimiter=self.delimiter, strict=True))
        except (csv.Error, StopIteration):
            return cells


def open_sheet(text: str, expected: str = ",") -> Sheet:
    """Find out what the cells are told apart by: what makes the header's names those we know.

    Args:
        text: the whole of it.
        expected: what it is if the header does not tell.
    """
    lines = list(io.StringIO(text, newline=""))
    if lines and (told := _SEP.fullmatch(lines[0])):
        return Sheet(told[1], lines, first=1)
    choices = [expected, *(own for own in _DELIMITERS if own != expected)]
    sheets = [Sheet(delimiter, lines) for delimiter in choices]
    return max(sheets, key=_fitness)  # the first of equals


def _fitness(sheet: Sheet) -> tuple[int, int]:
    """How many names of columns it finds that we know, and how many columns in all."""
    names = [cell.strip().lower() for cell in header_of(sheet)]
    return len(_KNOWN.intersection(names)), len(names)


def header_of(sheet: Sheet) -> list[str]:
    """The first row that is not empty; where its quotes are wrong, what seems to be its cells."""
    for record in sheet.records():
        if record.cells is None:
            return sheet.lines[record.line - 1].replace('"', "").split(sheet.delimiter)
        if any(cell.strip() for cell in record.cells):
            return record.cells
    return []


def naming_image(names: Sequence[str]) -> list[str]:
    """Those of the names that say what the image is; beside `image` the others are no matter."""
    return [name for name in names if name == IMAGE] or [n for n in names if n in ALSO_IMAGE]


def looks_like_table(text: str) -> bool:
    """Whether the text begins with a header that names images and captions."""
    names = [cell.strip().lower() for cell in header_of(open_sheet(text))]
    return bool(naming_image(names)) and CAPTION in names
