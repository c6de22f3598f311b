"""Images are found by name, fast, never outside the roots and never by a guess."""

import io
import os
import tarfile
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from PIL import Image

from naic.data.sources import ImageFinder
from naic.errors import DataError, ImageError
from naic.files import printable, walk
from naic.images.sources import FileImage, TarImage
from tests.data.readers.helpers import make_tar, refuse_to_list, touch


def png(colour: tuple[int, int, int]) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (4, 3), colour).save(buffer, format="PNG")
    return buffer.getvalue()


def test_relative_path_then_base_name(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "sub/deep/b.jpg")
    finder = ImageFinder([tmp_path])
    assert finder.find("a.jpg") == FileImage(tmp_path / "a.jpg")
    assert finder.find("./sub//deep/b.jpg") == FileImage(tmp_path / "sub/deep/b.jpg")
    assert finder.find("b.jpg") == FileImage(tmp_path / "sub/deep/b.jpg")
    assert finder.find("elsewhere/b.jpg") == FileImage(tmp_path / "sub/deep/b.jpg")
    assert finder.find("nothing.jpg", "a.jpg") == FileImage(tmp_path / "a.jpg")
    assert finder.find("nothing.jpg") is None
    assert finder.find("sub") is None
    assert finder.find("", ".", "..", "/", "a.jpg\0", "\ud800.jpg") is None
    assert finder.find() is None


def test_nothing_outside_the_roots(tmp_path: Path) -> None:
    touch(tmp_path, "secret.jpg", "tree/inside.jpg", "tree/x.jpg", "tree/other/x.jpg")
    finder = ImageFinder([tmp_path / "tree"])
    for name in ("../secret.jpg", f"{tmp_path}/secret.jpg", "other/../../secret.jpg"):
        assert finder.find(name) is None
    # An absolute path that leads into a root is followed, one that leads elsewhere is not.
    inside = FileImage(tmp_path / "tree/inside.jpg")
    assert finder.find(f"{tmp_path}/tree/other/../inside.jpg") == inside
    assert finder.find("/somebody/else/inside.jpg") == inside
    # A foreign path of the same depth is not taken for one beneath the root.
    with pytest.raises(DataError, match="fits 2 images"):
        finder.find(f"{tmp_path}/foreign/x.jpg")
    assert ImageFinder([Path("/")]).find(str(tmp_path / "secret.jpg")) == FileImage(
        tmp_path / "secret.jpg"
    )


def test_ambiguity_is_an_error_not_a_guess(tmp_path: Path) -> None:
    touch(tmp_path, "one/x.jpg", "two/x.jpg", "one/y.jpg")
    with pytest.raises(DataError, match="fits 2 images"):
        ImageFinder([tmp_path]).find("x.jpg")
    with pytest.raises(DataError, match="fits 2 images"):
        ImageFinder([tmp_path / "one", tmp_path / "two"]).find("x.jpg")
    assert ImageFinder([tmp_path]).find("two/x.jpg") == FileImage(tmp_path / "two/x.jpg")
    # A root's own name tells two roots apart.
    finder = ImageFinder([tmp_path / "one", tmp_path / "two"])
    assert finder.find("two/x.jpg") == FileImage(tmp_path / "two/x.jpg")


def test_a_namesake_does_not_stand_in_for_a_missing_image(tmp_path: Path) -> None:
    touch(tmp_path, "train/x.jpg", "val/y.jpg")
    assert ImageFinder([tmp_path]).find("val/x.jpg") is None
    assert ImageFinder([tmp_path]).find("val/x.jpg", "/elsewhere/val/x.jpg") is None
    assert ImageFinder([tmp_path]).find(r"val\x.jpg", "/elsewhere/x.jpg") is None
    assert ImageFinder([tmp_path / "train", tmp_path / "val"]).find("val/x.jpg") is None
    tar = make_tar(tmp_path / "a.tar", {"train/x.jpg": b"x", "val/y.jpg": b"y"})
    assert ImageFinder([tar]).find("val/x.jpg") is None
    assert ImageFinder([tmp_path]).find("test/y.jpg") == FileImage(tmp_path / "val/y.jpg")


def test_one_file_reached_in_two_ways_is_one(tmp_path: Path) -> None:
    touch(tmp_path, "real/x.jpg")
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real/loop").symlink_to("..")
    finder = ImageFinder([tmp_path, tmp_path / "real"])
    assert finder.find("x.jpg") == FileImage(tmp_path / "real/x.jpg")
    assert finder.find("link/x.jpg") == FileImage(tmp_path / "link/x.jpg")


def test_names_in_other_spellings(tmp_path: Path) -> None:
    composed, taken_apart = (unicodedata.normalize(form, "é.jpg") for form in ("NFC", "NFD"))
    touch(tmp_path, f"sub/{taken_apart}")
    finder = ImageFinder([tmp_path])
    for name in (f"sub/{composed}", composed, f"sub\\{composed}", rf"C:\photos\{composed}"):
        found = finder.find(name)
        assert found is not None
        assert unicodedata.normalize("NFC", Path(found.name).name) == composed


