from pathlib import Path

import pytest

from naic.data.readers import read
from naic.data.records import Problems
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
    token_text,
    write_flickr8k,
)


@pytest.mark.parametrize("images", [".", "Flicker8k_Dataset", "Flickr8k_Dataset", "Images"])
@pytest.mark.parametrize("text", [".", "Flickr8k_text"])
@pytest.mark.parametrize("as_file", [False, True])
def test_the_layouts_people_have(tmp_path: Path, images: str, text: str, as_file: bool) -> None:
    make_images(tmp_path / images)
    (tmp_path / text).mkdir(exist_ok=True)
    write_flickr8k(tmp_path / text)
    source = tmp_path / text / "Flickr8k.token.txt" if as_file else tmp_path
    roots = [tmp_path] if (as_file, images, text) == (True, ".", "Flickr8k_text") else []
    reading = read_all("flickr8k", source, *roots)
    assert as_items(reading) == list(ITEMS)
    assert reading.records[0].image == FileImage(tmp_path / images / "one.jpg")


def test_the_re_upload_with_commas(tmp_path: Path) -> None:
    make_images(tmp_path / "Images")
    path = tmp_path / "captions.txt"
    rows = [line.rpartition(",")[0] for line in table_text().splitlines()]
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    expected = [item._replace(split="") for item in ITEMS]
    assert as_items(read_all("flickr8k", path)) == expected
    assert as_items(read_all("flickr8k", tmp_path)) == expected


def test_the_row_without_an_image(tmp_path: Path) -> None:
    make_images(tmp_path)
    write_flickr8k(tmp_path)
    with (tmp_path / "Flickr8k.token.txt").open("a") as file:
        file.writelines(f"four.jpg.1#{number}\tA dog\n" for number in range(5))
    with pytest.raises(DataError, match=r"line 7: the image 'four\.jpg\.1' is not in ") as caught:
        read_all("flickr8k", tmp_path)
    assert "left out" not in str(caught.value)  # the run stops there
    reading, problems = read_skipping("flickr8k", tmp_path)
    assert as_items(reading) == list(ITEMS)
    assert len(problems.items) == 1
    assert problems.items[0].why.endswith(" (left out with its 5 captions)")
    assert (reading.captions, reading.bad_captions, reading.captions_seen) == (6, 5, 11)
    # It is in no split list, so who asks for splits never meets it.
    wanted = ["train", "val", "test"]
    strict = read("flickr8k", str(tmp_path), problems=Problems(), splits=wanted)
    assert as_items(strict) == list(ITEMS)
    assert (strict.other_images, strict.other_captions) == (1, 5)


def test_bad_lines(tmp_path: Path) -> None:
    make_images(tmp_path)
    write_flickr8k(tmp_path)
    bad = "one.jpg#0\tagain\nno tab\none.jpg\tno number\n#1\tno image\n\none.jpg#9\t \r\n"
    path = tmp_path / "Flickr8k.token.txt"
    path.write_bytes((token_text() + bad).encode() + b"two.jpg#7\tcaf\x81")
    with (tmp_path / "Flickr_8k.devImages.txt").open("a") as file:
        file.write("one.jpg\nfive.jpg\n")
    reading, problems = read_skipping("flickr8k", tmp_path)
    assert as_items(reading) == list(ITEMS)
    form = "it is not of the form image#number, tab, caption"
    assert {(p.where, p.why.partition(" (")[0]) for p in problems.items} == {
        ("Flickr8k.token.txt, line 7", "'one.jpg#0' was already on line 1"),
        ("Flickr8k.token.txt, line 8", form),
        ("Flickr8k.token.txt, line 9", form),
        ("Flickr8k.token.txt, line 10", form),
        ("Flickr8k.token.txt, line 12", "the caption is empty"),
        ("Flickr8k.token.txt, line 13", "the caption is not valid Unicode"),
        ("Flickr_8k.devImages.txt, line 2",
         "'one.jpg' was already listed at Flickr_8k.trainImages.txt, line 1"),
        ("Flickr_8k.devImages.txt, line 3", "there are no captions for 'five.jpg'"),
    }  # fmt: skip


def test_an_image_in_no_list_has_no_split(tmp_path: Path) -> None:
    make_images(tmp_path)
    write_flickr8k(tmp_path)
    (tmp_path / "Flickr_8k.testImages.txt").unlink()
    assert [item.split for item in as_items(read_all("flickr8k", tmp_path))] == ["train", "val", ""]


def test_sources_that_are_not_flickr8k(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"neither Flickr8k.token.txt nor captions.txt"):
        read_all("flickr8k", tmp_path)
    (tmp_path / "captions.txt").touch()
    with pytest.raises(DataError, match="empty"):
        read_all("flickr8k", tmp_path)
    with pytest.raises(DataError, match="no such file or folder"):
        read_all("flickr8k", tmp_path / "none")


def test_items_without_captions_are_named(tmp_path: Path) -> None:
    make_images(tmp_path)
    write_flickr8k(tmp_path, [*ITEMS, Item("four", (), "train")])
    reading, problems = read_skipping("flickr8k", tmp_path)
    assert as_items(reading) == list(ITEMS)
    assert [p.where for p in problems.items] == ["Flickr_8k.trainImages.txt, line 2"]
