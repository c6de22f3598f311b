"""What a caption claims, once it has been read."""

from dataclasses import dataclass, field


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
