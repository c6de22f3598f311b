"""Karpathy's JSON and COCO's own."""

import gzip
import json
import lzma
from pathlib import Path

import pytest

from naic.errors import DataError
from naic.images.sources import FileImage, TarImage
from tests.data.readers.helpers import (
    ITEMS,
    Item,
    as_items,
    coco_value,
    karpathy_value,
    make_images,
    make_tar,
    read_all,
    read_skipping,
    write_json,
)


@pytest.mark.parametrize("pack", [bytes, gzip.compress, lzma.compress])
def test_packed_whatever_the_name(tmp_path: Path, pack: object) -> None:
    assert callable(pack)
    make_images(tmp_path)
    (tmp_path / "d.json").write_bytes(pack(json.dumps(karpathy_value()).encode()))
    assert as_items(read_all("karpathy", tmp_path / "d.json")) == list(ITEMS)


def test_karpathy_sentences_raw_tokens_or_plain(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").touch()
    sentences = [
        {"raw": "A cat. ", "tokens": ["a", "cat"]},
        {"tokens": ["two", "cats"]},
        {"raw": None, "tokens": ["three"]},
        "plain",
    ]
    bad = [{"tokens": ["x", 1]}, {}, {"raw": 5, "tokens": ["x"]}, {"tokens": []}, 3, {"raw": " . "}]
    path = write_json(
        tmp_path / "d.json", {"images": [{"filename": "a.jpg", "sentences": sentences + bad}]}
    )
    reading, problems = read_skipping("karpathy", path)
    assert as_items(reading) == [Item("a", ("A cat.", "two cats", "three", "plain"))]
    assert [p.where for p in problems.items] == [
        f"d.json, image 1 (a), sentence {number}" for number in range(5, 11)
    ]
    assert reading.bad_captions == 6


def test_coco_names_of_2014_and_2017(tmp_path: Path) -> None:
    tar = make_tar(tmp_path / "i.tar", {"000000000042.jpg": b"x", "000000000043.jpg": b"y"})
    old = {"filepath": "val2014", "sentences": [], "split": "restval"}
    rows = [
        {**old, "cocoid": 42, "filename": "COCO_val2014_000000000042.jpg"},
        {"cocoid": 43, "sentences": []},
    ]
    path = write_json(tmp_path / "d.json", {"images": rows})
    reading = read_all("karpathy", path, tar)
    assert as_items(reading) == [Item("42", (), "restval"), Item("43")]
    image = reading.records[0].image
    assert isinstance(image, TarImage)
    assert (image.member, image.offset, image.size) == ("000000000042.jpg", 512, 1)
    # Somebody's own image number 42 is not COCO's.
    rows = [{"cocoid": 42, "filename": "cat.jpg", "sentences": []}]
    with pytest.raises(DataError, match=r"'cat\.jpg' is not in"):
        read_all("karpathy", write_json(path, {"images": rows}), tar)


def test_two_rows_cannot_have_one_image(tmp_path: Path) -> None:
    (tmp_path / "x.jpg").touch()
    rows = [{"filepath": f, "filename": "x.jpg", "cocoid": f, "sentences": ["a"]} for f in "ab"]
    reading, problems = read_skipping("karpathy", write_json(tmp_path / "d.json", {"images": rows}))
    assert [record.id for record in reading.records] == ["a"]
    assert "is already that of d.json, image 1 (a)" in problems.items[0].why


def test_bad_rows_of_karpathy(tmp_path: Path) -> None:
    make_images(tmp_path)
    good: dict[str, object] = {"filename": "one.jpg", "sentences": [{"raw": "a"}], "split": "val"}
    rows = [
        good,
        [],
        {**good, "filename": 3},
        {**good, "filepath": []},
        {**good, "split": 1},
        {**good, "cocoid": [1]},
        {**good, "cocoid": True},
        {**good, "filename": ""},
        {"filename": "two.jpg"},
        {"filename": "two.jpg", "sentences": {}},
        good,
        {**good, "filename": "gone.jpg"},
        {**good, "cocoid": ""},
        {**good, "cocoid": "\ud800"},
    ]
    reading, problems = read_skipping("karpathy", write_json(tmp_path / "d.json", {"images": rows}))
    assert as_items(reading) == [Item("one", ("a",), "val")]
    whys = [p.why.partition(" (")[0] for p in problems.items]
    assert [p.where.split(" (")[0] for p in problems.items] == [
        f"d.json, image {number}" for number in range(2, 15)
    ]
    assert whys == [
        "it is a list where an object is expected",
        "'filename' is a number, not a string",
        "'filepath' is a list, not a string",
        "'split' is a number, not a string",
        "'cocoid' is a list, not a number",
        "'cocoid' is true or false, not a number",
        "it has neither 'filename' nor 'cocoid'",
        "there is no 'sentences'",
        "'sentences' is not a list",
        "the id 'one' was already used by d.json, image 1",
        f"the image 'gone.jpg' is not in {tmp_path}",
        "the id is empty",
        "its id is not valid Unicode text",
    ]
    assert (reading.images_seen, reading.bad_images, reading.bad_rows) == (5, 4, 9)


@pytest.mark.parametrize("reader", ["karpathy", "coco"])
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "the file is empty"),
        (b"\xef\xbb\xbf \n", "the file is empty"),
        (b'{"images": [\n1, 2', r"broken JSON at line 2, column 5: Expecting ',' delimiter"),
        (b'{"images": [}', "broken JSON at column 13"),
        (b"[]", "it holds a list where an object"),
        (b'{"image": 1}', r"no key 'images' \(keys found: 'image'\)"),
        (b'{"images": {}}', "'images' holds an object where a list is expected"),
        (b'{"images": [], "images": []}', "the key 'images' twice"),
        (b'{"images": []}', "there is nothing in it"),
        (b'{"x":\n"\xe9"}', "byte 8, on line 2, is not UTF-8"),
        (b'{"images": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"images": [' + b"9" * 5000 + b"]}", "too many digits"),
        (lzma.compress(b'{"images": []}')[:-10], "damaged or cut archive"),
        (lzma.compress(b'{"images": []}')[:30] + b"?" * 30, "damaged or cut archive"),
        (gzip.compress(b'{"images": []}', mtime=0)[:-10], "damaged or cut archive"),
    ],
)
def test_whole_file_errors_even_when_skipping(
    tmp_path: Path, reader: str, data: bytes, why: str
) -> None:
    path = tmp_path / "d.json"
    path.write_bytes(data)
    with pytest.raises(DataError, match=why) as caught:
        read_skipping(reader, path)
    assert caught.value.what == str(path)


