"""Which file is the picture of an image, and how a page has it."""

import base64
import tarfile
from io import BytesIO
from pathlib import Path

import pytest
from PIL import Image

from naic.errors import ConfigError, DataError
from naic.images.sources import FileImage, TarImage
from naic.tasks.evaluate.pictures import EDGE, find_pictures, link, small_copies


def photo(path: Path, size: tuple[int, int] = (8, 6)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, "red").save(path)
    return path


def names(root: Path, *ids: str) -> list[str | None]:
    found = find_pictures([root], ids)
    return [None if one is None else Path(one.name).relative_to(root).as_posix() for one in found]


@pytest.mark.parametrize(
    ("id_", "file"),
    [
        ("42", "COCO_val2014_000000000042.jpg"),
        ("a b", "a b.PNG"),
        ("a b.PNG", "a b.PNG"),
        ("train/1.jpg", "train/1.png"),
        ("val/1", "val/1.png"),
        ("train2014/7", "7.gif"),
    ],
)
def test_a_picture_is_found_as_a_caption_is(id_: str, file: str, tmp_path: Path) -> None:
    files = ("COCO_val2014_000000000042.jpg", "a b.PNG", "train/1.png", "val/1.png", "7.gif")
    for name in files:
        photo(tmp_path / name)
    (tmp_path / "42.txt").write_text("no picture")
    assert names(tmp_path, id_, "not there") == [file, None]


def test_where_two_could_be_meant_none_is_shown(tmp_path: Path) -> None:
    for name in ("train/1.jpg", "val/1.jpg", "2.jpg", "2.png", "3.jpg"):
        photo(tmp_path / name)
    assert names(tmp_path, "1", "2", "2.png", "3") == [None, None, "2.png", "3.jpg"]


def test_not_one_picture_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"--images: .* has none of the 2 images, such as x\."):
        find_pictures([tmp_path], ["x", "y"])
    assert find_pictures([], ["x"]) == []


def test_pictures_in_a_tar(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "photos.tar", "w") as tar:
        tar.add(photo(tmp_path / "1.jpg"), "inside/1.jpg")
    (found,) = find_pictures([tmp_path / "photos.tar"], ["1"])
    assert isinstance(found, TarImage)
    (tmp_path / "bad.tar").write_text("no tar")
    with pytest.raises(DataError, match=r"bad\.tar: it cannot be read as a tar"):
        find_pictures([tmp_path / "bad.tar"], ["1"])


@pytest.mark.parametrize(
    ("file", "page", "address"),
    [
        ("photos/a b.jpg", "page.html", "photos/a%20b.jpg"),
        ("photos/é#?%.jpg", "out/page.html", "../photos/%C3%A9%23%3F%25.jpg"),
        ("javascript:alert(1).jpg", "page.html", "javascript%3Aalert%281%29.jpg"),
        ('"><img.jpg', "page.html", "%22%3E%3Cimg.jpg"),
    ],
)
def test_the_way_from_the_page_to_a_file(file: str, page: str, address: str) -> None:
    assert link(Path(file), Path(page)) == address


def test_small_copies(tmp_path: Path) -> None:
    large = FileImage(photo(tmp_path / "large.jpg", (900, 600)))
    (tmp_path / "bad.jpg").write_bytes(b"\xff\xd8 no more")
    copies = list(small_copies([None, large, FileImage(tmp_path / "bad.jpg")]))
    assert copies[0] is copies[2] is None
    assert copies[1] is not None
    with Image.open(BytesIO(base64.b64decode(copies[1]))) as image:
        assert (image.format, image.size) == ("WEBP", (EDGE, EDGE * 2 // 3))
