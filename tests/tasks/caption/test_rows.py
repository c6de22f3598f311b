import csv
import io
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import ConfigError, DataError
from naic.tasks.caption.find import Found
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.rows import Rows, image_id, refuse_same_images
from naic.text.cells import text_of_cell
from tests.tasks.caption.small import Said, Word, says

TWO = Said(
    "a cat", (Word("a", 0.5), Word("cat", 0.12345)), 0.06, (Word("a cat", 0.06), Word("cats", 1e-5))
)


def rows(**settings: Any) -> Rows:
    return Rows(CaptionOptions((Path("x"),), **settings))


def row(path: str = "p/1.jpg", said: Said = TWO, **settings: Any) -> str:
    caption: Any = said if "alternatives" in settings else replace(said, alternatives=())
    return rows(**settings).row(path, caption)


def test_a_line_of_text() -> None:
    assert row() == "p/1.jpg: a cat"
    assert row("two\nlines.jpg") == "two\\nlines.jpg: a cat"
    assert row(confidence=True) == "p/1.jpg: a (50%) cat (12%), 6.0% in all"
    assert row(confidence=True, suffix="!") == "p/1.jpg: a (50%) cat (12%)!, 6.0% in all"
    sure = replace(TWO, confidence=0.71, probability=0.06, calibrated=True)
    assert row(said=sure, confidence=True) == "p/1.jpg: a (50%) cat (12%), right with 71.0%"
    assert row(prefix="look, ", suffix="!") == "p/1.jpg: look, a cat!"
    assert row(alternatives=2) == "p/1.jpg: a cat\n    cats (0.0%)"


def test_a_line_of_a_model_with_a_style_has_its_text_and_its_words() -> None:
    styled = replace(TWO, text="Photo of a cat.")
    found = row(said=styled, confidence=True, suffix="!")
    assert found == "p/1.jpg: Photo of a cat.! [a (50%) cat (12%)], 6.0% in all"
    joined = Said("cat's", (Word("cat", 0.5), Word("'s", 0.25)))
    assert row(said=joined, confidence=True) == "p/1.jpg: cat (50%) 's (25%), 25.0% in all"


def test_objects() -> None:
    for kind in ("json", "jsonl"):
        assert json.loads(row(format=kind)) == {"path": "p/1.jpg", "caption": "a cat"}
    everything = row(
        "caf\udce9\n.jpg", format="jsonl", confidence=True, alternatives=2, prefix="<", suffix=">"
    )
    assert everything.isascii()
    assert "\n" not in everything
    assert json.loads(everything) == {
        "path": "caf\udce9\n.jpg",
        "caption": "<a cat>",
        "confidence": 0.06,
        "words": [{"word": "a", "confidence": 0.5}, {"word": "cat", "confidence": 0.1235}],
        "alternatives": [
            {"caption": "<a cat>", "confidence": 0.06},
            {"caption": "<cats>", "confidence": 1e-05},
        ],
    }


def test_an_object_of_a_calibrated_model_has_both_numbers() -> None:
    sure = replace(TWO, confidence=0.71, probability=0.06, calibrated=True)
    made = json.loads(row(said=sure, format="jsonl", confidence=True))
    assert (made["confidence"], made["probability"]) == (0.71, 0.06)
    assert "probability" not in json.loads(row(said=sure, format="jsonl"))


def test_a_text_file_has_the_caption_and_then_the_alternatives() -> None:
    assert row(format="txt", alternatives=2, suffix=".") == "a cat.\ncats."


def test_the_whole_of_each_format() -> None:
    three = ["1", "2", "3"]
    assert "".join(rows(format="jsonl").whole(three)) == "1\n2\n3\n"
    assert "".join(rows(format="text").whole([])) == ""
    for kind in ("json", "coco"):
        assert json.loads("".join(rows(format=kind).whole(three))) == [1, 2, 3]
        assert "".join(rows(format=kind).whole(three)) == "[\n1,\n2,\n3\n]\n"
        assert "".join(rows(format=kind).whole([])) == "[]\n"
    assert "".join(rows(format="csv").whole(["x,y"])) == "path,caption\nx,y\n"
    header = next(iter(rows(format="csv", confidence=True, alternatives=3).whole([])))
    assert header == "path,caption,confidence,words,alternative_2,alternative_3\n"