def test_coco_images_annotations_and_split(tmp_path: Path) -> None:
    make_images(tmp_path)
    for name, split in (
        ("captions_train2014.json", "train"),
        ("captions_val2017.json.xz", "val"),
        ("image_info_test-dev2015.json", "test"),
        ("mine.json", ""),
    ):
        reading = read_all("coco", write_json(tmp_path / name, coco_value()))
        assert as_items(reading) == [item._replace(split=split) for item in ITEMS]
    value = coco_value()
    del value["annotations"]
    reading = read_all("coco", write_json(tmp_path / "image_info_test2014.json", value))
    assert (reading.unlabelled, reading.captions, len(reading.records)) == (3, 0, 3)


def test_coco_images_lie_beside_the_annotations_folder(tmp_path: Path) -> None:
    make_images(tmp_path / "val2014")
    (tmp_path / "annotations").mkdir()
    path = write_json(tmp_path / "annotations/captions_val2014.json", coco_value())
    image = read_all("coco", path).records[0].image
    assert image == FileImage(tmp_path / "val2014/one.jpg")


def test_bad_rows_of_coco(tmp_path: Path) -> None:
    make_images(tmp_path)
    images = [
        {"id": 1, "file_name": "one.jpg"},
        {"id": 2, "file_name": "gone.jpg"},
        {"id": 1, "file_name": "two.jpg"},
        {"id": 3},
        {"file_name": "two.jpg"},
        {"id": 4.5, "file_name": "two.jpg"},
        None,
        {"id": 5, "file_name": "three.jpg"},
    ]
    captions = [(1, 1, "a"), (2, 1, "b"), (2, 1, "twice"), (3, 2, "c"), (4, 3, "d"), (5, 9, "e")]
    annotations: list[object] = [
        {"id": id_, "image_id": image, "caption": text} for id_, image, text in captions
    ]
    annotations += [{"image_id": 1}, 7, {"image_id": None, "caption": "f"}]
    annotations += [{"id": 8, "image_id": 1, "caption": 8}, {"image_id": "1", "caption": "g"}]
    value = {"images": images, "annotations": annotations}
    reading, problems = read_skipping("coco", write_json(tmp_path / "c.json", value))
    assert as_items(reading) == [Item("1", ("a", "b", "g")), Item("5")]
    found = {(p.where.removeprefix("c.json, "), p.why.partition(" (")[0]) for p in problems.items}
    assert found == {
        ("image 2 (id 2)", f"the image 'gone.jpg' is not in {tmp_path}"),
        ("image 3 (id 1)", "the id '1' was already used by c.json, image 1"),
        ("image 4", "there is no 'file_name'"),
        ("image 5", "there is no 'id'"),
        ("image 6", "'id' is a number"),
        ("image 7", "it is null where an object is expected"),
        ("annotation 3", "the id 2 was already used by annotation 2"),
        ("annotation 5", "no usable image has id 3"),
        ("annotation 6", "no usable image has id 9"),
        ("annotation 7", "there is no 'caption'"),
        ("annotation 8", "it is a number where an object is expected"),
        ("annotation 9", "there is no valid 'image_id'"),
        ("annotation 10", "the caption is not text but a number"),
    }
    assert len(problems.items) == len(found)
    assert reading.images_seen + reading.captions_seen + reading.bad_rows == 8 + 11
