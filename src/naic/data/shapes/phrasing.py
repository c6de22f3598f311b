"""Five captions for a scene, each of another build, all of them true.

People describe one image in many ways. Here the ways are templates: which shape comes first,
which adjectives are left out, and which synonym is taken is drawn at random for each caption.
"""

from collections.abc import Callable

from naic.data.shapes.scenes import Scene, pick, relation
from naic.data.shapes.voice import Group, Voice
from naic.data.shapes.words import INVERSES, NUMBER_WORDS, article

CAPTIONS = 5
MOST_WORDS = 15  # with the period a caption fits N = 16 agents


def captions(scene: Scene) -> tuple[str, ...]:
    """Five different true captions of a scene, at most 15 words each, with a final period."""
    return tuple(text for _, text in phrasings(scene))


def phrasings(scene: Scene) -> tuple[tuple[str, str], ...]:
    """The five captions, each with the name of the template that built it; no name comes twice."""
    voice = Voice(scene)
    templates = (_ABOUT_ONE, _ABOUT_TWO, _ABOUT_THREE)[len(voice.groups) - 1]
    said: dict[str, str] = {}
    while len(said) < CAPTIONS:
        name = pick(voice.rng, [name for name in templates if name not in said])
        words = templates[name](voice)
        if len(words.split()) <= MOST_WORDS:  # else another draw, perhaps with fewer adjectives
            said[name] = f"{words[0].upper()}{words[1:]}."
    return tuple(said.items())


def _be(many: bool) -> str:
    return "are" if many else "is"


def _stand(voice: Voice, many: bool) -> str:
    return pick(voice.rng, (_be(many), _be(many), "sit" if many else "sits"))


# One group: a shape alone, or several of the same.


def _there(voice: Voice) -> str:
    group = voice.groups[0]
    return f"there {_be(group.many)} {voice.a(group)}{voice.maybe_on_background()}"


def _split_adjectives(voice: Voice, group: Group) -> tuple[str, str]:
    """A name that leaves something to be said, and what is left."""
    size, colour = pick(voice.rng, ((False, False), (False, False), (True, False), (False, True)))
    return voice.name(group, size, colour), " and ".join(
        voice.adjectives(group, not size, not colour)
    )


def _predicate(voice: Voice) -> str:
    group = voice.groups[0]
    name, rest = _split_adjectives(voice, group)
    return f"{voice.known(group, name)} {_be(group.many)} {rest}"


def _that_is(voice: Voice) -> str:
    group = voice.groups[0]
    name, rest = _split_adjectives(voice, group)
    count = NUMBER_WORDS[len(group.members)] if group.many else article(name)
    return f"{count} {name} that {_be(group.many)} {rest}{voice.maybe_on_background()}"


def _stands_on(voice: Voice) -> str:
    group = voice.groups[0]
    return f"{voice.a(group)} {_stand(voice, group.many)} {voice.on_background()}"


# Two groups, one of which stands in some relation to the other.


def _two(voice: Voice) -> str:
    """Noun, relation, noun, in either order: the core of several templates."""
    a, b = voice.shuffled()
    return f"{voice.a(a)} {voice.phrase(voice.relation(a, b))} {voice.a(b)}"


def _there_related(voice: Voice) -> str:
    a, b = voice.shuffled()
    joined = f"{voice.a(a)} {voice.phrase(voice.relation(a, b))} {voice.a(b)}"
    return f"there {_be(a.many)} {joined}"


def _is_related(voice: Voice) -> str:
    a, b = voice.shuffled()
    name = voice.relation(a, b)
    verb = _be(a.many) if name == "around" else _stand(voice, a.many)  # nothing sits around
    return f"{voice.a(a)} {verb} {voice.phrase_for_verb(name)} {voice.a(b)}"


def _the_is_related(voice: Voice) -> str:
    a, b = voice.shuffled()
    where = voice.phrase_for_verb(voice.relation(a, b))
    return f"{voice.the(a)} {_be(a.many)} {where} {voice.the(b)}"


