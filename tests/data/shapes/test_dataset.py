import json
from collections import Counter
from pathlib import Path

import pytest
from PIL import Image

from naic.data.shapes import dataset
from naic.data.shapes.dataset import SceneImage, draw, write
from naic.data.shapes.dataset import records as make_records
from naic.data.shapes.phrasing import captions
from naic.data.shapes.scenes import facts, make_scene
from naic.data.shapes.truth import check
from naic.errors import ConfigError, StoreError, WriteError
from naic.images.sources import ImageSource


def test_a_record_has_all_there_is_to_know() -> None:
    record = make_records(19, seed=3)[18]
    scene = make_scene(3, 18)
    assert record.id == "shapes-3-000018"
    assert record.image == SceneImage(3, 18)
    assert record.image.name == "shapes-3-000018"
    assert record.captions == captions(scene)
    assert record.facts == facts(scene)
    assert record.split == "val"
    source: ImageSource = record.image
    assert source.load().tobytes() == draw(scene).tobytes()


def test_splits_are_eight_one_and_one_of_ten_and_share_no_scene() -> None:
    made = make_records(1000)
    assert Counter(record.split for record in made) == {"train": 800, "val": 100, "test": 100}
    assert len({record.id for record in made}) == 1000
    assert make_records(40) == made[:40]  # a larger set only adds to a smaller one
    scenes = {
        (scene.background, scene.objects) for scene in (make_scene(0, i) for i in range(1000))
    }
    assert len(scenes) == 1000


def test_no_records_are_refused() -> None:
    with pytest.raises(ConfigError, match="0 scenes: at least one is needed"):
        make_records(0)


def test_what_is_written_is_what_the_records_say(tmp_path: Path) -> None:
    table = write(12, 1, tmp_path / "a" / "b")
    folder = tmp_path / "a" / "b"
    made = make_records(12, seed=1)
    assert table == folder / "captions.jsonl"
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    assert rows == [
        {
            "id": record.id,
            "image": f"images/{record.id}.png",
            "caption": caption,
            "split": record.split,
        }
        for record in made
        for caption in record.captions
    ]
    told = [json.loads(line) for line in (folder / "facts.jsonl").read_text().splitlines()]
    assert told == [{"id": record.id, "facts": record.facts} for record in made]
    assert check(rows[0]["caption"], told[0]["facts"]).ok
    for record in made:
        with Image.open(folder / "images" / f"{record.id}.png") as image:
            assert image.tobytes() == record.image.load().tobytes()
    names = sorted(path.name for path in folder.rglob("*") if path.is_file())
    assert names == sorted(
        ["captions.jsonl", "facts.jsonl", *(f"{record.id}.png" for record in made)]
    )


def test_writing_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    write(3, 0, tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    write(3, 0, tmp_path)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


def test_a_broken_run_leaves_no_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Path] = []

    def stop_at_the_third(path: Path, data: bytes) -> None:
        if len(done) == 2:
            raise WriteError(str(path), "the disk is full")
        done.append(path)
        path.write_bytes(data)

    monkeypatch.setattr(dataset, "write_atomically", stop_at_the_third)
    with pytest.raises(WriteError, match="the disk is full"):
        write(5, 0, tmp_path)
    assert [path.name for path in done] == ["shapes-0-000000.png", "shapes-0-000001.png"]
    assert not (tmp_path / "captions.jsonl").exists()


def test_a_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "taken"
    path.write_text("")
    with pytest.raises(StoreError, match=r"taken: cannot be made a folder"):
        write(1, 0, path)
