"""Captions without images, and the reader that a source is for."""

import gc
import gzip
import json
import lzma
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from naic.data.readers import read
from naic.data.readers.captions import ImageCaptions, detect, read_captions
from naic.data.records import Problems
from naic.data.shapes import dataset
from naic.errors import ConfigError, DataError, ImageError, StoreError
from tests.data.readers.helpers import (
    ITEMS,
    WRITERS,
    Item,
    coco_value,
    karpathy_value,
    token_text,
    touch,
    write_flickr8k,
    write_folder,
    write_json,
)


def captions_of(source: Path | str, **wanted: Sequence[str]) -> list[ImageCaptions]:
    return read_captions(str(source), problems=Problems(), splits=wanted.get("splits")).images


@pytest.mark.parametrize("kind", WRITERS)
def test_every_format_is_told_and_read_without_its_images(kind: str, tmp_path: Path) -> None:
    reader, write = WRITERS[kind]
    source = write(tmp_path, ITEMS)
    for path in tmp_path.glob("*.jpg"):
        path.unlink()
    found = read_captions(str(source), problems=Problems())
    assert found.reader == reader
    expected = {(item.name, item.captions) for item in ITEMS}
    assert {(image.id, image.captions) for image in found.images} == expected


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress])
@pytest.mark.parametrize(("value", "reader"), [(karpathy_value, "karpathy"), (coco_value, "coco")])
def test_packed_files_are_told_whatever_they_are_called(
    pack: type[bytes], value: type[dict[str, object]], reader: str, tmp_path: Path
) -> None:
    path = tmp_path / "dataset"
    path.write_bytes(pack(json.dumps(value()).encode()))
    assert detect(str(path)) == reader
    assert len(captions_of(path)) == 3


def test_an_image_that_was_not_looked_for_cannot_be_loaded(tmp_path: Path) -> None:
    path = write_json(tmp_path / "d.json", karpathy_value())
    record = read("karpathy", str(path), problems=Problems(), with_images=False).records[0]
    assert record.image.name == "one.jpg"
    with pytest.raises(ImageError, match="read without its images"):
        record.image.load()


def test_splits(tmp_path: Path) -> None:
    path = write_json(tmp_path / "d.json", karpathy_value())
    assert [image.split for image in captions_of(path, splits=["val", "test"])] == ["val", "test"]
    assert read_captions(str(path), splits=["val"], problems=Problems()).splits == {
        "train": 1,
        "val": 1,
        "test": 1,
    }
    with pytest.raises(ConfigError, match="no split 'dev'"):
        captions_of(path, splits=["dev"])


def test_a_number_is_so_many_scenes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = read_captions("7", seed=3, problems=Problems())
    assert found.reader == "shapes"
    assert [image.captions for image in found.images] == [r.captions for r in dataset.records(7, 3)]
    write_folder(tmp_path / "7")  # a folder of that name is meant rather
    assert detect("7") == "folder"


def write_store(folder: Path, items: Sequence[Item] = ITEMS) -> Path:
    """A finished store as far as its captions go."""
    folder.mkdir()
    rows = [
        {"id": item.name, "image": "x.jpg", "split": item.split, "captions": item.captions}
        for item in items
    ]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "records.jsonl").write_text(lines, encoding="utf-8")
    write_json(folder / "plan.json", {})
    write_json(
        folder / "index.json", {"format": 1, "dtype": "float16", "shards": [{"images": len(items)}]}
    )
    return folder


def test_a_feature_store(tmp_path: Path) -> None:
    store = write_store(tmp_path / "features")
    assert detect(str(store)) == "store"
    assert captions_of(store) == [ImageCaptions(*item) for item in ITEMS]
    found = read_captions(str(store), splits=["val"], problems=Problems())
    assert found.images == [ImageCaptions(*ITEMS[1])]
    assert found.others == [ImageCaptions(i.name, (), i.split) for i in (ITEMS[0], ITEMS[2])]
    with pytest.raises(ConfigError, match="no split 'dev'"):
        captions_of(store, splits=["dev"])
    (store / "index.json").unlink()
    with pytest.raises(StoreError, match="unfinished"):
        captions_of(store)


