"""The random choices that all templates of a caption share: adjectives, synonyms, articles."""

from dataclasses import dataclass
from random import Random

from naic.data.shapes.scenes import Scene, SceneObject, pick, relation
from naic.data.shapes.words import NUMBER_WORDS, PICTURES, RELATIONS, SHAPES, SIZES, article

# Adjectives said of a shape (size, colour), repeated by how readily people say them.
DETAILS = ((True, True),) * 4 + ((False, True),) * 4 + ((True, False),) + ((False, False),) * 2


@dataclass(frozen=True, slots=True)
class Group:
    """Shapes of one scene that look the same, spoken of together."""

    look: SceneObject
    members: tuple[SceneObject, ...]

    @property
    def many(self) -> bool:
        """Whether the group takes the plural."""
        return len(self.members) > 1


class Voice:
    """The random choices that all templates share, for one scene."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.rng = Random(f"naic shapes words {scene.seed} {scene.index}")  # noqa: S311
        looks = list(dict.fromkeys(o.look for o in scene.objects))
        members = [tuple(o for o in scene.objects if o.look == look) for look in looks]
        self.groups = [Group(same[0], same) for same in members]

    def chance(self, share: float) -> bool:
        """True in this share of the cases."""
        return self.rng.random() < share

    def shuffled(self) -> list[Group]:
        """The groups in any order."""
        rest = list(self.groups)
        return [rest.pop(int(self.rng.random() * len(rest))) for _ in self.groups]

    def row(self) -> list[Group]:
        """Three groups as they stand side by side or one above the other, from either end."""
        first, second = self.groups[0].look, self.groups[1].look
        level = relation(first, second) in ("left of", "right of")
        row = sorted(self.groups, key=lambda g: g.look.x if level else g.look.y)
        return row if self.chance(0.5) else row[::-1]

    def is_enough(self, group: Group, size: bool, colour: bool) -> bool:
        """Whether the noun with just these adjectives fits nothing else in the scene."""
        like = group.look
        return all(
            o.shape != like.shape
            or (size and o.size != like.size)
            or (colour and o.colour != like.colour)
            for o in self.scene.objects
            if o.look != like.look
        )

    def adjectives(self, group: Group, size: bool, colour: bool) -> list[str]:
        """The chosen adjectives in the order English wants, the size as one of its synonyms."""
        words = [pick(self.rng, SIZES[group.look.size])] if size else []
        return [*words, group.look.colour] if colour else words

    def name(self, group: Group, size: bool, colour: bool) -> str:
        """Adjectives and noun, without a determiner."""
        noun = SHAPES[group.look.shape] if group.many else group.look.shape
        return " ".join([*self.adjectives(group, size, colour), noun])

    def short_name(self, group: Group) -> str:
        """Any name that is enough to tell the group from the rest of the scene."""
        while True:
            size, colour = pick(self.rng, DETAILS)
            if self.is_enough(group, size, colour):
                return self.name(group, size, colour)

    def a(self, group: Group) -> str:
        """The group with an article or a number: "a red circle", "two small stars"."""
        name = self.short_name(group)
        if group.many:
            return f"{NUMBER_WORDS[len(group.members)]} {name}"
        return f"{article(name)} {name}"

    def some(self, group: Group) -> str:
        """As `a`, but several may also be a pair or a group."""
        if len(group.members) == 2 and self.chance(0.25):
            return f"a pair of {self.short_name(group)}"
        return f"a group of {self.a(group)}" if group.many and self.chance(0.25) else self.a(group)

    def listed(self, group: Group) -> str:
        """As `a`, but a single shape in a list may also be counted: "one red circle"."""
        if group.many or self.chance(0.7):
            return self.a(group)
        return f"one {self.short_name(group)}"

    def the(self, group: Group) -> str:
        """The group as something known: "the red circle", "the two small stars"."""
        return self.known(group, self.short_name(group))

    def known(self, group: Group, name: str) -> str:
        """A name with the definite article, and the number where there is more than one."""
        return f"the {NUMBER_WORDS[len(group.members)]} {name}" if group.many else f"the {name}"

    def on_background(self) -> str:
        """Where everything stands."""
        return f"on a {self.scene.background} background"

    def maybe_on_background(self) -> str:
        """The background now and then, as people do."""
        return f" {self.on_background()}" if self.chance(0.3) else ""

    def relation(self, a: Group, b: Group) -> str:
        """How all of `a` stand to all of `b`; now and then only that they are side by side."""
        name = relation(a.look, b.look)
        assert name is not None  # make_scene accepts no other layout
        return "beside" if name in ("left of", "right of") and self.chance(0.3) else name

    def phrase(self, name: str) -> str:
        """A relation in one of its wordings, such as can follow a noun."""
        return pick(self.rng, RELATIONS[name])

    def phrase_for_verb(self, name: str) -> str:
        """A relation as it can follow "is": not "is containing"."""
        return "around" if name == "around" else self.phrase(name)

    def phrase_for_pronoun(self, name: str, of: Group) -> str:
        """A relation to something already named: "above it", "to their left"."""
        if name in ("left of", "right of"):
            return f"to {'their' if of.many else 'its'} {name.split()[0]}"
        return f"{self.phrase_for_verb(name)} {'them' if of.many else 'it'}"

    def shows(self) -> str:
        """The opening of a sentence about the picture as a picture."""
        return f"{pick(self.rng, ('the', 'this'))} {pick(self.rng, PICTURES)} shows"

    def picture_of(self) -> str:
        """The opening of a noun phrase about the picture as a picture."""
        picture = pick(self.rng, PICTURES)
        return f"{article(picture)} {picture} of"
