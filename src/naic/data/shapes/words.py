"""The words that captions of scenes are made of, and what a caption claims once it is read."""

import re
from dataclasses import dataclass, field

SHAPES = {  # singular: plural
    "circle": "circles",
    "square": "squares",
    "triangle": "triangles",
    "star": "stars",
    "heart": "hearts",
    "cross": "crosses",
    "diamond": "diamonds",
}
COLOURS = ("red", "orange", "yellow", "green", "blue", "purple", "pink")
SIZES = {"large": ("large", "big"), "small": ("small", "little", "tiny")}
BACKGROUNDS = ("white", "grey", "black")
NUMBERS = {"one": 1, "two": 2, "three": 3}
NUMBER_WORDS = {number: word for word, number in NUMBERS.items()}
PICTURES = ("picture", "image")

# How each relation may be said between two noun phrases.
RELATIONS = {
    "above": ("above", "over", "on top of"),
    "below": ("below", "under", "beneath"),
    "left of": ("left of", "to the left of"),
    "right of": ("right of", "to the right of"),
    "beside": ("beside", "next to"),
    "inside": ("inside", "in", "within"),
    "around": ("around", "containing"),
}
INVERSES = {
    "above": "below",
    "below": "above",
    "left of": "right of",
    "right of": "left of",
    "beside": "beside",
    "inside": "around",
    "around": "inside",
}

SIZE_OF = {word: size for size, words in SIZES.items() for word in words}
SHAPE_OF = {plural: singular for singular, plural in SHAPES.items()} | {s: s for s in SHAPES}
# Longest first, so that "to the left of" is not missed for want of a look further on.
RELATION_OF = sorted(
    ((tuple(phrase.split()), name) for name, phrases in RELATIONS.items() for phrase in phrases),
    key=lambda item: -len(item[0]),
)


def split_words(caption: str) -> list[str]:
    """The lower-case words of a caption, so that raw and tokenised text read alike."""
    return re.findall(r"\w+", caption.lower())


def article(following: str) -> str:
    """The indefinite article that goes before a word ("orange" and "image" take "an")."""
    return "an" if following[0] in "aeiou" else "a"


@dataclass(frozen=True, slots=True)
class Mention:
    """A noun phrase: so many shapes of this look, None where it does not say."""

    text: str
    count: int
    size: str | None
    colour: str | None
    shape: str | None


@dataclass(frozen=True, slots=True)
class Relation:
    """Mentions (by number) that stand in a relation; "between" has its two ends on the right."""

    left: tuple[int, ...]
    name: str
    right: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Quality:
    """An adjective said of a mention by a verb: "the circle is red"."""

    mention: int
    adjective: str


@dataclass(frozen=True, slots=True)
class Total:
    """What "two red shapes: a circle and a square" says of the parts it lists."""

    whole: Mention
    parts: tuple[int, ...]


@dataclass(slots=True)
class Claims:
    """All that a caption claims."""

    mentions: list[Mention] = field(default_factory=list)
    relations: list[Relation] = field(default_factory=list)
    qualities: list[Quality] = field(default_factory=list)
    totals: list[Total] = field(default_factory=list)
    background: str | None = None
