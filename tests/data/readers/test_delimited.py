"""How the cells of a table are told apart, and which rows come of it."""

from pathlib import Path

import pytest

from naic.data.readers.captions import detect
from naic.data.readers.delimited import Record, looks_like_table, open_sheet

QUOTED = '"a cat, ""big""; on\ta sofa"'


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("expected", [",", "\t"])
def test_the_header_tells(delimiter: str, newline: str, quoted: bool, expected: str) -> None:
    names = ["Image", "caption", "confidence", "what else; or, not"]
    quote = f'"{names[3]}"'
    header = [f'"{name}"' for name in names] if quoted else [*names[:3], quote]
    rows = [header, ["a;b.jpg" if delimiter != ";" else "a,b.jpg", QUOTED, "0.5", "1.5"]]
    text = newline.join(delimiter.join(row) for row in rows) + newline
    if delimiter == ";":
        text = text.replace("0.5", "0,5").replace("1.5", "1,5")
    sheet = open_sheet(text, expected)
    assert sheet.delimiter == delimiter
    first, second = sheet.records()
    assert first.cells == names
    assert second.cells is not None
    assert second.cells[1] == 'a cat, "big"; on\ta sofa'
    assert (second.number, second.line, len(second.cells)) == (2, 2, 4)


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("image;caption, mine\n", ";"),
        ("file\tcaption,in my words\n", "\t"),
        ('"what, where";image;caption\n', ";"),
        ('\n\n"image";"caption"\n', ";"),
        ('"image\n";caption\n', ";"),
        ("nothing|known\n", ","),
        ("two;words\n", ";"),
        ("", ","),
    ],
)
def test_odd_headers(text: str, delimiter: str) -> None:
    assert open_sheet(text).delimiter == delimiter


@pytest.mark.parametrize("line", ["sep=;", "SEP=;", '"sep=;"', "sep=;;;"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_the_line_that_excel_obeys(line: str, newline: str) -> None:
    sheet = open_sheet(f"{line}{newline}image;caption{newline}a,b.jpg;c, d{newline}")
    assert list(sheet.records()) == [
        Record(2, 2, ["image", "caption"]),
        Record(3, 3, ["a,b.jpg", "c, d"]),
    ]
    assert open_sheet("sep=|\nimage|caption\n").delimiter == "|"
    assert open_sheet("sep=\t\nimage\tcaption\n").delimiter == "\t"


def test_rows_that_a_spreadsheet_took_for_one_cell() -> None:
    """One that expects semicolons, given a table by commas."""
    text = 'image,caption\na.jpg,a cat\n"b.jpg,""a cat, """"big"""""""\n"c.jpg"\n"d.jpg,""open"\n'
    assert [record.cells for record in open_sheet(text).records()] == [
        ["image", "caption"],
        ["a.jpg", "a cat"],
        ["b.jpg", 'a cat, "big"'],
        ["c.jpg"],
        ['d.jpg,"open'],
    ]


def test_after_a_row_that_cannot_be_read_comes_the_next_line() -> None:
    text = 'image,caption\na.jpg,"open\nb.jpg,"two\nlines"\nc.jpg,"bad"end\nd.jpg,fine\n'
    found = list(open_sheet(text).records())
    assert [(r.number, r.line, r.cells) for r in found] == [
        (1, 1, ["image", "caption"]),
        (2, 2, None),
        (3, 3, ["b.jpg", "two\nlines"]),
        (4, 5, None),
        (5, 6, ["d.jpg", "fine"]),
    ]


def test_a_thousand_quotes_that_do_not_close_take_no_time() -> None:
    text = "image,caption\n" + 'a.jpg,"open\n' * 999
    assert sum(record.cells is None for record in open_sheet(text).records()) >= 500


def test_what_looks_like_a_table() -> None:
    assert looks_like_table("file_name;caption\n")
    assert not looks_like_table("a cat on a sofa; a dog, too\n")
    assert not looks_like_table("image\n")
    assert not looks_like_table("")


def test_a_table_may_be_called_txt(tmp_path: Path) -> None:
    """As Excel calls its Unicode text."""
    path = tmp_path / "captions.txt"
    path.write_bytes("path\tcaption\na.jpg\ta café\n".encode("utf-16"))
    assert detect(str(path)) == "table"
    path.write_text("image,caption\na.jpg,a cat\n")
    assert detect(str(path)) == "flickr8k"  # which reads it as well, and its lists of splits
