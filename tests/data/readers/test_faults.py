"""A table with faults of all kinds: all are named at once, or left out and counted."""

from collections import Counter
from pathlib import Path

import pytest

from naic.data.readers import Reading, read
from naic.data.readers.checking import LONGEST_CAPTION
from naic.data.records import Problems
from naic.errors import DataError, Problem
from tests.data.readers.helpers import make_tar
from tests.images.images import encode, photo

JPEG = encode(photo(), "JPEG")
SPLITS = ("", "train", "val", "test")

# Each fault as a row, and how it is told.
FAULTS = {
    b"1.jpg": "it has 1 cell where the header has 3",
    b"1.jpg,a dog, a cat, and more,train": "it has 5 cells where the header has 3",
    b" ,a dog,train": "no image is named",
    b"2.jpg, ,train": "the caption is empty",
    b"2.jpg,?!,train": "the caption '?!' has no letter or digit",
    b"2.jpg," + b"word " * 300 + b",train": "the caption has 1,500 characters, more than 1,000",
    b"2.jpg,a \x07 bell,train": "the caption has a control character (U+0007)",
    b"2.jpg,a caf\xef\xbf\xbd,train": "the caption has letters that were lost: 'a caf\ufffd'",
    "2.jpg,a cafÃ© it is,train".encode(): "reads 'a cafÃ© it is' where 'a café it is' is meant",
    b"2.jpg,a caf\xe9,train": "the caption is not valid Unicode",
    b'2.jpg,"never closed,train': "cannot be split into cells (unexpected end of data)",
    b"gone.jpg,a dog,train": "the image 'gone.jpg' is not in ",
    "cafÃ©.jpg,a dog,train".encode(): "the image 'cafÃ©.jpg' is not in ",
    b"same.jpg,a dog,train": "same.jpg: the name fits 2 images",
    b"cut.jpg,a dog,train": "cut.jpg: the JPEG file is cut short",
    b"text.jpg,a dog,train": "text.jpg: it is plain text, not one of the formats that naic opens",
    b"empty.jpg,a dog,train": "empty.jpg: it is empty",
    b"folder.jpg,a dog,train": "folder.jpg: it is a folder",
    b"3.jpg,a dog,trian": "there is no split 'trian'",
    b"1.jpg,a dog,val": "the image is in split 'val', but in 'train' at table.csv, row 2",
    b"./sub/../1.jpg,a horse,train": None,  # another way to write 1.jpg
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Two good rows, and those with faults after them."""
    for name in ("1.jpg", "2.jpg", "3.jpg", "café.jpg", "a/same.jpg", "b/same.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(JPEG)
    (tmp_path / "cut.jpg").write_bytes(JPEG[:-300])
    (tmp_path / "text.jpg").write_text("Not found")
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "folder.jpg").mkdir()
    good = [b"image,caption,split", "1.jpg,a café,train".encode(), b"2.jpg,a dog,train"]
    (tmp_path / "table.csv").write_bytes(b"\n".join([*good, *FAULTS]) + b"\n")
    return tmp_path / "table.csv"


def read_table(table: Path, problems: Problems, *images: Path) -> Reading:
    return read(
        "table", str(table), images=images, problems=problems, look=True, known_splits=SPLITS
    )


def test_all_faults_are_named_at_once(table: Path) -> None:
    with pytest.raises(DataError) as caught:
        read_table(table, Problems())
    told = str(caught.value)
    assert told.startswith(f"{table}: 20 things in it cannot be used, of 19 kinds\n  1 x too few")
    assert told.endswith(
        "\nNothing was done. Mend them, or pass --skip-bad to leave such rows out."
    )
    for line, why in enumerate(FAULTS.values(), 4):
        found = [own for own in told.splitlines() if f"row {line} (line {line})" in own]
        assert len(found) == (0 if why is None else 1)
        kind = told.splitlines()[told.splitlines().index(found[0]) - 1] if found else ""
        assert why is None or why in found[0] or why in kind
    assert "(was 'café.jpg' meant?)" in told
    assert "Is train meant? Splits are called test, train, val." in told


def test_they_can_be_left_out(table: Path) -> None:
    problems = Problems(skip=True)
    reading = read_table(table, problems)
    assert [(record.id, record.captions) for record in reading.records] == [
        ("1", ("a café", "a horse")),
        ("2", ("a dog",)),
    ]
    assert len(problems.items) == 20
    assert Counter(problem.kind for problem in problems.items)["image not found"] == 2


def test_of_frequent_faults_the_first_are_told(tmp_path: Path) -> None:
    rows = [f"{n}.jpg,a dog" for n in range(1000)]
    (tmp_path / "t.csv").write_text("\n".join(["image,caption", *rows, ",a dog"]))
    with pytest.raises(DataError) as caught:
        read_table(tmp_path / "t.csv", Problems())
    lines = str(caught.value).splitlines()
    assert lines[0] == f"{tmp_path / 't.csv'}: 1,001 things in it cannot be used, of 2 kinds"
    assert lines[3].startswith("  1,000 x image not found. Pass the folder")
    assert lines[4].startswith("      row 2 (line 2): the image '0.jpg' is not in ")
    assert lines[9] == "      and 995 more"


def test_one_fault_is_told_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("image,caption\n1.jpg\n")
    with pytest.raises(DataError) as caught:
        read_table(tmp_path / "t.csv", Problems())
    assert str(caught.value) == (
        "t.csv, row 2 (line 2): it has 1 cell where the header has 2. Give the row all cells of "
        "the header, or take it out. Or pass --skip-bad to leave such rows out."
    )


def test_a_quote_that_is_not_closed_swallows_no_row(tmp_path: Path) -> None:
    lines = ["image,caption"]
    for n in range(6):
        (tmp_path / f"{n}.jpg").write_bytes(JPEG)
        lines.append(f'{n}.jpg,"a dog' if n in (1, 3) else f'{n}.jpg,"a ""big"" dog,\nasleep"')
    (tmp_path / "t.csv").write_text("\n".join(lines))
    problems = Problems(skip=True)
    reading = read_table(tmp_path / "t.csv", problems)
    assert [record.id for record in reading.records] == ["0", "2", "4", "5"]
    assert {record.captions for record in reading.records} == {('a "big" dog,\nasleep',)}
    assert [problem.where for problem in problems.items] == [
        "t.csv, row 3 (line 4)",
        "t.csv, row 5 (line 7)",
    ]


def test_a_caption_of_the_greatest_length(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(JPEG)
    for length, fine in ((LONGEST_CAPTION, True), (LONGEST_CAPTION + 1, False)):
        (tmp_path / "t.csv").write_text(f"image,caption\n1.jpg,{'a' * length}\n")
        problems = Problems(skip=True)
        assert len(read_table(tmp_path / "t.csv", problems).records) == fine


def test_what_is_said_twice_is_told_and_kept(tmp_path: Path) -> None:
    """Two people may say the same of an image; so it is no fault."""
    (tmp_path / "1.jpg").write_bytes(JPEG)
    rows = ["image,caption", *["1.jpg,a dog"] * 8, "./1.jpg,a cat"]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    heard: list[Problem] = []
    reading = read_table(tmp_path / "t.csv", Problems(warn=heard.append))
    assert reading.captions == 9
    (told,) = heard
    assert told.why.endswith(
        "row 3 (line 3); row 4 (line 4); row 5 (line 5); row 6 (line 6); row 7 (line 7) and 2 more"
    )
    (tmp_path / "t.jsonl").write_text('{"image": "1.jpg", "captions": ["a dog", "a dog"]}\n')
    assert read_table(tmp_path / "t.jsonl", Problems(warn=heard.append)).captions == 2
    assert len(heard) == 1


def test_images_in_a_tar_are_looked_at(tmp_path: Path) -> None:
    tar = make_tar(tmp_path / "p.tar", {"1.jpg": JPEG, "cut.jpg": JPEG[:-300]})
    (tmp_path / "t.csv").write_text("image,caption\n1.jpg,a dog\ncut.jpg,a cat\n")
    with pytest.raises(DataError, match=r"p\.tar:cut\.jpg: the JPEG file is cut short"):
        read_table(tmp_path / "t.csv", Problems(), tar)


def test_images_without_captions_are_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / "1.jpg").write_bytes(JPEG)
    (tmp_path / "2.jpg").touch()
    (tmp_path / "1.txt").write_text("a dog")
    reading = read("folder", str(tmp_path), problems=Problems(), look=True)
    assert [record.id for record in reading.records] == ["1", "2"]