def _with_it(voice: Voice) -> str:
    # Two of the same come first where there are two, or "them" and "their" would be rare words.
    a, b = sorted(voice.shuffled(), key=lambda group: not group.many)
    where = voice.phrase_for_pronoun(voice.relation(b, a), a)
    return f"{voice.a(a)} with {voice.a(b)} {where}{voice.maybe_on_background()}"


def _fronted(voice: Voice) -> str:
    a, b = voice.shuffled()
    where = voice.phrase_for_verb(voice.relation(a, b))
    return f"{where} {voice.a(b)} {_be(a.many)} {voice.a(a)}"


# Two or three groups, listed.


def _list(voice: Voice) -> str:
    names = [voice.listed(group) for group in voice.shuffled()]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _counted(voice: Voice) -> str:
    objects = voice.scene.objects
    same = len({o.colour for o in objects}) == 1
    colour = f"{objects[0].colour} " if same and voice.chance(0.5) else ""
    return f"{NUMBER_WORDS[len(objects)]} {colour}shapes: {_list(voice)}"


# Three groups in a row or a column.


def _between(voice: Voice) -> str:
    first, middle, last = voice.row()
    return f"{voice.a(middle)} between {voice.a(first)} and {voice.a(last)}"


def _is_between(voice: Voice) -> str:
    first, middle, last = voice.row()
    return f"{voice.the(middle)} is between {voice.the(first)} and {voice.the(last)}"


def _fronted_between(voice: Voice) -> str:
    first, middle, last = voice.row()
    return f"between {voice.a(first)} and {voice.a(last)} is {voice.a(middle)}"


def _one_and_two(voice: Voice) -> str:
    """An end of the row to both of the others, so that either way of reading it is true."""
    first, middle, last = voice.row()
    name = relation(first.look, middle.look)
    assert name is not None  # make_scene accepts no other layout
    others = f"{voice.a(middle)} and {voice.a(last)}"
    if voice.chance(0.5):
        return f"{voice.a(first)} {voice.phrase(name)} {others}"
    return f"{others} {voice.phrase(INVERSES[name])} {voice.a(first)}"


def _with_both(voice: Voice) -> str:
    first, middle, last = voice.row()
    name = relation(first.look, middle.look)
    assert name is not None  # make_scene accepts no other layout
    one = f"{voice.a(first)} {voice.phrase_for_pronoun(name, middle)}"
    other = f"{voice.a(last)} {voice.phrase_for_pronoun(INVERSES[name], middle)}"
    return f"{voice.a(middle)} with {one} and {other}"


Template = Callable[[Voice], str]
_ABOUT_ONE: dict[str, Template] = {
    "plain": lambda v: f"{v.some(v.groups[0])} {v.on_background()}",
    "there": _there,
    "shown": lambda v: f"{v.shows()} {v.some(v.groups[0])}{v.maybe_on_background()}",
    "pictured": lambda v: f"{v.picture_of()} {v.some(v.groups[0])}{v.maybe_on_background()}",
    "predicate": _predicate,
    "that_is": _that_is,
    "background_with": lambda v: (
        f"a {v.scene.background} background with {v.some(v.groups[0])} on it"
    ),
    "stands_on": _stands_on,
}
_ABOUT_TWO: dict[str, Template] = {
    "related": lambda v: f"{_two(v)}{v.maybe_on_background()}",
    "there_related": _there_related,
    "shown_related": lambda v: f"{v.shows()} {_two(v)}",
    "pictured_related": lambda v: f"{v.picture_of()} {_two(v)}",
    "is_related": _is_related,
    "the_is_related": _the_is_related,
    "with_it": _with_it,
    "fronted": _fronted,
    "listed": lambda v: f"{_list(v)}{v.maybe_on_background()}",
    "counted": _counted,
}
_ABOUT_THREE: dict[str, Template] = {
    "between": _between,
    "there_between": lambda v: f"there is {_between(v)}",
    "pictured_between": lambda v: f"{v.picture_of()} {_between(v)}",
    "is_between": _is_between,
    "fronted_between": _fronted_between,
    "listed": lambda v: f"{_list(v)}{v.maybe_on_background()}",
    "shown_list": lambda v: f"{v.shows()} {_list(v)}",
    "counted": _counted,
    "one_and_two": _one_and_two,
    "with_both": _with_both,
}
