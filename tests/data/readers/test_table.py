import gzip
import lzma
from pathlib import Path

import pytest

from naic.errors import DataError
from naic.images.sources import FileImage
from tests.data.readers.helpers import (
    ITEMS,
    Item,
    as_items,
    make_images,
    read_all,
    read_skipping,
    table_text,
)
from tests.images.images import encode, photo

JPEG, PNG = encode(photo(), "JPEG"), encode(photo(), "PNG")


def write(folder: Path, text: str | bytes, name: str = "table.csv") -> Path:
    make_images(folder)
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def problems_of(path: Path) -> list[tuple[str, str]]:
    return [(p.where, p.why) for p in read_skipping("table", path)[1].items]


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
@pytest.mark.parametrize("bom", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("newline", ["\r\n", "\n", "\r"])
def test_csv_as_people_save_it(tmp_path: Path, pack: object, bom: bytes, newline: str) -> None:
    assert callable(pack)
    data = bom + table_text().replace("\r\n", newline).encode()
    name = {bytes: "t.csv", gzip.compress: "t.csv.gz"}.get(pack, "t.CSV.xz")
    assert as_items(read_all("table", write(tmp_path, pack(data), name))) == list(ITEMS)


def test_rows_of_one_image_are_gathered_in_the_order_of_images(tmp_path: Path) -> None:
    text = 'Caption, Image ,other\n"a\nb",two.jpg,\nc,one.jpg,\nd,./two.jpg,\n\n'
    reading = read_all("table", write(tmp_path, text))
    assert as_items(reading) == [Item("two", ("a\nb", "d")), Item("one", ("c",))]


def test_row_and_line_numbers_after_quoted_newlines(tmp_path: Path) -> None:
    text = 'image,caption\none.jpg,"a\nb\nc"\n\ntwo.jpg,\ntwo.jpg,fine\n'
    assert problems_of(write(tmp_path, text)) == [
        ("table.csv, row 4 (line 6)", "the caption is empty")
    ]


def test_bad_rows_of_a_csv(tmp_path: Path) -> None:
    rows = [
        b"image,caption,split,id",
        b"one.jpg,fine,train,1",
        b"one.jpg,cut, by a comma,train,1",
        b"one.jpg,short",
        b",no image,train,",
        b"one.jpg,moved,val,1",
        b"one.jpg,renamed,train,2",
        b"two.jpg,same id,train,1",
        b"gone.jpg,no such file,train,3",
        b"three.jpg,caf\xe9,train,4",
        b'two.jpg,"quoted" badly,train,5',
        b'two.jpg,"never closed,train,6',
        b"one.jpg,caf\xc3\xa9,train,1",
    ]
    path = write(tmp_path, b"\n".join(rows))
    reading, problems = read_skipping("table", path)
    found = [(p.where, p.why) for p in problems.items]
    assert as_items(reading) == [Item("1", ("fine", "café"), "train")]
    first = "table.csv, row 2"
    assert {(where, why.partition(" (")[0]) for where, why in found} == {
        ("table.csv, row 3 (line 3)", "it has 5 cells where the header has 4"),
        ("table.csv, row 4 (line 4)", "it has 2 cells where the header has 4"),
        ("table.csv, row 5 (line 5)", "no image is named"),
        ("table.csv, row 6 (line 6)", f"the image is in split 'val', but in 'train' at {first}"),
        ("table.csv, row 7 (line 7)", f"the image has the id '2', but '1' at {first}"),
        ("table.csv, row 8 (line 8)", "the id '1' was already used by table.csv, row 2"),
        (
            "table.csv, row 9 (line 9)",
            f"the image 'gone.jpg' is not in {tmp_path}, nor at that path from the working folder",
        ),
        ("table.csv, row 10 (line 10)", "the caption is not valid Unicode"),
        ("table.csv, row 11 (line 11)", "line 11 cannot be split into cells"),
        ("table.csv, row 12 (line 12)", "line 12 cannot be split into cells"),
    }
    with pytest.raises(DataError, match="10 things in it cannot be used, of 9 kinds") as caught:
        read_all("table", path)
    assert all(f"      {where.partition(', ')[2]}" in caught.value.why for where, _ in found)


def test_bad_lines_of_json(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    rows = [
        '{"image": "one.jpg", "caption": "fine"}',
        '{"image": "one.jpg", "caption": ["also", "fine"]}',
        '{"image": "one.jpg", "captions": "well"}',
        '{"image": "two.jpg", "captions": []}',
        '{"image": "three.jpg", "captions": ["ok", 7, null, "?"], "id": 12}',
        '{"image": "one.jpg", "caption": "broken"',
        '{"image": "one.jpg"}',
        '{"image": "one.jpg", "caption": "x", "captions": ["y"]}',
        '{"image": "one.jpg", "caption": "x", "caption": "y"}',
        '{"image": ["one.jpg"], "caption": "x"}',
        '{"image": "one.jpg", "caption": "x", "split": 1}',
        '{"image": "one.jpg", "caption": "x", "id": true}',
        '{"image": "one.jpg", "caption": NaN}',
        f'{{"image": "one.jpg", "caption": {"9" * 5000}}}',
        '{"image": "one.jpg", "caption": "\\ud800"}',
        '["one.jpg"]',
        deep,
        '{"path": "one.jpg", "file": "one.jpg", "caption": "x"}',
        '{"path": 7, "caption": "x"}',
    ]
    path = write(tmp_path, "\n".join(rows), "t.jsonl")
    reading, problems = read_skipping("table", path)
    assert as_items(reading) == [
        Item("one", ("fine", "also", "fine", "well")),
        Item("two"),
        Item("12", ("ok",)),
    ]
    whys = [
        (p.where.removeprefix("t.jsonl, line "), p.why.partition(" (")[0]) for p in problems.items
    ]
    assert sorted(whys, key=lambda pair: int(pair[0])) == [
        ("5", "the caption is not text but a number"),
        ("5", "the caption is not text but null"),
        ("5", "the caption '?' has no letter or digit"),
        ("6", "broken JSON at column 41: Expecting ',' delimiter"),
        ("7", "there is no 'caption'"),
        ("8", "it has both 'caption' and 'captions'"),
        ("9", "an object in the JSON has the key 'caption' twice"),
        ("10", "'image' is a list, not a path"),
        ("11", "'split' is a number, not a string"),
        ("12", "'id' is true or false"),
        ("13", "the caption is not text but a number"),
        ("14", "the JSON holds a number of too many digits"),
        ("15", "the caption is not valid Unicode"),
        ("16", "it is a list where an object is expected"),
        ("17", "the JSON is nested too deeply"),
        ("18", "'path' and 'file' may both name the image"),
        ("19", "'path' is a number, not a path"),
    ]


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("t.csv", b"", "the table is empty"),
        ("t.csv", b"\n\n", "the table is empty"),
        ("t.csv", b"image,caption\n", "there is nothing in it"),
        ("t.csv", b"one.jpg,a cat\n", r"no column 'image' \(columns found: 'one.jpg', 'a cat'\)"),
        ("t.csv", b"image;caption\n", "there is nothing in it"),
        ("t.csv", b"image;text, a\n", "'caption' .columns found: 'image', 'text, a'"),
        ("t.csv", b"image,text\n", "no column 'caption'"),
        ("t.csv", b"image,caption,Image\n", "two columns 'image'"),
        ("t.csv", b"path,caption,File\n", "columns 'path' and 'file' may both name the image"),
        ("t.csv", b"path,text\n", "no column 'caption'"),
        ("t.csv", "ï»¿path,caption\n".encode(), "took its UTF-8 for Windows-1252"),
        ("t.tsv", b"image,caption\n", "there is nothing in it"),
        ("t.tsv", b"image\ttext\n", "no column 'caption'"),
        ("t.csv", b'image,"caption\n', r"line 1 cannot be split into cells .unexpected end"),
        ("t.csv", "image,caption\n".encode("utf-16"), "there is nothing in it"),
        ("t.csv", "image,caption\n".encode("utf-16")[:-1], "UTF-16 text that is damaged or cut"),
        ("t.csv", "image,caption\n".encode("utf-16-le"), "UTF-16 text without the mark"),
        ("t.csv", bytes(range(32)) * 200, "it is no text"),
        ("t.csv", JPEG, "it is no text, but JPEG data"),
        ("t.csv.gz", gzip.compress(b"image,caption\n", mtime=0)[:-9], "damaged or cut"),
        ("t.csv.xz", lzma.compress(b"image,caption\n")[:-9], "damaged or cut"),
        ("t.jsonl", b"\n", "the table is empty"),
        ("t.parquet", b"PAR1", "a table cannot be .parquet"),
    ],
)
def test_tables_that_cannot_be_read(tmp_path: Path, name: str, data: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why) as caught:
        read_skipping("table", write(tmp_path, data, name))
    assert str(tmp_path / name) == caught.value.what
    assert caught.value.hint


