"""Scenes as pixels, as records for the rest of the package, and as files on disk.

Shapes have soft edges and stand on a background that is never quite even.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from math import cos, pi, sin
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from PIL import Image, ImageChops, ImageDraw, ImageFont

from naic.data.records import Record
from naic.data.shapes.phrasing import captions
from naic.data.shapes.scenes import (
    CANVAS,
    Scene,
    SceneObject,
    facts,
    make_scene,
    pick_between,
    split_of,
)
from naic.errors import ConfigError, StoreError
from naic.files import write_atomically

if TYPE_CHECKING:  # nothing is opened to draw a scene
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

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image in its one size: drawing it smaller would give other pixels, not sooner."""
        return draw(make_scene(self.seed, self.index))

    def describe(self) -> "Described":
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


PAINT = {
    "red": (212, 36, 38),
    "orange": (246, 132, 18),
    "yellow": (250, 218, 40),
    "green": (38, 158, 70),
    "blue": (36, 92, 212),
    "purple": (134, 60, 188),
    "pink": (246, 136, 190),
}
PAPER = {"white": 238, "grey": 150, "black": 34}
FINER = 4  # shapes are drawn this many times larger and reduced, which smooths their edges
REACH = 1.16  # a tilted square reaches out of its radius by up to this factor
TILT = 9  # degrees either way

Point = tuple[float, float]


def draw(scene: Scene, pixels: int = CANVAS) -> Image.Image:
    """The image of a scene, RGB, `pixels` a side; the same pixels every time."""
    if pixels < 1:
        raise ConfigError(
            f"{pixels} pixels", "an image needs at least one", f"Try pixels={CANVAS}."
        )
    rng = Random(f"naic shapes paint {scene.seed} {scene.index}")  # noqa: S311 - no secret here
    image = _background(scene.background, pixels, rng)
    for thing in scene.objects:
        tint = [value + pick_between(rng, -9, 9) for value in PAINT[thing.colour]]
        colour = (tint[0], min(255, tint[1]), tint[2])
        angle = pick_between(rng, -TILT, TILT) * pi / 180
        _paint(image, thing, colour, angle)
    return image


def _background(name: str, pixels: int, rng: Random) -> Image.Image:
    """A plain colour with a soft cloud and a fine grain, so that no two images are alike."""
    paper = [PAPER[name] + pick_between(rng, -5, 5) for _ in "RGB"]
    flat = Image.new("RGB", (pixels, pixels), (paper[0], paper[1], paper[2]))
    cloud = Image.frombytes("L", (5, 5), rng.randbytes(25))
    cloud = cloud.resize((pixels, pixels), Image.Resampling.BICUBIC).point(_shrunk(24))
    grain = Image.frombytes("L", (pixels, pixels), rng.randbytes(pixels * pixels))
    texture = ImageChops.add(cloud, grain.point(_shrunk(12)))
    return ImageChops.add(flat, Image.merge("RGB", [texture] * 3), scale=1, offset=-18)


@cache
def _shrunk(top: int) -> list[int]:
    """The table that brings 0..255 down to 0..top."""
    return [value * top // 255 for value in range(256)]


def _paint(
    image: Image.Image, thing: SceneObject, colour: tuple[int, int, int], angle: float
) -> None:
    """Lay one shape on the image; only its own box is drawn large, which keeps this quick."""
    scale = image.width / CANVAS
    left, top = (int((at - REACH * thing.radius) * scale) for at in (thing.x, thing.y))
    side = int(2 * REACH * thing.radius * scale) + 2
    mask = Image.new("L", (side * FINER, side * FINER))
    centre = ((thing.x * scale - left) * FINER, (thing.y * scale - top) * FINER)
    radius = thing.radius * scale * FINER
    outline = [
        (
            centre[0] + radius * (x * cos(angle) - y * sin(angle)),
            centre[1] + radius * (x * sin(angle) + y * cos(angle)),
        )
        for x, y in _outline(thing.shape)
    ]
    ImageDraw.Draw(mask).polygon(outline, fill=255)
    image.paste(colour, (left, top), mask.reduce(FINER))


@cache
def _outline(shape: str) -> tuple[Point, ...]:
    """A shape of radius 1 about the origin (y downwards); the origin itself is painted."""
    if shape == "circle":
        return tuple((cos(i * pi / 36), sin(i * pi / 36)) for i in range(72))
    if shape == "heart":
        return tuple(_heart_point(i * pi / 30) for i in range(60))
    if shape == "star":
        turns = [(1.0 if i % 2 == 0 else 0.42, i * pi / 5) for i in range(10)]
        return tuple((length * sin(turn), -length * cos(turn)) for length, turn in turns)
    if shape == "cross":
        a, b = 0.3, 0.98
        right = ((a, -b), (a, -a), (b, -a), (b, a), (a, a), (a, b))
        return right + tuple((-x, -y) for x, y in right)
    corners: dict[str, tuple[Point, ...]] = {
        "square": ((-0.86, -0.86), (0.86, -0.86), (0.86, 0.86), (-0.86, 0.86)),
        "triangle": ((0, -1), (0.96, 0.8), (-0.96, 0.8)),
        "diamond": ((0, -1), (0.66, 0), (0, 1), (-0.66, 0)),
    }
    return corners[shape]


def _heart_point(t: float) -> Point:
    """The well-known heart curve, scaled to radius 1 and lifted to sit about the origin."""
    height = 13 * cos(t) - 5 * cos(2 * t) - 2 * cos(3 * t) - cos(4 * t)
    return 16 * sin(t) ** 3 / 17, -height / 17 - 0.13


MARGIN = 20
TEXT_SIZE = 15
LINE = 20  # pixels from one line of text to the next
SHOWN = 2  # captions under each image
INK = ((30, 30, 34), (110, 110, 118))  # each caption in its own grey, to tell them apart


def contact_sheet(scenes: Sequence[Scene], columns: int = 4) -> Image.Image:
    """The images in rows of `columns`, with two of their captions under each."""
    if not scenes or columns < 1:
        why = "there is nothing to show"
        hint = "Give at least one scene and one column."
        raise ConfigError(f"a sheet of {len(scenes)} scenes in {columns} columns", why, hint)
    font = ImageFont.load_default(TEXT_SIZE)
    columns = min(columns, len(scenes))
    texts = [[_wrap(text, font) for text in captions(scene)[:SHOWN]] for scene in scenes]
    tops = [MARGIN]  # of each row, and of the end
    for start in range(0, len(scenes), columns):
        most = max(sum(map(len, text)) for text in texts[start : start + columns])
        tops.append(tops[-1] + CANVAS + LINE * most + 2 * MARGIN)
    sheet = Image.new("RGB", (columns * (CANVAS + MARGIN) + MARGIN, tops[-1]), "white")
    pen = ImageDraw.Draw(sheet)
    for number, scene in enumerate(scenes):
        left, top = MARGIN + number % columns * (CANVAS + MARGIN), tops[number // columns]
        sheet.paste(draw(scene), (left, top))
        pen.rectangle((left, top, left + CANVAS - 1, top + CANVAS - 1), outline=(205, 205, 205))
        down = top + CANVAS + MARGIN // 2
        for ink, lines in zip(INK, texts[number], strict=True):
            for line in lines:
                pen.text((left, down), line, fill=ink, font=font)
                down += LINE
    return sheet


def _wrap(text: str, font: ImageFont.ImageFont | ImageFont.FreeTypeFont) -> list[str]:
    """The text in lines no wider than an image."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".lstrip()
        if lines[-1] and font.getlength(longer) > CANVAS:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