def test_a_line_is_whole_as_soon_as_it_is_known() -> None:
    handed: list[str] = []

    def growing() -> Any:
        for text in ("1", "2"):
            yield text
            assert handed[-1] == f"{text}\n"

    for piece in rows(format="jsonl").whole(growing()):
        handed.append(piece)


def test_the_cells_of_a_row() -> None:
    line = row("a,b.jpg", format="csv", confidence=True, alternatives=3)
    assert line == '"a,b.jpg",a cat,0.06,a (0.5000) cat (0.1235),cats,'


def test_the_confidence_of_a_caption_can_be_sorted_by() -> None:
    said = [replace(TWO, confidence=own) for own in (0.98765432, 1.23456e-7, 0.25)]
    lines = [row(said=own, format="csv", confidence=True) for own in said]
    cells = [next(csv.reader([line]))[2] for line in lines]
    assert cells == ["0.9877", "1.235e-07", "0.25"]
    objects = [json.loads(row(said=own, format="jsonl", confidence=True)) for own in said]
    assert [own["confidence"] for own in objects] == [0.9877, 1.235e-07, 0.25]
    assert "confidence" not in json.loads(row(format="jsonl"))


ANY = st.text(min_size=1).filter(lambda text: "\0" not in text)


@given(path=ANY, caption=ANY)
def test_any_row_of_csv_can_be_read_and_is_no_formula(path: str, caption: str) -> None:
    words = tuple(Word(word, 0.5) for word in caption.split(" "))
    text = "".join(rows(format="csv").whole([row(path, Said(caption, words), format="csv")]))
    assert text.encode()  # UTF-8 whatever the name is
    header, cells = csv.reader(io.StringIO(text, newline=""), strict=True)
    assert header == ["path", "caption"]
    assert cells[0].removeprefix("./") == path.removeprefix("./")
    assert text_of_cell(cells[1]) == caption
    assert not any(cell[0] in "=+-@\t\r" for cell in cells)


def test_bytes_that_are_no_text_are_spelt_out_in_csv() -> None:
    assert row("caf\udce9.jpg", format="csv") == "caf\\udce9.jpg,a cat"


NAMES = st.text(st.sampled_from("\\udcf8\udcff=")) | st.text(st.characters())


@given(NAMES, NAMES)
def test_no_two_paths_have_one_cell(one: str, other: str) -> None:
    made = rows(format="csv")
    keys = {made.key(path).removeprefix("./") for path in (one, other)}
    assert len(keys) == len({path.removeprefix("./") for path in (one, other)})


def test_the_letters_of_an_escape_are_not_the_byte() -> None:
    assert row("\\udcff.jpg", format="csv") == "\\\\udcff.jpg,a cat"
    assert row("\udcff.jpg", format="csv") == "\\udcff.jpg,a cat"
    assert row("\\\udcff.jpg", format="csv") == "\\\\\\udcff.jpg,a cat"
    assert row("\\x\\uD.jpg", format="csv") == "\\x\\uD.jpg,a cat"  # others stay as they are


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("COCO_val2014_000000000042.jpg", 42),
        ("images/000000000007.png", 7),
        ("0.jpg", 0),
        ("12.heic", 12),
    ],
)
def test_the_number_of_an_image(name: str, number: int) -> None:
    assert image_id(name) == number
    assert json.loads(row(name, format="coco", suffix=".")) == {
        "image_id": number,
        "caption": "a cat.",
    }