def test_where_images_are_looked_for(tmp_path: Path) -> None:
    make_images(tmp_path / "photos")
    make_images(tmp_path / "meta/images")
    path = tmp_path / "meta/t.csv"
    for image, roots, expected in (
        ("images/one.jpg", (), "meta/images/one.jpg"),
        ("one.jpg", (), "meta/images/one.jpg"),
        ("one.jpg", ("photos",), "photos/one.jpg"),
        ("images/one.jpg", (".",), "meta/images/one.jpg"),
        ("../photos/one.jpg", (".",), "photos/one.jpg"),
        (f"{tmp_path}/photos/one.jpg", ("photos",), "photos/one.jpg"),
    ):
        path.write_text(f"image,caption\n{image},a ball\n")
        (record,) = read_all("table", path, *(tmp_path / root for root in roots)).records
        assert record.image == FileImage(tmp_path / expected)
    # People write their own tables: a path that leads out of the roots is followed.
    (tmp_path / "photos/only.jpg").touch()
    for image in ("../photos/only.jpg", f"{tmp_path}/photos/only.jpg"):
        path.write_text(f"image,caption\n{image},a ball\n")
        (record,) = read_all("table", path).records
        assert record.image == FileImage(tmp_path / "photos/only.jpg")
    path.write_text("image,caption\n../photos/none.jpg,a ball\n")
    with pytest.raises(DataError, match=r"'\.\./photos/none\.jpg' is not in .*--images"):
        read_all("table", path)


