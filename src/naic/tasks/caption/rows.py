"""Captions as rows of a format, and a whole output as its rows."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from naic.errors import ConfigError, DataError
from naic.files import parse_json, printable
from naic.images.formats import take_apart, without_suffix
from naic.tasks.caption.find import Found
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.speaker import Said, text_of

if TYPE_CHECKING:  # not before there is work for it
    from naic.runtime.captioner import Alternative, Caption

DIGITS = 4  # of a confidence: what is behind them changes with the machine
_ARRAYS = ("json", "coco")
_CSV_COLUMNS = "path,caption,"  # more may follow
# In a path: backslashes before what is a lone surrogate, or is spelt as we spell one.
_AMBIGUOUS = re.compile(r"\\+(?=ud[89a-f][0-9a-f]{2}|[\ud800-\udfff])")
# What a spreadsheet takes for a formula when a cell begins with it.
_FORMULA = re.compile(r"[=+\-@\t\r]")


class Rows:
    """How the captions of a run are written, row by row."""

    def __init__(self, options: CaptionOptions) -> None:
        self._options = options
        self._kind = options.kind

    def row(self, path: str, said: Said) -> str:
        """The row of one image, without what ends it."""
        match self._kind:
            case "json" | "jsonl":
                return json.dumps(self._object(path, said))  # in ASCII: any name, on any terminal
            case "coco":
                return json.dumps(
                    {"image_id": image_id(path), "caption": self._around(text_of(said))}
                )
            case "csv":
                return self._cells(path, said)
            case "txt":
                return "\n".join([self._around(text_of(said)), *self._others(said)])
            case _:
                return self._lines(path, said)

    def whole(self, rows: Iterable[str]) -> Iterator[str]:
        """The rows with what stands before, between and after them; each as soon as it comes."""
        if self._kind not in _ARRAYS:
            if self._kind == "csv":
                yield f"{self._columns()}\n"
            for row in rows:
                yield f"{row}\n"
            return
        before = "["
        for row in rows:
            yield f"{before}\n{row}"
            before = ","
        yield "[]\n" if before == "[" else "\n]\n"

    def key(self, path: str) -> str:
        """What an image is known by in an output that is there."""
        match self._kind:
            case "csv":
                return _path_cell(path)
            case "coco":
                return str(image_id(path))
            case _:
                return path

    def held(self, text: str, name: str) -> list[str]:
        """What a finished output holds, as rows to put new ones after.

        Raises:
            DataError: it is of another format, or has other columns.
        """
        if self._kind == "text":
            _refuse_tables(text, name)
        if self._kind in _ARRAYS:
            held = [json.dumps(entry) for entry in _entries(text, name)]
        else:
            if self._kind == "csv":
                text = self._without_columns(text, name)
            held = [text.removesuffix("\n").removesuffix("\r")] if text.strip() else []
        if self._kind != "text":
            self.keys(held, name)  # rows of another kind have none
        return held

    def known(self, held: Sequence[str]) -> Callable[[str], bool]:
        """What tells whether a row stands in `held` just as it is.

        So a command that appends can be given again after its end, and nothing comes twice.
        """
        match self._kind:
            case "json" | "coco":
                return frozenset(held).__contains__
            case "csv":
                cells = {tuple(row) for own in held for row in _csv_rows(own)}
                return lambda row: tuple(next(_csv_rows(row))) in cells
            case _:
                return _Lines(held).have

    def keys(self, held: Iterable[str], name: str) -> set[str]:
        """The keys of the images that the rows of `held` are of."""
        match self._kind:
            case "csv":
                try:
                    return {row[0] for own in held for row in _csv_rows(own) if row}
                except csv.Error as error:
                    raise DataError(name, f"it is no CSV file ({error})", _OTHER) from None
            case "jsonl":
                lines = [line for own in held for line in own.split("\n") if line.strip()]
            case _:
                lines = list(held)
        key = "image_id" if self._kind == "coco" else "path"
        keys = set()
        for number, line in enumerate(lines, 1):
            row = parse_json(line, f"{name}, row {number}")
            if not isinstance(row, dict) or not isinstance(row.get(key), str | int):
                raise DataError(f"{name}, row {number}", f"there is no {key!r}", _OTHER)
            keys.add(str(row[key]))
        return keys

    def _around(self, text: str) -> str:
        return f"{self._options.prefix}{text}{self._options.suffix}"

    def _others(self, said: Said) -> list[str]:
        return [self._around(other.text) for other in _others(said)]

    def _lines(self, path: str, said: Said) -> str:
        text, sure = self._around(text_of(said)), ""
        if self._options.confidence and not isinstance(said, str):
            words = " ".join(f"{word.text} ({word.confidence:.0%})" for word in said.words)
            same = "".join(word.text for word in said.words) == said.text.replace(" ", "")
            text = self._around(words) if same else f"{text} [{words}]"  # in a style of its own
            sure = f", {_sure(said)}"
        others = [
            f"    {self._around(other.text)} ({other.confidence:.1%})" for other in _others(said)
        ]
        return "\n".join([f"{printable(path)}: {text}{sure}", *others])

    def _object(self, path: str, said: Said) -> dict[str, Any]:
        made: dict[str, Any] = {"path": path, "caption": self._around(text_of(said))}
        if isinstance(said, str):
            return made
        if self._options.confidence:
            made["confidence"] = _short(said.confidence)
            if said.calibrated:
                made["probability"] = _short(said.probability)
            made["words"] = [
                {"word": word.text, "confidence": round(word.confidence, DIGITS)}
                for word in said.words
            ]
        if self._options.alternatives:
            made["alternatives"] = [
                {"caption": self._around(other.text), "confidence": _short(other.confidence)}
                for other in said.alternatives
            ]
        return made

    def _columns(self) -> str:
        others = [f"alternative_{n}" for n in range(2, self._options.alternatives + 1)]
        sure = ["confidence", "words"] if self._options.confidence else []
        return ",".join(["path", "caption", *sure, *others])

    def _cells(self, path: str, said: Said) -> str:
        cells = [_path_cell(path), _text_cell(self._around(text_of(said)))]
        if self._options.confidence and not isinstance(said, str):
            words = [f"{word.text} ({word.confidence:.{DIGITS}f})" for word in said.words]
            cells += [f"{_short(said.confidence)}", _text_cell(" ".join(words))]
        others = [_text_cell(other) for other in self._others(said)]
        missing = max(self._options.alternatives - 1, 0) - len(others)
        line = io.StringIO()
        csv.writer(line).writerow([*cells, *others, *[""] * missing])
        return line.getvalue().removesuffix("\r\n")  # our lines end as on Unix

    def _without_columns(self, text: str, name: str) -> str:
        first, _, rest = text.removeprefix("\ufeff").partition("\n")
        if first.rstrip("\r") != self._columns():
            why = f"its columns are not those of this command: {self._columns()}"
            raise DataError(name, why, _OTHER)
        return rest


_OTHER = "Give the options it was made with, or another --out."


def image_id(path: str) -> int:
    """COCO's number of an image: its files are COCO_val2014_000000000042.jpg or 000000000042.jpg.

    Raises:
        ConfigError: the file is called otherwise.
    """
    plain = take_apart(without_suffix(path)).plain
    if not (plain.isascii() and plain.isdigit()):
        why = "--format coco needs the number of the image, and its name is not such a number"
        raise ConfigError(printable(path), why, "COCO's are called as 000000000042.jpg is.")
    return int(plain)


def refuse_same_images(images: Iterable[Found]) -> None:
    """COCO's server takes one caption for an image; all names are looked at before any work."""
    seen: dict[int, str] = {}
    for image in images:
        number = image_id(image.path)
        if number in seen:
            why = f"by its name it is image {number}, and so is {printable(seen[number])}"
            raise ConfigError(printable(image.path), why, "Caption one of the two.")
        seen[number] = image.path