def test_a_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, *(f"{number:05d}.jpg" for number in range(2000)))
    listed: list[str] = []
    scan = os.scandir

    def noting(path: str) -> object:
        listed.append(path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", noting)
    finder = ImageFinder([tmp_path])
    assert listed == []
    assert all(finder.find(f"x/{number:05d}.jpg", f"{number:05d}.jpg") for number in range(2000))
    assert len(listed) == 1


def test_a_folder_that_cannot_be_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "open/x.jpg", "shut/y.jpg")
    refuse_to_list(tmp_path / "shut", monkeypatch)
    finder = ImageFinder([tmp_path])
    assert finder.find("x.jpg") == FileImage(tmp_path / "open/x.jpg")
    with pytest.raises(DataError, match=r"shut: the folder cannot be listed \(Permission denied\)"):
        finder.find("shut/y.jpg")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: None, "no such folder or tar"),
        (lambda path: path.write_bytes(b"\x1f\x8b rest"), r"compressed \(gzip\)"),
        (lambda path: path.write_bytes(b"\xfd7zXZ\x00 rest"), r"compressed \(xz\)"),
        (lambda path: path.write_bytes(b"PK\x03\x04 rest"), r"compressed \(zip\)"),
        (lambda path: path.write_bytes(b""), "cannot be read as a tar"),
        (lambda path: path.write_bytes(b"hello" * 500), "cannot be read as a tar"),
        (lambda path: os.mkfifo(path), "neither a folder nor a file"),
    ],
)
def test_bad_roots(tmp_path: Path, make: object, why: str) -> None:
    assert callable(make)
    make(tmp_path / "root.tar")
    with pytest.raises(DataError, match=why) as caught:
        ImageFinder([tmp_path / "root.tar"])
    assert "root.tar" in caught.value.what
    assert caught.value.hint


def test_tar_members_are_read_in_place(tmp_path: Path) -> None:
    colours = {f"./set/{n}.png": (n, 2 * n, 255 - n) for n in range(0, 100, 5)}
    tar = make_tar(tmp_path / "set.tar", {name: png(c) for name, c in colours.items()})
    finder = ImageFinder([tar])
    images = [finder.find(name) for name in colours]
    assert images[1] == finder.find("5.png") == finder.find("set/5.png")
    assert isinstance(images[1], TarImage)
    assert images[1].name == f"{tar}:./set/5.png"
    with ThreadPoolExecutor(8) as pool:
        loaded = pool.map(lambda image: image and image.load(), images * 10)
        pixels = [one and one.getpixel((3, 2)) for one in loaded]
    assert pixels == list(colours.values()) * 10


def test_later_members_and_links_count_as_when_unpacked(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "a.tar", {"x.png": b"old"})
    with tarfile.open(path, "a") as tar:
        info = tarfile.TarInfo("x.png")
        info.size = 5
        tar.addfile(info, io.BytesIO(b"newer"))
        for name, kind, target in (
            ("d/hard.png", tarfile.LNKTYPE, "x.png"),
            ("d/soft.png", tarfile.SYMTYPE, "../x.png"),
            ("d/out.png", tarfile.SYMTYPE, "../../etc/passwd"),
        ):
            info = tarfile.TarInfo(name)
            info.type, info.linkname = kind, target
            tar.addfile(info)
    finder = ImageFinder([path])
    newer = finder.find("x.png")
    assert isinstance(newer, TarImage)
    assert newer.size == 5
    assert finder.find("hard.png") == finder.find("soft.png") == newer
    assert finder.find("out.png") is None


def test_a_damaged_tar_is_noticed(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "a.tar", {"x.png": b"x" * 600, "y.png": b"y"})
    data = path.read_bytes()
    second = 512 + 1024  # the header of y.png
    path.write_bytes(data[:second] + b"?" * 512 + data[second + 512 :])
    with pytest.raises(DataError, match="damaged after byte 1536"):
        ImageFinder([path])
    path.write_bytes(data[:700])
    with pytest.raises(DataError, match="unexpected end of data"):
        ImageFinder([path])


def test_a_tar_that_changed_after_indexing(tmp_path: Path) -> None:
    path = make_tar(tmp_path / "a.tar", {"x.png": png((1, 2, 3))})
    image = ImageFinder([path]).find("x.png")
    assert image is not None
    assert image.load().getpixel((0, 0)) == (1, 2, 3)
    path.write_bytes(path.read_bytes()[:550])
    with pytest.raises(ImageError, match="ends after 38 of"):
        image.load()
    path.unlink()
    with pytest.raises(ImageError, match="cannot be read"):
        image.load()


def test_a_file_image_loads(tmp_path: Path) -> None:
    (tmp_path / "x.png").write_bytes(png((9, 8, 7)))
    assert FileImage(tmp_path / "x.png").load().getpixel((0, 0)) == (9, 8, 7)
    with pytest.raises(ImageError, match=r"y\.png"):
        FileImage(tmp_path / "y.png").load()


def test_names_are_printable() -> None:
    assert printable("é.jpg") == "é.jpg"
    assert printable(os.fsdecode(b"\xff.jpg")).encode("utf-8") == rb"\udcff.jpg"
    assert printable("a\x1b[2J\nb\u202ec\u3000d") == "a\\x1b[2J\\nb\\u202ec\u3000d"
    assert FileImage(Path(os.fsdecode(b"d/\xff.jpg"))).name == r"d/\udcff.jpg"


def test_walk_meets_each_folder_once_under_its_own_name(tmp_path: Path) -> None:
    touch(tmp_path, "b/x", "a/y", "a/.hidden/z")
    (tmp_path / "0link").symlink_to("b")
    (tmp_path / "b/up").symlink_to("..")
    (tmp_path / "self").symlink_to("self")
    failed: list[str] = []
    found = list(walk(str(tmp_path), lambda folder, _: failed.append(folder)))
    assert found == [
        (str(tmp_path), ["self"]),
        (str(tmp_path / "a"), ["y"]),
        (str(tmp_path / "b"), ["x"]),
    ]
    assert list(walk(str(tmp_path / "none"), lambda folder, _: failed.append(folder))) == []
    assert failed == [str(tmp_path / "none")]
