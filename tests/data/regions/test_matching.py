"""Which features are whose: names that mean one image, and names that must not."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from naic.data.records import Problems, Record, UnseenImage
from naic.data.regions.matching import find_features, read_sizes, spellings
from naic.errors import DataError
from tests.data.regions import files


def test_an_image_has_many_names() -> None:
    assert spellings("val2014/COCO_val2014_000000391895.jpg") == [
        "val2014/COCO_val2014_000000391895.jpg",
        "val2014/COCO_val2014_000000391895",
        "COCO_val2014_000000391895.jpg",
        "COCO_val2014_000000391895",
        "391895",
    ]
    assert "42" in spellings("000000000042")
    assert "1000268201_693b08cb0e" in spellings("Flicker8k/1000268201_693b08cb0e.jpg")
    assert spellings("42") == ["42"]
    assert "12" not in spellings("photo0000000000012")  # more digits than COCO's


def folder(path: Path, names: Sequence[str]) -> str:
    for name in names:
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        np.save(path / f"{name}.npy", np.ones((1, 2), np.float32))
    return f"npz:{path}"


def record(id_: str, name: str) -> Record:
    return Record(id_, UnseenImage(name))


def test_two_images_do_not_share_features(tmp_path: Path) -> None:
    given = folder(tmp_path / "given", ["a/1"])
    problems = Problems(skip=True)
    records = [record("a/1", "a/1.jpg"), record("b/1", "b/1.jpg")]
    kept, found = find_features([given], [], records, problems)
    assert [own.id for own in kept] == ["a/1"]
    assert found.unused == 0
    (problem,) = problems.items
    assert "are those of a/1, too" in problem.why


def test_the_nearest_name_wins(tmp_path: Path) -> None:
    given = folder(tmp_path / "given", ["b/1", "a/1"])
    records = [record("a/1", "a/1.jpg"), record("b/1", "b/1.jpg")]
    kept, found = find_features([given], [], records, Problems())
    assert len(kept) == 2
    assert [place.key for place in found.places] == ["a/1", "b/1"]


def test_a_name_that_two_images_have_means_neither(tmp_path: Path) -> None:
    given = folder(tmp_path / "given", ["a/1", "b/1", "c/2", "2"])
    problems = Problems(skip=True)
    kept, found = find_features([given], [], [record("1", "1.jpg"), record("2", "2.jpg")], problems)
    assert [own.id for own in kept] == ["2"]
    assert [place.key for place in found.places] == ["2"]
    assert found.unused == 3
    (problem,) = problems.items
    assert problem.why == "there are no features of 1.jpg"


def test_sizes_are_known_by_every_name(tmp_path: Path) -> None:
    sizes = read_sizes([files.write_sizes(tmp_path / "sizes.json")])
    for name in ("391895", "COCO_val2014_000000391895.jpg", "COCO_val2014_000000391895"):
        assert sizes[name] == (files.WIDTH, files.HEIGHT)
    (tmp_path / "other.json").write_text('{"images": [1, {"width": "x", "height": 1}]}')
    with pytest.raises(DataError, match="no image with width and height"):
        read_sizes([tmp_path / "other.json"])
