"""Scenes as a dataset: records for the rest of the package, or files on disk."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

from PIL.Image import Image

from naic.data.records import Record
from naic.data.shapes.drawing import draw
from naic.data.shapes.phrasing import captions
from naic.data.shapes.scenes import facts, make_scene, split_of
from naic.errors import ConfigError, StoreError
from naic.files import write_atomically
from naic.images.sources import Described


@dataclass(frozen=True, slots=True)
class SceneImage:
    """An image that is drawn when it is asked for, so that a dataset of any size takes no room."""

    seed: int
    index: int

    @property
    def name(self) -> str:
        """The record's id; there is no file."""
        return f"shapes-{self.seed}-{self.index:06d}"

    def load(self, at_least: int | None = None) -> Image:
        """The image in its one size: drawing it smaller would give other pixels, not sooner."""
        return draw(make_scene(self.seed, self.index))

    def describe(self) -> Described:
        """Which scene."""
        return {"scene": [self.seed, self.index]}, b""


def records(count: int, seed: int = 0) -> list[Record]:
    """The first `count` scenes of a series with their captions, facts and splits."""
    if count < 1:
        raise ConfigError(f"{count} scenes", "at least one is needed", "Ask for 1 or more.")
    return [_record(seed, index) for index in range(count)]


def _record(seed: int, index: int) -> Record:
    scene, image = make_scene(seed, index), SceneImage(seed, index)
    return Record(image.name, image, captions(scene), split_of(index), facts(scene))


def write(count: int, seed: int, folder: Path) -> Path:
    """Put scenes on disk as the "table" reader takes them; gives the path of `captions.jsonl`.

    `captions.jsonl` has one line for each caption (id, image, caption, split) and is written
    last: where it is, all it names is there too. `facts.jsonl` has one line for each scene
    (id, facts).
    """
    made = records(count, seed)
    try:
        (folder / "images").mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(
            str(folder), f"cannot be made a folder ({error.strerror})", "Choose another folder."
        ) from error
    for record in made:
        buffer = BytesIO()
        # The grain of the background does not compress: more effort would only take longer.
        record.image.load().save(buffer, format="PNG", compress_level=1)
        write_atomically(folder / _image_path(record), buffer.getvalue())
    rows: list[dict[str, object]] = [
        {"id": record.id, "image": _image_path(record), "caption": caption, "split": record.split}
        for record in made
        for caption in record.captions
    ]
    write_atomically(folder / "facts.jsonl", _lines({"id": r.id, "facts": r.facts} for r in made))
    write_atomically(folder / "captions.jsonl", _lines(rows))
    return folder / "captions.jsonl"


def _image_path(record: Record) -> str:
    return f"images/{record.id}.png"


def _lines(rows: Iterable[dict[str, object]]) -> bytes:
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode()
