"""Tables that were in LibreOffice and came back, in the ways in which people save them.

The files in `libreoffice/` are what LibreOffice 7.4.7 (Debian's libreoffice-calc) wrote: `MADE`, as
`naic caption --confidence --out captions.csv` writes it, was made a workbook and then CSV again, by
`convert` with the settings below. `test_it_writes_them_anew` does the same with the one at hand.
"""

import csv
import io
import shutil
import subprocess
from pathlib import Path

import pytest

from naic.data.readers import read
from naic.data.readers.captions import read_captions
from naic.data.records import Problems
from naic.errors import DataError, Problem
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.output import starting
from naic.tasks.caption.rows import Rows, csv_row
from naic.text.cells import text_of_cell

FILES = Path(__file__).parent / "libreoffice"
COLUMNS = ["path", "caption", "confidence", "words"]
ROWS = [
    ["photos/café.jpg", "a cat, “asleep”; on a sofa", "0.71", "a (0.9000) cat (0.8000)"],
    ["./=1.jpg", "'=2 dogs", "0.25", "'=2 (0.5000) dogs (0.5000)"],
    ["photos/a;b, c.jpg", 'two\nlines, one "quoted"', "1.235e-07", "two (0.1000)"],
    ["photos/4.jpg", "0,5 or 0.5 l of “Müllers” milk", "0.5", "0,5 (0.5000)"],
]
# Letters of the export filter: what parts cells, what quotes them, the character set, the first
# line; then that all texts are quoted.
SETTINGS = {
    "comma-utf8.csv": "44,34,76,1",
    "semicolon-cp1252.csv": "59,34,1,1",
    "tab-utf16.csv": "9,34,65535,1",
    "quotes-utf8.csv": "44,34,76,1,,0,true",
}
OF_OURS = "Text - txt - csv (StarCalc):44,34,76,1"


def made() -> bytes:
    rows = Rows(CaptionOptions((Path("photos"),), format="csv", confidence=True))
    return "".join(rows.file(map(csv_row, ROWS))).encode()


def convert(source: Path, to: str, out: Path, *settings: str) -> Path:
    """What LibreOffice makes of a file; it has a profile of its own, beside `out`."""
    program = shutil.which("soffice")
    if program is None:
        pytest.skip("LibreOffice is not installed (Debian: libreoffice-calc)")
    profile = f"-env:UserInstallation={(out.parent / 'profile').as_uri()}"
    words = [program, profile, "--headless", *settings, "--convert-to", to, "--outdir", str(out)]
    subprocess.run([*words, str(source)], check=True, capture_output=True, timeout=300)
    (found,) = out.iterdir()
    return found


def check(path: Path) -> None:
    """It is read as it was, and a run can go on with it."""
    heard: list[Problem] = []
    found = read_captions(str(path), reader="table", problems=Problems(warn=heard.append))
    assert [image.captions for image in found.images] == [(text_of_cell(r[1]),) for r in ROWS]
    assert [image.id for image in found.images] == [
        *("photos/café", "=1", "photos/a;b, c", "photos/4")
    ]
    western = "cp1252" in path.name
    assert ["Windows-1252" in problem.why for problem in heard] == [True] * western
    options = CaptionOptions(
        (Path("photos"),), format="csv", out=path, confidence=True, existing="skip"
    )
    rows = Rows(options)
    start = starting(options, path, rows, heard.append)
    assert rows.keys(start.held, "x") == {row[0] for row in ROWS}
    held = csv.reader(io.StringIO("\n".join(start.held), newline=""))
    assert [row[:2] + row[3:] for row in held] == [row[:2] + row[3:] for row in ROWS]


@pytest.mark.parametrize("name", SETTINGS)
def test_what_libreoffice_wrote_is_read(name: str) -> None:
    check(FILES / name)


@pytest.mark.slow
@pytest.mark.parametrize("workbook", ["xlsx", "ods"])
@pytest.mark.parametrize("name", SETTINGS)
def test_it_writes_them_anew(name: str, workbook: str, tmp_path: Path) -> None:
    (tmp_path / "captions.csv").write_bytes(made())
    book = convert(tmp_path / "captions.csv", workbook, tmp_path / "book", f"--infilter={OF_OURS}")
    with pytest.raises(DataError, match=r"workbook.*Save it as CSV: in Excel by File, Save As"):
        read("table", str(book), problems=Problems())
    to = f"csv:Text - txt - csv (StarCalc):{SETTINGS[name]}"
    path = convert(book, to, tmp_path / "back")
    check(path.rename(tmp_path / name))