def test_a_namesake_is_not_taken_for_a_missing_image(tmp_path: Path) -> None:
    make_images(tmp_path / "photos/train")
    (tmp_path / "photos/val").mkdir()
    path = write(tmp_path / "meta", "image,caption\nval/one.jpg,a ball\n")
    with pytest.raises(DataError, match=r"'val/one\.jpg' is not in"):
        read_all("table", path, tmp_path / "photos")


@pytest.mark.parametrize("name", ["path", "Path", "file", "filename", "FILE_NAME"])
@pytest.mark.parametrize("delimiter", [",", "\t"])
def test_other_names_of_the_image_column(tmp_path: Path, name: str, delimiter: str) -> None:
    """What `naic caption` and others write; further columns are no matter."""
    rows = [
        [name, "caption", "confidence", "alternative_2"],
        ["two.jpg", "two dogs", "0.5", "dogs"],
    ]
    text = "\n".join(delimiter.join(row) for row in rows)
    path = write(tmp_path, text, "t.csv" if delimiter == "," else "t.tsv")
    assert as_items(read_all("table", path)) == [Item("two", ("two dogs",))]


def test_other_names_of_the_image_in_json(tmp_path: Path) -> None:
    rows = [
        '{"path": "one.jpg", "caption": "a", "confidence": 0.5, "words": [{"word": "a"}]}',
        '{"file_name": "two.jpg", "caption": "b"}',
        '{"image": "three.jpg", "path": "gone.jpg", "caption": "c"}',
    ]
    path = write(tmp_path, "\n".join(rows), "t.jsonl")
    expected = [Item("one", ("a",)), Item("two", ("b",)), Item("three", ("c",))]
    assert as_items(read_all("table", path)) == expected


def test_image_wins_over_its_other_names(tmp_path: Path) -> None:
    path = write(tmp_path, "path,image,caption,file\ngone.jpg,one.jpg,a ball,gone.jpg\n")
    assert as_items(read_all("table", path)) == [Item("one", ("a ball",))]


def test_an_image_out_of_the_roots_in_two_spellings_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It must not be learnt from and held out."""
    make_images(tmp_path / "photos")
    (tmp_path / "tables").mkdir()
    monkeypatch.chdir(tmp_path)
    rows = f"../photos/one.jpg,a ball\n{tmp_path}/photos/one.jpg,a red ball\n"
    Path("tables/t.csv").write_text(f"path,caption\n{rows}")
    with pytest.raises(DataError, match=r"row 3 .*/photos/one\.jpg is already that of .*row 2"):
        read_all("table", Path("tables/t.csv"))


def test_paths_from_the_working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `naic caption photos --out tables/t.csv` writes them."""
    make_images(tmp_path / "photos")
    (tmp_path / "tables/deep").mkdir(parents=True)
    path = tmp_path / "tables/t.csv"
    monkeypatch.chdir(tmp_path)

    def found(image: str, *roots: Path) -> Path:
        path.write_text(f"path,caption\n{image},a ball\n")
        (record,) = read_all("table", Path("tables/t.csv"), *roots).records
        assert isinstance(record.image, FileImage)
        return record.image.path

    assert found("photos/one.jpg") == tmp_path / "photos/one.jpg"
    assert found("./photos/../photos/one.jpg") == tmp_path / "photos/one.jpg"
    monkeypatch.chdir("photos")
    path.write_text("path,caption\none.jpg,a ball\n")
    (record,) = read_all("table", path).records
    assert record.image == FileImage(tmp_path / "photos/one.jpg")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match="is not in tables/deep"):  # --images: there or nowhere
        found("photos/one.jpg", Path("tables/deep"))
    # A namesake somewhere beneath the table is a guess, and so is the working folder.
    make_images(tmp_path / "tables/deep")
    with pytest.raises(DataError, match=r"fits 2 images, .*photos/one\.jpg and .*deep/one\.jpg"):
        found("photos/one.jpg")
    # A path that leads there from the table means that, wherever one stands.
    make_images(tmp_path / "tables/photos")
    assert found("photos/one.jpg") == tmp_path / "tables/photos/one.jpg"


def test_a_path_that_is_no_unicode_is_called_a_path(tmp_path: Path) -> None:
    """Its id is made from it, but the table has no column of that name."""
    (tmp_path / "t.csv").write_bytes(b"image,caption,split\n\x81.jpg,a dog,train\n")
    with pytest.raises(DataError) as caught:
        read_all("table", tmp_path / "t.csv")
    assert caught.value.why == "its path is not valid Unicode text"
    (tmp_path / "t.csv").write_bytes(b"image,caption,split\none.jpg,a dog,tr\x81in\n")
    with pytest.raises(DataError, match="its split is not valid Unicode text"):
        read_all("table", tmp_path / "t.csv")