@pytest.mark.parametrize("name", ["photo.jpg", "img42.jpg", "42a.jpg", "-42.jpg", "٤٢.jpg", "42/a"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match="its name is not such a number"):
        image_id(name)


def test_two_names_of_one_image_are_refused() -> None:
    images = [Found(path, path) for path in ("1.jpg", "2.jpg", "b/COCO_val2014_000000000002.jpg")]
    refuse_same_images(images[:2])
    with pytest.raises(ConfigError, match=r"it is image 2, and so is 2\.jpg"):
        refuse_same_images(images)


@pytest.mark.parametrize("kind", ["json", "jsonl", "csv", "coco"])
def test_what_is_there_is_read_back(kind: str) -> None:
    names = ["1.jpg", "2.jpg", "30.jpg"]
    made = rows(format=kind)
    text = "".join(made.whole(row(name, says(name), format=kind) for name in names))
    held = made.held(text, "out")
    assert made.keys(held, "out") == {made.key(name) for name in names}
    assert "".join(made.whole(held)) == text
    assert made.held("".join(made.whole([])), "out") == []


def test_odd_names_are_known_again() -> None:
    names = ["=1.jpg", 'a\nb,"c".jpg', "caf\udce9.jpg", "./x.jpg"]
    for kind in ("json", "jsonl", "csv"):
        made = rows(format=kind)
        text = "".join(made.whole(row(name, format=kind) for name in names))
        assert made.keys(made.held(text, "out"), "out") == {made.key(name) for name in names}


@pytest.mark.parametrize(
    ("kind", "text", "why"),
    [
        ("json", "{}", "it holds no JSON array"),
        ("json", "[1", "broken JSON"),
        ("jsonl", '{"path": "a"}\n{"pth": 1}\n', "row 2: there is no 'path'"),
        ("jsonl", "[]\n", "there is no 'path'"),
        ("coco", '[{"path": "a"}]', "there is no 'image_id'"),
        ("csv", "path,text\na,b\n", "path, text; those of this command are path, caption"),
        ("csv", 'path,caption\n"a', r"row 2 \(line 2\): it is no CSV"),
        ("csv", 'path;caption\na;b\n"a', r"row 3 \(line 3\): it is no CSV"),
        ("csv", "path;caption\na;b;c\n", "row 2: it has 3 cells where the header has 2"),
        ("csv", "", "its columns are none; those of this command"),
        ("jsonl", "p/1.jpg: a cat\n", "row 1"),
        ("jsonl", "path,caption\na,b\n", "row 1"),
        ("jsonl", '[\n{"path": "a"}\n]\n', "row 1"),
        ("json", '[{"image_id": 1, "caption": "a"}]', "there is no 'path'"),
        ("text", "path,caption\na,b\n", "it is CSV"),
        ("text", "\ufeffpath,caption,words\r\na,b,c\r\n", "it is CSV"),
        ("text", '{"path": "a"}\n{"path": "b"}\n', "it is JSON"),
        ("text", '[\n{"path": "a"}\n]\n', "it is JSON"),
        ("text", '[{"path": "a"},\n{"path": "b"}]\n', "it is JSON"),
        ("text", "{\n", "it is JSON"),
        ("text", "[]\n", "it is JSON"),
    ],
)
def test_files_of_another_kind_are_refused(kind: str, text: str, why: str) -> None:
    with pytest.raises(DataError, match=why):
        rows(format=kind).held(text, "out")


@pytest.mark.parametrize("name", ["[1].jpg", "{x}.jpg", "path,caption.jpg", "path,captions"])
def test_lines_of_text_with_odd_names_can_be_added_to(name: str) -> None:
    made = rows(format="text")
    assert made.held(f"{row(name)}\n", "out") == [row(name)]


@pytest.mark.parametrize("kind", ["text", "json", "jsonl", "csv", "coco"])
def test_rows_that_are_there_are_known(kind: str) -> None:
    settings: dict[str, Any] = {"format": kind}
    if kind != "coco":
        settings["alternatives"] = 2
    made = rows(**settings)
    own = [row(f"{number}.jpg", **settings) for number in range(3)]
    known = made.known(made.held("".join(made.whole(own)), "out"))
    assert all(known(each) for each in own)
    other = Said("a dog", (Word("a", 0.5),), 0.06, (Word("a dog", 0.06), Word("cats", 1e-5)))
    assert not known(row("3.jpg", **settings))
    assert not known(row("1.jpg", other, **settings))
    assert not made.known([])(own[0])


def test_a_row_within_a_cell_is_not_known() -> None:
    made = rows(format="csv")
    name = "x\n1.jpg,a cat\ny.jpg"
    known = made.known([row(name, format="csv")])
    assert known(row(name, format="csv"))
    assert not known(row("1.jpg", format="csv"))
