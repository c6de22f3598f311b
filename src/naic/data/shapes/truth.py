"""Whether a caption is true of a scene, judged from the scene's facts alone."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from naic.data.shapes.parsing import parse
from naic.data.shapes.words import SIZE_OF, Claims, Mention, Relation, split_words
from naic.errors import DataError

# For each mention the numbers of the objects it is taken to mean; none if there are too few.
Assignment = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a caption claims and whether it may stand."""

    ok: bool  # grammatical, about at least one shape, and all of it true
    claims: tuple[str, ...]
    false_claims: tuple[str, ...]
    reason: str  # why it is not ok; empty if it is


@dataclass(frozen=True, slots=True)
class _World:
    """Facts, read back from JSON."""

    background: str
    objects: tuple[dict[str, str], ...]
    relations: frozenset[tuple[int, str, int]]

    def matches(self, number: int, mention: Mention) -> bool:
        """Whether an object looks as a mention says."""
        look = self.objects[number]
        said = {"size": mention.size, "colour": mention.colour, "shape": mention.shape}
        return all(value is None or look[key] == value for key, value in said.items())

    def related(self, i: int, name: str, j: int) -> bool:
        """Whether object i stands to object j as the name of the relation says."""
        if name == "beside":  # the ends of a row are not beside each other
            level = self.related(i, "left of", j) or self.related(j, "left of", i)
            return level and not any(self.between(k, i, j) for k in range(len(self.objects)))
        mirrored = {"right of": "left of", "below": "above", "around": "inside"}
        if name in mirrored:
            return (j, mirrored[name], i) in self.relations
        return (i, name, j) in self.relations

    def between(self, i: int, j: int, k: int) -> bool:
        """Whether object i is in the middle of a row or a column with j and k at its ends."""
        return any(
            self.related(j, name, i) and self.related(i, name, k)
            for name in ("left of", "right of", "above", "below")
        )


def check(caption: str, facts: Mapping[str, object]) -> Verdict:
    """Judge a caption, raw or tokenised, by the facts of a scene.

    Numbers are exact: "a circle" is false of a scene with two circles of which the caption names
    only one. A caption that leaves shapes out is true if what it says is. A caption with a false
    claim is read in the way that makes the fewest of its claims false.
    """
    world = _read(facts)
    words = split_words(caption)
    if not words:
        return Verdict(False, (), (), "the caption is empty")
    try:
        reading = parse(words)
    except DataError as error:
        return Verdict(False, (), (), error.why)
    best = None
    for assigned in _assignments(reading, world):
        claims = _claims(reading, world, assigned)
        wrong = tuple(text for text, true in claims if not true)
        if best is None or len(wrong) < len(best.false_claims):
            reason = f"not true: {'; '.join(wrong)}" if wrong else ""
            best = Verdict(not wrong, tuple(text for text, _ in claims), wrong, reason)
        if not wrong:
            break
    assert best is not None  # there is always some way to take the mentions
    return best


def _read(facts: Mapping[str, object]) -> _World:
    match facts:
        case {"background": str(background), "objects": [*objects], "relations": [*relations]}:
            pass
        case _:
            raise _bad_facts("'background', 'objects' or 'relations' is missing or of another type")
    looks = []
    for item in objects:
        match item:
            case {"shape": str(shape), "colour": str(colour), "size": str(size)}:
                looks.append({"shape": shape, "colour": colour, "size": size})
            case _:
                raise _bad_facts(f"{item!r} is no object with shape, colour and size")
    triples = []
    for item in relations:
        match item:
            case [int(i), str(name), int(j)]:
                triples.append((i, name, j))
            case _:
                raise _bad_facts(f"{item!r} is no relation [number, name, number]")
    return _World(background, tuple(looks), frozenset(triples))


def _bad_facts(why: str) -> DataError:
    return DataError("facts of a scene", why, "Take them from facts(scene) or from facts.jsonl.")


def _assignments(reading: Claims, world: _World) -> Iterator[Assignment]:
    """All ways to take each mention for objects of the scene, no object twice."""
    scarce = sum(mention.count for mention in reading.mentions) > len(world.objects)

    def extend(chosen: Assignment, free: frozenset[int]) -> Iterator[Assignment]:
        if len(chosen) == len(reading.mentions):
            yield chosen
            return
        count = reading.mentions[len(chosen)].count
        for objects in combinations(sorted(free), count):
            yield from extend((*chosen, objects), free.difference(objects))
        if scarce:  # some mention can mean nothing, and it may be this one
            yield from extend((*chosen, ()), free)

    yield from extend((), frozenset(range(len(world.objects))))


def _claims(reading: Claims, world: _World, assigned: Assignment) -> list[tuple[str, bool]]:
    """Every claim in words, and whether it is true if the mentions are taken so."""
    mentions = reading.mentions
    taken = {number for objects in assigned for number in objects}
    left_over = [number for number in range(len(world.objects)) if number not in taken]
    claims = []
    for mention, objects in zip(mentions, assigned, strict=True):
        # None like it may be left over: "a circle" does not do for two circles.
        true = bool(objects) and all(world.matches(number, mention) for number in objects)
        claims.append(
            (mention.text, true and not any(world.matches(n, mention) for n in left_over))
        )
    for quality in reading.qualities:
        key, value = "colour", quality.adjective
        if value in SIZE_OF:
            key, value = "size", SIZE_OF[value]
        objects = assigned[quality.mention]
        true = bool(objects) and all(world.objects[number][key] == value for number in objects)
        claims.append((f"{mentions[quality.mention].text}: {quality.adjective}", true))
    claims += [_relation_claim(item, mentions, world, assigned) for item in reading.relations]
    for total in reading.totals:
        listed = sum(mentions[number].count for number in total.parts)
        like = sum(world.matches(number, total.whole) for number in range(len(world.objects)))
        of_parts = all(
            world.matches(n, total.whole) for part in total.parts for n in assigned[part]
        )
        claims.append((total.whole.text, listed == like == total.whole.count and of_parts))
    if reading.background is not None:
        claims.append(
            (f"a {reading.background} background", reading.background == world.background)
        )
    return claims


def _relation_claim(
    item: Relation, mentions: list[Mention], world: _World, assigned: Assignment
) -> tuple[str, bool]:
    left = " and ".join(mentions[number].text for number in item.left)
    right = " and ".join(mentions[number].text for number in item.right)
    text = f"{left} {item.name} {right}"
    if not all(assigned[number] for number in (*item.left, *item.right)):
        return text, False
    subjects = [n for number in item.left for n in assigned[number]]
    if item.name == "between":
        first, second = (assigned[number] for number in item.right)
        return text, all(world.between(i, j, k) for i in subjects for j in first for k in second)
    others = [n for number in item.right for n in assigned[number]]
    return text, all(world.related(i, item.name, j) for i in subjects for j in others)
