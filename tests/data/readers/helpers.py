"""Small sources in every format, made from the same description of a dataset."""

import csv
import errno
import io
import json
import os
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

from naic.data.readers import Reading, read
from naic.data.records import Problems
from naic.text.cells import text_cell


class Item(NamedTuple):
    """An image of a made-up dataset; its file is `<name>.jpg`, empty but there."""

    name: str
    captions: tuple[str, ...] = ()
    split: str = ""


ITEMS = (
    Item("one", ("a red ball .", 'a "big" ball, red'), "train"),
    Item("two", ("two dogs",), "val"),
    Item("three", ("three cats", "some cats", "cats"), "test"),
)


def touch(root: Path, *names: str) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()


def refuse_to_list(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make one folder unreadable, also for a test run as root."""
    scan = os.scandir

    def refusing(path: str) -> object:
        if Path(path) == folder:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return scan(path)

    monkeypatch.setattr(os, "scandir", refusing)


def make_images(folder: Path, items: Sequence[Item] = ITEMS) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for item in items:
        (folder / f"{item.name}.jpg").touch()


def write_json(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def karpathy_value(items: Sequence[Item] = ITEMS) -> dict[str, object]:
    return {
        "dataset": "made up",
        "images": [
            {
                "filename": f"{item.name}.jpg",
                "split": item.split,
                "imgid": index,
                "sentences": [{"raw": caption} for caption in item.captions],
            }
            for index, item in enumerate(items)
        ],
    }


def coco_value(items: Sequence[Item] = ITEMS) -> dict[str, object]:
    return {
        "images": [
            {"id": item.name, "file_name": f"{item.name}.jpg", "height": 1} for item in items
        ],
        "annotations": [
            {"id": 1000 * index + number, "image_id": item.name, "caption": caption}
            for index, item in enumerate(items)
            for number, caption in enumerate(item.captions)
        ],
    }


def table_text(items: Sequence[Item] = ITEMS, delimiter: str = ",") -> str:
    file = io.StringIO(newline="")
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(["image", "caption", "split"])
    for item in items:
        writer.writerows([f"{item.name}.jpg", text_cell(c), item.split] for c in item.captions)
    return file.getvalue()


def jsonl_text(items: Sequence[Item] = ITEMS) -> str:
    rows = [
        {"image": f"{item.name}.jpg", "captions": list(item.captions), "split": item.split}
        for item in items
    ]
    return "".join(json.dumps(row) + "\n" for row in rows)


def token_text(items: Sequence[Item] = ITEMS) -> str:
    return "".join(
        f"{item.name}.jpg#{number}\t{caption}\n"
        for item in items
        for number, caption in enumerate(item.captions)
    )


def write_flickr8k(folder: Path, items: Sequence[Item] = ITEMS) -> Path:
    (folder / "Flickr8k.token.txt").write_bytes(token_text(items).encode())
    for split, name in (("train", "train"), ("val", "dev"), ("test", "test")):
        names = [f"{item.name}.jpg\n" for item in items if item.split == split]
        (folder / f"Flickr_8k.{name}Images.txt").write_text("".join(names), encoding="utf-8")
    return folder


def write_folder(folder: Path, items: Sequence[Item] = ITEMS) -> Path:
    make_images(folder, items)
    for item in items:
        if item.captions:
            (folder / f"{item.name}.txt").write_bytes("\n".join(item.captions).encode())
    return folder


def make_tar(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return path


def read_all(reader: str, source: Path, *roots: Path) -> Reading:
    """Read strictly: the first bad row is raised."""
    return read(reader, str(source), images=roots, problems=Problems())


def read_skipping(reader: str, source: Path, *roots: Path) -> tuple[Reading, Problems]:
    problems = Problems(skip=True)
    return read(reader, str(source), images=roots, problems=problems), problems


def as_items(reading: Reading) -> list[Item]:
    return [Item(r.id, r.captions, r.split) for r in reading.records]


Writer = Callable[[Path, Sequence[Item]], Path]


def _write_text(name: str, text: Callable[[Sequence[Item]], str]) -> Writer:
    def write(folder: Path, items: Sequence[Item]) -> Path:
        path = folder / name
        path.write_bytes(text(items).encode())
        return path

    return write


# What each writer can say of a dataset differs: see the tests that use this table.
WRITERS: dict[str, tuple[str, Writer]] = {
    "karpathy": ("karpathy", _write_text("dataset.json", lambda i: json.dumps(karpathy_value(i)))),
    "coco": ("coco", _write_text("captions_val2014.json", lambda i: json.dumps(coco_value(i)))),
    "csv": ("table", _write_text("table.csv", table_text)),
    "tsv": ("table", _write_text("table.tsv", lambda i: table_text(i, "\t"))),
    "jsonl": ("table", _write_text("table.jsonl", jsonl_text)),
    "flickr8k": ("flickr8k", write_flickr8k),
    "folder": ("folder", write_folder),
}
