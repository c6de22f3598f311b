import os
import sys
from pathlib import Path

import pytest

from naic.errors import DataError, ImageError
from naic.images.sources import FileImage
from tests.data.readers.helpers import (
    Item,
    as_items,
    read_all,
    read_skipping,
    refuse_to_list,
    touch,
)


def test_sub_folders_sidecars_and_what_is_passed_over(tmp_path: Path) -> None:
    touch(
        tmp_path, "b/2.PNG", "b/10.jpg", "a.jpg", "notes/readme.txt", "x.json", "y.JSON", "Makefile"
    )
    touch(tmp_path, ".DS_Store", "._a.jpg", ".git/c.jpg")
    (tmp_path / "b/2.txt").write_bytes(b"\xef\xbb\xbf a dog \r\n\r\n  \ntwo dogs\n")
    reading = read_all("folder", tmp_path)
    assert as_items(reading) == [Item("a"), Item("b/10"), Item("b/2", ("a dog", "two dogs"))]
    assert reading.records[2].image == FileImage(tmp_path / "b/2.PNG")
    assert reading.ignored == {".json": 2, "no suffix": 1, "hidden": 2, ".txt": 1}
    assert (reading.captions, reading.unlabelled, reading.images_seen) == (2, 2, 3)


def test_ids_keep_the_suffix_where_they_would_clash(tmp_path: Path) -> None:
    touch(tmp_path, "a.jpg", "a.png", "b.jpg", "b.jpg.png", "c.jpg")
    ids = [record.id for record in read_all("folder", tmp_path).records]
    assert ids == ["a.jpg", "a.png", "b", "b.jpg.png", "c"]


def test_bad_sidecars_are_named(tmp_path: Path) -> None:
    touch(tmp_path, *(f"{name}.jpg" for name in ("empty", "good", "latin", "pipe", "half", "twin")))
    touch(tmp_path, "twin.png", "lonely.txt", "empty.txt", "twin.txt")
    (tmp_path / "good.txt").write_text("fine")
    (tmp_path / "latin.txt").write_bytes(b"caf\x81\n")
    (tmp_path / "half.txt").write_text("fine too\n!!!\n")
    os.mkfifo(tmp_path / "pipe.txt")
    reading, problems = read_skipping("folder", tmp_path)
    assert as_items(reading) == [Item("good", ("fine",)), Item("half", ("fine too",))]
    assert {(p.where, p.why.partition("(")[0].strip()) for p in problems.items} == {
        ("lonely.txt", "there is no image for these captions"),
        ("empty.txt", "the caption is empty"),
        ("empty.jpg", "its caption cannot be used"),
        ("latin.txt, line 1", "the caption is not valid Unicode"),
        ("latin.jpg", "its caption cannot be used"),
        ("pipe.txt", "it is not a regular file"),
        ("half.txt, line 2", "the caption '!!!' has no letter or digit"),
        ("twin.jpg", "its captions in twin.txt could be those of twin.jpg and twin.png"),
        ("twin.png", "its captions in twin.txt could be those of twin.jpg and twin.png"),
    }
    with pytest.raises(DataError, match="--skip-bad"):
        read_all("folder", tmp_path)


def test_odd_files_become_records_and_fail_when_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jpg")
    (tmp_path / "gone.jpg").symlink_to("nowhere")
    (tmp_path / "raw.heic").write_bytes(b"not really")
    (tmp_path / "folder.jpg").mkdir()
    (tmp_path / "loop").symlink_to(".")
    records = read_all("folder", tmp_path).records
    assert [record.id for record in records] == ["folder", "gone", "pipe", "raw"]
    for record in records:
        with pytest.raises(ImageError):
            record.image.load()


def test_a_sub_folder_that_cannot_be_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch(tmp_path, "a.jpg", "shut/b.jpg")
    refuse_to_list(tmp_path / "shut", monkeypatch)
    reading, problems = read_skipping("folder", tmp_path)
    assert as_items(reading) == [Item("a")]
    assert [(p.where, p.why) for p in problems.items] == [
        (str(tmp_path / "shut"), "the folder cannot be listed (Permission denied)")
    ]
    assert reading.bad_rows == 1


@pytest.mark.skipif(sys.platform == "darwin", reason="macOS refuses such names")
def test_file_names_that_are_not_utf8(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.jpg")).touch()
    (record,) = read_all("folder", tmp_path).records
    assert record.id.encode("utf-8") == rb"caf\udce9"
    assert record.image == FileImage(tmp_path / os.fsdecode(b"caf\xe9.jpg"))


@pytest.mark.parametrize("name", ["nothing", "file.txt", "empty", "x" * 5000, "nul\0"])
def test_sources_that_are_no_folder_of_images(tmp_path: Path, name: str) -> None:
    (tmp_path / "file.txt").touch()
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError) as caught:
        read_all("folder", tmp_path / name)
    assert caught.value.why in (
        "there is no such folder", "it is not a folder", "there is no image in it",
    )  # fmt: skip
