"""What `read` does for every reader alike: selection, limits, counts, wrong requests."""

import subprocess
import sys
from pathlib import Path

import pytest

from naic.data.readers import read
from naic.data.records import READER_NAMES, Problems
from naic.data.shapes import dataset
from naic.errors import ConfigError, DataError
from tests.data.readers.helpers import (
    ITEMS,
    WRITERS,
    Item,
    as_items,
    karpathy_value,
    make_images,
    read_skipping,
    write_json,
)


@pytest.fixture
def source(tmp_path: Path) -> str:
    make_images(tmp_path)
    return str(write_json(tmp_path / "d.json", karpathy_value()))


def test_all_readers_are_tried_here() -> None:
    assert set(READER_NAMES) == {reader for reader, _ in WRITERS.values()} | {"shapes"}


def test_splits_and_limit(source: str, tmp_path: Path) -> None:
    (tmp_path / "two.jpg").unlink()
    reading = read("karpathy", source, problems=Problems(), splits={"train", "test"})
    assert as_items(reading) == [ITEMS[0], ITEMS[2]]
    assert reading.splits == {"train": 1, "test": 1}
    assert reading.all_splits == {"train": 1, "val": 1, "test": 1}
    assert (reading.other_images, reading.other_captions) == (1, 1)
    # The limit counts usable records, and what comes after it is not checked.
    problems = Problems(skip=True)
    reading = read("karpathy", source, problems=problems, limit=2)
    assert as_items(reading) == [ITEMS[0], ITEMS[2]]
    assert (reading.bad_images, reading.bad_captions, reading.images_seen) == (1, 1, 3)
    assert as_items(read("karpathy", source, problems=Problems(), limit=1)) == [ITEMS[0]]


def test_a_leak_between_splits_is_noticed(tmp_path: Path) -> None:
    make_images(tmp_path)
    items = [Item("one", ("a",), "train"), Item("one", ("b",), "test")]
    path = write_json(tmp_path / "d.json", karpathy_value(items))
    with pytest.raises(DataError, match="already used by"):
        read("karpathy", str(path), problems=Problems(), splits=["test"])
    assert len(read("karpathy", str(path), problems=Problems(), splits=["train"]).records) == 1


def test_unknown_split(source: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no split 'dev'\. Splits in the source: test, train"):
        read("karpathy", source, problems=Problems(), splits=["train", "dev"])
    with pytest.raises(ConfigError, match="names no split"):
        read("folder", str(tmp_path), problems=Problems(), splits=["train"])


def test_wrong_requests(source: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Readers: karpathy, coco, flickr8k, table, folder"):
        read("karpaty", source, problems=Problems())
    with pytest.raises(ConfigError, match="limit: 0 is below 1"):
        read("karpathy", source, problems=Problems(), limit=0)
    for reader in ("folder", "shapes"):
        with pytest.raises(ConfigError, match="Leave out --images"):
            read(reader, source, problems=Problems(), images=[tmp_path])
    for reader in ("karpathy", "coco", "table", "flickr8k"):
        for wrong in ("none/at/all", "x" * 5000, "nul\0", "\ud800"):
            with pytest.raises(DataError, match="no such file or folder"):
                read(reader, wrong, problems=Problems())
    for reader in ("karpathy", "coco"):
        with pytest.raises(DataError, match="it is a folder"):
            read(reader, str(tmp_path), problems=Problems())
    with pytest.raises(DataError, match=r"roots: there is no such folder or tar"):
        read("karpathy", source, problems=Problems(), images=[tmp_path / "roots"])


def test_shapes() -> None:
    reading = read("shapes", "12", problems=Problems(), seed=3)
    assert reading.records == dataset.records(12, 3)
    assert reading.captions == 60
    for wrong in ("0", "-1", "2.5", "many", "", "²", "9" * 5000):
        with pytest.raises(DataError, match="not a number of scenes"):
            read("shapes", wrong, problems=Problems())


def test_nothing_usable_is_still_a_full_account(tmp_path: Path) -> None:
    path = write_json(tmp_path / "d.json", karpathy_value())
    reading, problems = read_skipping("karpathy", path)
    assert reading.records == []
    assert (reading.bad_images, reading.bad_captions, len(problems.items)) == (3, 6, 3)
    assert all("left out with its" in problem.why for problem in problems.items)


def test_reading_needs_no_torch() -> None:
    code = "import sys, naic.data.readers; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
