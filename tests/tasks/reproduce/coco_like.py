"""A dataset in Karpathy's layout with COCO's kind of ids, small enough to learn from in a test."""

import json
from pathlib import Path
from typing import Any

from naic.config import read_toml, to_toml
from naic.data.shapes.dataset import draw, records
from naic.data.shapes.scenes import make_scene
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare
from naic.train.config import read_settings
from naic.train.loop import train
from tests.tasks.reproduce.micro import BATCH, MODEL

ROOT = Path(__file__).parents[3]

SPLITS = {"train": 40, "restval": 24, "val": 8, "test": 52}  # enough of test for intervals
FIRST_ID = 391895


def write_dataset(folder: Path) -> Path:
    """dataset_coco.json, and the images beside it in val2014."""
    (folder / "val2014").mkdir(parents=True)
    splits = [split for split, count in SPLITS.items() for _ in range(count)]
    images: list[dict[str, Any]] = []
    for number, (split, record) in enumerate(zip(splits, records(len(splits), 0), strict=True)):
        name = f"COCO_val2014_{FIRST_ID + number:012d}.jpg"
        draw(make_scene(0, number)).save(folder / "val2014" / name)
        said = [{"raw": caption, "sentid": 0, "imgid": number} for caption in record.captions]
        place = {"filepath": "val2014", "filename": name, "cocoid": FIRST_ID + number}
        images.append({**place, "imgid": number, "split": split, "sentences": said})
    path = folder / "dataset_coco.json"
    path.write_text(json.dumps({"dataset": "coco", "images": images}))
    return path


def write_store(dataset: Path, out: Path) -> Path:
    """Its features."""
    options = PrepareOptions(
        "karpathy", str(dataset), out, images=(dataset.parent,), backbone="blobs", device="cpu"
    )
    prepare(options)
    return out


def write_coco_preset(folder: Path, store: Path) -> Path:
    """configs/coco as it is, but for what makes it large or asks for a GPU."""
    folder.mkdir()
    for path in (ROOT / "configs" / "coco").glob("*.toml"):
        values = read_toml(path)
        if path.stem == "preset":
            values |= {"server": True, "examples": 2}
        elif "stage" in values:
            values = _shrunk(values)
        (folder / path.name).write_text(to_toml(values))
    begin = folder / "teacher_xe.toml"
    values = read_toml(begin)
    if "start" in values:  # another teacher comes before
        values["start"] = str(_train_first(folder, store) / "best")
        begin.write_text(to_toml(values))
    return folder


def _shrunk(values: dict[str, Any]) -> dict[str, Any]:
    schedule = values["schedule"] | {"warmup_steps": 1}
    if "total_epochs" in schedule:
        schedule["total_epochs"] = 1
    times = {"epochs": 1, "batch": BATCH, "validate_every": 1.0, "save_every": 1.0}
    small = {"model": MODEL} if "model" in values else {}
    data = values["data"] | {"more_than": 0}
    over = {"schedule": schedule, "run": values["run"] | times, "data": data, "engine": {}}
    return values | over | small


def _train_first(folder: Path, store: Path) -> Path:
    out = folder.parent / "first"
    over = {"out": str(out), "data.features": str(store), "engine.device": "cpu"}
    train(read_settings(folder / "teacher_first.toml", tuple(over.items())))
    return out
