"""Scenes: which shapes there are, where they stand, and the facts that follow from that.

Everything is drawn from `random.Random.random()` seeded by a string: the one part of the
standard library's generator that is promised to stay the same from one Python to the next.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from random import Random
from typing import TypeVar

from naic.data.shapes.words import BACKGROUNDS, COLOURS, INVERSES, SHAPES, SIZES
from naic.errors import ConfigError

CANVAS = 256  # scenes are laid out on a square of this many units a side
EDGE = 8  # no shape comes closer than this to the border
GAP = 14  # the clear space between two shapes
CONE = 0.6  # "above" allows this much sideways for each unit upwards: about 31 degrees
ENCLOSED = 0.65  # the part of a circle's or a square's radius that is surely inside it
UNEVEN = 16  # how far a shape may stand out of its row, either way
RADII = {"small": (20, 25), "large": (45, 56)}  # far enough apart that a size is never in doubt
SPLITS = ("train",) * 8 + ("val", "test")

# Kinds of scene and how often each comes.
KINDS = (
    ("one", 0.12),
    ("several", 0.16),  # two or three of the same
    ("pair", 0.36),
    ("nested", 0.10),
    ("several and one", 0.12),
    ("row", 0.14),  # three different shapes in a row or a column
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SceneObject:
    """One shape: what it looks like, and where it is (centre and half extent, in canvas units)."""

    shape: str
    colour: str
    size: str
    x: int
    y: int
    radius: int

    @property
    def look(self) -> tuple[str, str, str]:
        """What can be said about it apart from its place."""
        return (self.size, self.colour, self.shape)


@dataclass(frozen=True, slots=True)
class Scene:
    """Up to three shapes on a background; (seed, index) says everything about it."""

    seed: int
    index: int
    background: str
    objects: tuple[SceneObject, ...]


def pick(rng: Random, options: Sequence[T]) -> T:
    """One of the options, by `random()` alone (see the head of this file)."""
    return options[int(rng.random() * len(options))]


def pick_between(rng: Random, low: int, high: int) -> int:
    """A whole number from low to high, both included."""
    return low + int(rng.random() * (high - low + 1))


def relation(a: SceneObject, b: SceneObject) -> str | None:
    """How `a` stands to `b`, or None where a person could hesitate."""
    across, down = b.x - a.x, b.y - a.y
    apart = a.radius + b.radius + GAP
    if abs(across) >= apart and abs(down) <= CONE * abs(across):
        return "left of" if across > 0 else "right of"
    if abs(down) >= apart and abs(across) <= CONE * abs(down):
        return "above" if down > 0 else "below"
    offset = max(abs(across), abs(down))
    if offset + a.radius <= ENCLOSED * b.radius:
        return "inside"
    if offset + b.radius <= ENCLOSED * a.radius:
        return "around"
    return None


def make_scene(seed: int, index: int) -> Scene:
    """Scene number `index` of the endless series `seed`; it depends on no other scene."""
    if seed < 0 or index < 0:
        why = "seed and index are counted from 0"
        hint = "Give two whole numbers that are not negative."
        raise ConfigError(f"scene (seed {seed}, index {index})", why, hint)
    rng = Random(f"naic shapes scene {seed} {index}")  # noqa: S311 - no secret depends on it
    background = pick(rng, BACKGROUNDS)
    kind = _pick_kind(rng)
    while True:  # a few looks hardly fit the canvas: after some tries others are taken
        blanks = _looks(kind, rng)
        for _ in range(30):
            objects = _place(kind, blanks, rng)
            if _is_clear(kind, objects):
                return Scene(seed, index, background, objects)


def facts(scene: Scene) -> dict[str, object]:
    """What is true of a scene, as plain JSON: enough for `check` to judge any caption.

    A relation is a triple [i, name, j] of two places in the list of objects; "left of", "above"
    and "inside" are given, and their inverses follow.
    """
    triples: list[list[object]] = []
    for i, a in enumerate(scene.objects):
        for j, b in enumerate(scene.objects):
            name = relation(a, b) if i != j else None
            if name in ("left of", "above", "inside"):
                triples.append([i, name, j])
    return {
        "background": scene.background,
        "objects": [{"shape": o.shape, "colour": o.colour, "size": o.size} for o in scene.objects],
        "relations": triples,
    }


def split_of(index: int) -> str:
    """Of ten scenes in a row eight are for training, one for validation and one for the test."""
    return SPLITS[index % len(SPLITS)]


def _pick_kind(rng: Random) -> str:
    point = rng.random()
    for kind, share in KINDS:
        point -= share
        if point < 0:
            return kind
    return KINDS[-1][0]  # the shares add up to 1 only within rounding


def _looks(kind: str, rng: Random) -> list[SceneObject]:
    """The shapes of a scene before they have a place; no two that differ are hard to tell."""
    if kind == "nested":
        return _nested_looks(rng)
    first = _any_look(rng)
    if kind == "one":
        return [first]
    if kind == "several":
        return [first] * pick_between(rng, 2, 3)
    others: list[SceneObject] = []
    while len(others) < (2 if kind == "row" else 1):
        other = _any_look(rng)
        if kind == "row" and "large" in [first.size, *(o.size for o in others)]:
            other = replace(other, size="small", radius=pick_between(rng, *RADII["small"]))
        named = [(o.shape, o.colour) for o in [first, *others]]
        # Shape and colour must tell them apart, or three of them would need too many words;
        # in a pair, size may be the only difference.
        if other.look != first.look and (
            kind == "pair" or (other.shape, other.colour) not in named
        ):
            others.append(other)
    if kind == "several and one":
        return [first, first, *others]
    return [first, *others]


def _any_look(rng: Random) -> SceneObject:
    size = pick(rng, tuple(SIZES))
    radius = pick_between(rng, *RADII[size])
    return SceneObject(pick(rng, tuple(SHAPES)), pick(rng, COLOURS), size, 0, 0, radius)


def _nested_looks(rng: Random) -> list[SceneObject]:
    colour = pick(rng, COLOURS)
    others = tuple(c for c in COLOURS if c != colour)
    inner = SceneObject(pick(rng, tuple(SHAPES)), colour, "small", 0, 0, pick_between(rng, 20, 22))
    # Only these two are roomy enough that a shape inside them is inside beyond doubt.
    outer_shape = pick(rng, ("circle", "square"))
    outer = SceneObject(outer_shape, pick(rng, others), "large", 0, 0, pick_between(rng, 52, 56))
    return [outer, inner]


def _place(kind: str, blanks: Sequence[SceneObject], rng: Random) -> tuple[SceneObject, ...]:
    if kind == "row":
        return _row(blanks, rng)
    if kind == "several and one":
        return _two_and_one(blanks, rng)
    placed: list[SceneObject] = []
    for blank in blanks:
        if kind == "nested" and placed:
            x = placed[0].x + pick_between(rng, -12, 12)
            y = placed[0].y + pick_between(rng, -12, 12)
        else:
            low, high = EDGE + blank.radius, CANVAS - EDGE - blank.radius
            x, y = pick_between(rng, low, high), pick_between(rng, low, high)
        placed.append(replace(blank, x=x, y=y))
    return tuple(placed)


def _row(blanks: Sequence[SceneObject], rng: Random) -> tuple[SceneObject, ...]:
    """Three shapes, at most one of them large, in a row or a column that is not quite straight."""
    spare = CANVAS - 2 * EDGE - GAP * (len(blanks) - 1) - 2 * sum(b.radius for b in blanks)
    shifts = sorted(pick_between(rng, 0, spare) for _ in blanks)
    reach = EDGE + UNEVEN + max(b.radius for b in blanks)
    middle = pick_between(rng, reach, CANVAS - reach)
    spots, start = [], EDGE
    for blank, shift in zip(blanks, shifts, strict=True):
        along, across = start + shift + blank.radius, middle + pick_between(rng, -UNEVEN, UNEVEN)
        spots.append((along, across))
        start += 2 * blank.radius + GAP
    return _turned(blanks, spots, rng)


def _two_and_one(blanks: Sequence[SceneObject], rng: Random) -> tuple[SceneObject, ...]:
    """Two of the same along one border, the third towards the other one, between the two."""
    same, other = blanks[0].radius, blanks[2].radius
    least = same + GAP // 2
    spread = pick_between(rng, least, min(least + 24, CANVAS // 2 - EDGE - same))
    reach = EDGE + same + spread
    middle = pick_between(rng, reach, CANVAS - reach)
    aside = pick_between(rng, -8, 8)
    near, far = EDGE + same, CANVAS - EDGE - other
    apart = max(same + other + GAP, int((spread + 8) / CONE) + 1)  # so that both stand alike to it
    shift = (far - near - apart) // 2
    spots = [(near + pick_between(rng, 0, shift), middle + side) for side in (-spread, spread)]
    spots.append((far - pick_between(rng, 0, shift), middle + aside))
    return _turned(blanks, spots, rng)


def _turned(
    blanks: Sequence[SceneObject], spots: Sequence[tuple[int, int]], rng: Random
) -> tuple[SceneObject, ...]:
    """Shapes at their spots (along, across), the whole turned in one of four ways."""
    if rng.random() < 0.5:
        spots = [(CANVAS - along, across) for along, across in spots]
    if rng.random() < 0.5:
        spots = [(across, along) for along, across in spots]
    return tuple(replace(b, x=x, y=y) for b, (x, y) in zip(blanks, spots, strict=True))


def _is_clear(kind: str, objects: Sequence[SceneObject]) -> bool:
    """Whether what a caption may say about this layout is beyond doubt."""
    pairs = list(combinations(objects, 2))
    related = [relation(a, b) for a, b in pairs]
    # Beside two small shapes a large one may reach over the edge.
    reaches = [max(abs(o.x - CANVAS / 2), abs(o.y - CANVAS / 2)) + o.radius for o in objects]
    if max(reaches) > CANVAS / 2 - EDGE:
        return False
    if kind == "nested":
        return related == ["around"]
    if any(max(abs(a.x - b.x), abs(a.y - b.y)) < a.radius + b.radius + GAP for a, b in pairs):
        return False
    if kind == "several and one":  # both of the same must stand alike to the other one
        return related[1] is not None and related[1] == related[2]
    if kind in ("pair", "row"):
        axes = {frozenset((name, INVERSES[name])) if name else None for name in related}
        return len(axes) == 1 and None not in axes
    return True