def _others(said: Said) -> "Sequence[Alternative]":
    """The alternatives after the first, which is the caption."""
    return () if isinstance(said, str) else said.alternatives[1:]


def _sure(said: "Caption") -> str:
    """For people: what has been measured of such captions, or else what the model thinks."""
    return (
        f"right with {said.confidence:.1%}" if said.calibrated else f"{said.confidence:.1%} in all"
    )


def _short(probability: float) -> float:
    """That of a whole sentence may be small: so many digits that count."""
    return float(f"{probability:.{DIGITS}g}")


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


def _refuse_tables(text: str, name: str) -> None:
    """Lines of text may be anything, but CSV or JSON would be spoilt by what is put after it."""
    text = text.removeprefix("\ufeff").lstrip()
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


def _csv_rows(text: str) -> Iterator[list[str]]:
    return csv.reader(io.StringIO(text, newline=""), strict=True)


def _path_cell(path: str) -> str:
    r"""The path, as text for a UTF-8 file, and no formula for a spreadsheet: `./=1.jpg`.

    A byte that is no text is written as \udcff; a name that has just these letters has its
    backslash doubled, so that no two paths are written alike.
    """
    path = _AMBIGUOUS.sub(lambda found: found[0] * 2, path)
    path = path.encode("utf-8", "backslashreplace").decode()
    return f"./{path}" if _FORMULA.match(path) else path


def _text_cell(text: str) -> str:
    """Text that a spreadsheet shows as it is; by an apostrophe it knows that it is no formula."""
    return f"'{text}" if _FORMULA.match(text) else text