def test_the_folder_of_flickr8k(tmp_path: Path) -> None:
    assert detect(str(write_flickr8k(tmp_path))) == "flickr8k"
    renamed = tmp_path / "results.token"
    renamed.write_text("\n" + token_text(), encoding="utf-8")
    assert detect(str(renamed)) == "flickr8k"


def test_a_folder_with_images_does_not_take_a_licence_for_captions(tmp_path: Path) -> None:
    write_folder(tmp_path)
    touch(tmp_path, "notes/LICENSE.txt")
    assert [image.id for image in captions_of(tmp_path)] == ["one", "three", "two"]


def test_captions_of_images_that_are_not_there_count_beside_others(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "two.jpg").unlink()
    found = captions_of(tmp_path)
    assert [image.id for image in found] == ["one", "three", "two"]
    assert {image.id: image.captions for image in found} == {i.name: i.captions for i in ITEMS}
    with pytest.raises(DataError, match="there is no image for these captions"):
        read("folder", str(tmp_path), problems=Problems())


@pytest.mark.parametrize("reader", ["karpathy", "coco", "flickr8k"])
def test_a_pipe_is_not_waited_for(reader: str, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(DataError, match="it is not a regular file"):
        read(reader, str(tmp_path / "pipe"), problems=Problems(), with_images=False)


def test_what_a_shell_hands_over_is_read() -> None:
    reader, writer = os.pipe()
    os.write(writer, json.dumps(karpathy_value()).encode())
    os.close(writer)
    source = f"/dev/fd/{reader}"
    assert len(read_captions(source, reader="karpathy", problems=Problems()).images) == 3
    os.close(reader)


def test_all_images_of_the_source_are_accounted_for(tmp_path: Path) -> None:
    items = [*ITEMS, Item("bad", ("...",), "val")]
    path = write_json(tmp_path / "d.json", karpathy_value(items))
    found = read_captions(str(path), splits=["val"], problems=Problems(skip=True))
    assert [image.id for image in found.images] == ["two"]
    assert {(image.id, image.split) for image in found.others} == {
        ("one", "train"),
        ("three", "test"),
    }
    assert found.dropped == [ImageCaptions("bad", (), "val")]


def test_a_caption_that_speaks_of_sentences_does_not_make_a_karpathy_file(tmp_path: Path) -> None:
    items = [Item("one", ('the key "sentences": a list',), "")]
    assert detect(str(write_json(tmp_path / "d.json", coco_value(items)))) == "coco"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("A caption and nothing else", r"cannot be told .*--reader"),
        ('{"rows": []}', r"without 'images' or 'annotations'.*--reader"),
        ('[{"image_id": 1, "caption": "a"}]', "a JSON list.*file of results"),
    ],
)
def test_what_cannot_be_told(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "odd.txt"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError, match=message):
        detect(str(path))


def test_what_is_not_there_or_damaged(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file or folder"):
        detect(str(tmp_path / "none.json"))
    cut = tmp_path / "cut.json.xz"
    cut.write_bytes(lzma.compress(json.dumps(karpathy_value()).encode())[:60])
    with pytest.raises(DataError, match="cannot be read"):
        detect(str(cut))
    cut.write_bytes(gzip.compress(b"{}")[:10] + b"\xff" * 40)
    with pytest.raises(DataError, match="cannot be read"):
        detect(str(cut))


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no image in it"):
        captions_of(tmp_path)


def test_the_garbage_collector_is_left_as_it_was(tmp_path: Path) -> None:
    path = write_json(tmp_path / "d.json", karpathy_value([Item("one", ("...",))]))
    assert gc.isenabled()
    with pytest.raises(DataError):
        captions_of(path)
    assert gc.isenabled()
    gc.disable()
    try:
        with pytest.raises(DataError):
            captions_of(path)
        assert not gc.isenabled()
    finally:
        gc.enable()
