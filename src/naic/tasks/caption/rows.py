"""Captions as rows of a format, and a whole output as its rows."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from naic.errors import ConfigError
from naic.files import printable
from naic.images.formats import take_apart, without_suffix
from naic.tasks.caption.find import Found
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.speaker import Said, text_of
from naic.text.cells import MARK, is_formula, text_cell

if TYPE_CHECKING:  # not before there is work for it
    from naic.runtime.captioner import Alternative, Caption

ARRAYS = ("json", "coco")
ALTERNATIVE = "alternative_"  # begins the name of a column
DIGITS = 4  # of a confidence: what is behind them changes with the machine
# In a path: backslashes before what is a lone surrogate, or is spelt as we spell one.
_AMBIGUOUS = re.compile(r"\\+(?=ud[89a-f][0-9a-f]{2}|[\ud800-\udfff])")


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
        if self._kind not in ARRAYS:
            if self._kind == "csv":
                yield f"{','.join(self._columns())}\n"
            for row in rows:
                yield f"{row}\n"
            return
        before = "["
        for row in rows:
            yield f"{before}\n{row}"
            before = ","
        yield "[]\n" if before == "[" else "\n]\n"

    def file(self, rows: Iterable[str]) -> Iterator[str]:
        """The same for a file: spreadsheets know a CSV file of UTF-8 by a mark at its beginning."""
        if self._kind == "csv":
            yield MARK
        yield from self.whole(rows)

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
        from naic.tasks.caption.held import rows_held

        return rows_held(self._kind, self._columns(), text, name)

    def known(self, held: Sequence[str]) -> Callable[[str], bool]:
        """What tells whether a row stands in `held` just as it is."""
        from naic.tasks.caption.held import known_rows

        return known_rows(self._kind, held)

    def keys(self, held: Iterable[str], name: str) -> set[str]:
        """The keys of the images that the rows of `held` are of."""
        from naic.tasks.caption.held import keys_of

        return keys_of(self._kind, held, name)

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
            made["confidence"] = shortened(said.confidence)
            if said.calibrated:
                made["probability"] = shortened(said.probability)
            made["words"] = [
                {"word": word.text, "confidence": round(word.confidence, DIGITS)}
                for word in said.words
            ]
        if self._options.alternatives:
            made["alternatives"] = [
                {"caption": self._around(other.text), "confidence": shortened(other.confidence)}
                for other in said.alternatives
            ]
        return made

    def _columns(self) -> list[str]:
        return columns_of(self._options.alternatives, confidence=self._options.confidence)

    def _cells(self, path: str, said: Said) -> str:
        cells = [_path_cell(path), text_cell(self._around(text_of(said)))]
        if self._options.confidence and not isinstance(said, str):
            words = [f"{word.text} ({word.confidence:.{DIGITS}f})" for word in said.words]
            cells += [f"{shortened(said.confidence)}", text_cell(" ".join(words))]
        others = [text_cell(other) for other in self._others(said)]
        missing = max(self._options.alternatives - 1, 0) - len(others)
        return csv_row([*cells, *others, *[""] * missing])


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


def columns_of(alternatives: int, *, confidence: bool) -> list[str]:
    """The columns of a CSV file with so many alternatives."""
    others = [f"{ALTERNATIVE}{n}" for n in range(2, alternatives + 1)]
    return ["path", "caption", *(["confidence", "words"] if confidence else []), *others]


def csv_row(cells: Iterable[str]) -> str:
    """A row of our CSV, without what ends it."""
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue().removesuffix("\r\n")  # our lines end as on Unix


def _others(said: Said) -> "Sequence[Alternative]":
    """The alternatives after the first, which is the caption."""
    return () if isinstance(said, str) else said.alternatives[1:]


def _sure(said: "Caption") -> str:
    """For people: what has been measured of such captions, or else what the model thinks."""
    return (
        f"right with {said.confidence:.1%}" if said.calibrated else f"{said.confidence:.1%} in all"
    )


def shortened(probability: float) -> float:
    """That of a whole sentence may be small: so many digits that count."""
    return float(f"{probability:.{DIGITS}g}")


def _path_cell(path: str) -> str:
    r"""The path, as text for a UTF-8 file, and no formula for a spreadsheet: `./=1.jpg`.

    A byte that is no text is written as \udcff; a name that has just these letters has its
    backslash doubled, so that no two paths are written alike.
    """
    path = _AMBIGUOUS.sub(lambda found: found[0] * 2, path)
    path = path.encode("utf-8", "backslashreplace").decode()
    return f"./{path}" if is_formula(path) else path
