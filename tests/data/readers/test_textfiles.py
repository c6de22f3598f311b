"""Text as programs save it: which letters it has, and what is said of those that are doubtful."""

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from naic.data.readers import read
from naic.data.readers.captions import detect
from naic.data.readers.textfiles import decode_text, read_head, read_text
from naic.data.records import Problems, is_text
from naic.errors import DataError, Problem
from tests.data.readers.helpers import as_items, read_all

TEXT = "image,caption\r\ncafé.jpg,“ein Stück Käse” – 5 €\r\n"


def decoded(data: bytes) -> tuple[str, list[Problem]]:
    heard: list[Problem] = []
    return decode_text(data, "t.csv", heard.append), heard


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("packed", [False, True])
def test_text_with_a_mark_or_in_utf8(tmp_path: Path, encoding: str, packed: bool) -> None:
    mark = "\ufeff" if encoding.startswith("utf-16") else ""
    data = (mark + TEXT).encode(encoding)
    path = tmp_path / "t.csv"
    path.write_bytes(gzip.compress(data) if packed else data)
    heard: list[Problem] = []
    assert read_text(path, heard.append) == TEXT
    assert heard == []
    assert read_head(path).decode("utf-8-sig") == TEXT


WESTERN = [
    TEXT,
    "créée, naïve, « À l’été »",
    "süß; Größe; 20 °C; § 5; ½ Liter; 10 m²",
    "¿Dónde está el niño? ¡Aquí!",
    "são ações; Åse og Øystein æder æbler; þýðing",
    "a cat … on a sofa…… – “asleep”",
]


@pytest.mark.parametrize("text", WESTERN)
def test_western_text_is_read_and_told_of(text: str) -> None:
    found, heard = decoded(f"a,b\n{text}".encode("cp1252"))
    assert found == f"a,b\n{text}"
    (problem,) = heard
    assert problem.where == "t.csv"
    assert "it is not UTF-8, and was read as Windows-1252" in problem.why
    assert problem.why.endswith("on line 2") or "\r\n" in text


def test_the_message_shows_a_word_to_judge_by() -> None:
    _, (problem,) = decoded(
        "image,caption\r\n1.jpg,fine\r\n2.jpg,ein Stück Käse\r\n".encode("cp1252")
    )
    assert str(problem) == (
        "t.csv: it is not UTF-8, and was read as Windows-1252, which Excel's plain CSV is: 'Stück' "
        "on line 3. If that is not what you wrote, save the file as UTF-8, in Excel as CSV UTF-8."
    )


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("кошка спит на диване", "cp1251"),
        ("γάτα στον καναπέ", "cp1253"),
        ("חתול על ספה", "cp1255"),
        ("一只猫睡在沙发上", "gbk"),
        ("猫がソファで寝ている", "cp932"),
        ("żółty kot śpi na łóżku", "cp1250"),
        ("un café à la fenêtre, très fort", "mac_roman"),
        ("ein süßer Hund im Körbchen", "cp850"),
    ],
)
def test_text_of_other_code_pages_is_not_guessed(text: str, encoding: str) -> None:
    """No file says which code page it is in: its rows are named as no Unicode."""
    found, heard = decoded(f"1.jpg,{text}\n2.jpg,a cat\n".encode(encoding))
    assert heard == []
    assert [is_text(line) for line in found.splitlines()] == [False, True]


def test_a_broken_row_among_good_ones_stays_broken() -> None:
    found, heard = decoded("1.jpg,café\n".encode() + "2.jpg,Käse\n".encode("cp1252"))
    assert heard == []
    assert [is_text(line) for line in found.splitlines()] == [True, False]


def test_a_few_pairs_that_happen_to_be_utf8_do_not_hide_windows() -> None:
    text = "É… " + "à la fenêtre " * 20
    found, heard = decoded(text.encode("cp1252"))
    assert found == text
    assert len(heard) == 1


def test_half_a_character_in_utf16_is_named_with_its_row() -> None:
    data = b"\xff\xfe" + "a,b\n".encode("utf-16-le") + b"\x00\xd8" + "\nc,d\n".encode("utf-16-le")
    path_text = data.decode("utf-16", "surrogatepass").encode("utf-8", "surrogatepass")
    found, _ = decoded(path_text)
    assert [is_text(line) for line in found.splitlines()] == [True, False, True]


def workbook(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            kind = "application/vnd.oasis.opendocument.spreadsheet"
            archive.writestr(name, kind if name == "mimetype" else "")
    return file.getvalue()


@pytest.mark.parametrize("name", ["captions.csv", "captions.xlsx", "captions.txt"])
@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (workbook("[Content_Types].xml", "xl/workbook.xml"), "an Excel workbook"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(500), "an Excel workbook, or another file of"),
        (workbook("mimetype", "content.xml"), "a LibreOffice workbook"),
        (workbook("a.csv"), "a ZIP archive or an office document"),
    ],
)
def test_a_workbook_is_told_how_to_be_saved(
    tmp_path: Path, name: str, data: bytes, kind: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(DataError) as caught:
        read_all(detect(str(path)), path)
    assert caught.value.why.startswith(f"it is {kind}")
    assert "in Excel by File, Save As, CSV UTF-8; in LibreOffice by File" in caught.value.hint
    with pytest.raises(DataError, match=f"it is {kind}"):
        read_all("table", path)


def test_texts_beside_images_are_told_of_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jpg").touch()
        (tmp_path / f"{name}.txt").write_bytes("Käse".encode("cp1252"))
    heard: list[Problem] = []
    reading = read("folder", str(tmp_path), problems=Problems(warn=heard.append))
    assert [item.captions for item in as_items(reading)] == [("Käse",), ("Käse",)]
    assert [problem.where for problem in heard] == [str(tmp_path / "a.txt")]
