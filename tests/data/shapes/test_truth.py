import re
from collections.abc import Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from naic.data.shapes.phrasing import captions
from naic.data.shapes.scenes import SceneObject, facts, make_scene
from naic.data.shapes.truth import check
from naic.data.shapes.words import (
    BACKGROUNDS,
    COLOURS,
    RELATIONS,
    SHAPE_OF,
    SHAPES,
    SIZE_OF,
    SIZES,
    article,
    split_words,
)
from naic.errors import DataError

COLUMN = {  # a large red circle, under it a small blue square, under that a small green star
    "background": "white",
    "objects": [
        {"shape": "circle", "colour": "red", "size": "large"},
        {"shape": "square", "colour": "blue", "size": "small"},
        {"shape": "star", "colour": "green", "size": "small"},
    ],
    "relations": [[0, "above", 1], [0, "above", 2], [1, "above", 2]],
}
ROW = {**COLUMN, "relations": [[0, "left of", 1], [0, "left of", 2], [1, "left of", 2]]}
TWINS = {  # two small red stars above a large red star
    "background": "black",
    "objects": [
        {"shape": "star", "colour": "red", "size": "small"},
        {"shape": "star", "colour": "red", "size": "small"},
        {"shape": "star", "colour": "red", "size": "large"},
    ],
    "relations": [[0, "above", 2], [1, "above", 2], [0, "left of", 1]],
}


@pytest.mark.parametrize(
    "caption",
    [
        "a circle",
        "A big red circle above a small blue square.",
        "a blue square beneath a circle on a white background",
        "a little square between a star and a circle",
        "two small shapes below a large shape",
        "three shapes a star a square and a circle",
        "a circle above a square and a star",
        "the circle is red and big",
        "a blue square with a star under it and a circle over it",
        "below a circle are a blue square and a green star",
        "there is a star",
    ],
)
def test_true_of_the_column(caption: str) -> None:
    verdict = check(caption, COLUMN)
    assert verdict.ok, verdict.reason


@pytest.mark.parametrize(
    ("caption", "false_claims"),
    [
        ("a blue circle", ["a blue circle"]),
        ("a heart above a star", ["a heart"]),
        ("a star above a circle", ["a star above a circle"]),
        ("a circle left of a square", ["a circle left of a square"]),
        ("a circle inside a square", ["a circle inside a square"]),
        ("a circle between a square and a star", ["a circle between a square and a star"]),
        ("a small shape", ["a small shape"]),  # there are two
        ("two shapes a circle and a star", ["two shapes"]),  # there are three
        ("three shapes a circle and a star", ["three shapes"]),  # and two are not three
        ("the circle is small", ["the circle: small"]),
        ("a circle on a black background", ["a black background"]),
        ("a circle above a circle", ["a circle"]),
        ("two circles", ["two circles"]),
        ("a pink heart with a star to its left", ["a pink heart", "a star left of a pink heart"]),
    ],
)
def test_false_of_the_column(caption: str, false_claims: list[str]) -> None:
    verdict = check(caption, COLUMN)
    assert not verdict.ok
    assert list(verdict.false_claims) == false_claims
    assert verdict.reason == f"not true: {'; '.join(false_claims)}"
    assert set(false_claims) <= set(verdict.claims)


def test_beside_means_that_nothing_is_between() -> None:
    assert check("a circle beside a square", ROW).ok
    assert check("a star next to a square", ROW).ok
    assert not check("a circle beside a star", ROW).ok
    assert check("a circle to the left of a star", ROW).ok
    assert not check("a circle beside a square", COLUMN).ok


def test_numbers_are_exact() -> None:
    assert check("two small stars above a large star", TWINS).ok
    assert check("three red stars", TWINS).ok
    assert check("a small star next to a small star", TWINS).ok
    assert not check("a small star above a large star", TWINS).ok  # which leaves one out
    assert not check("two red stars", TWINS).ok
    assert not check("a red star", TWINS).ok
    assert check("a pair of small stars", TWINS).ok
    assert check("a group of three stars", TWINS).ok


@pytest.mark.parametrize(
    ("caption", "why"),
    [
        ("", "the caption is empty"),
        (" . ", "the caption is empty"),
        ("a red red circle", "word 3 is 'red' where a shape was expected"),
        ("a red large circle", "word 3 is 'large' where a shape was expected"),
        ("a circle circle above", "word 3 is 'circle' where the end of the caption was expected"),
        ("a circle above", "the caption ends where a shape with its article"),
        ("a circle with a", "the caption ends where a shape was expected"),
        ("a circle with a star", "the caption ends where a place such as"),
        ("a circle and", "the caption ends where a shape with its article"),
        ("a circle a star", "the caption ends where 'and' and another shape was expected"),
        ("a circle and a square and a star", "word 6 is 'and' where the end of the list"),
        ("circle", "word 1 is 'circle' where a shape with its article"),
        ("two circle", "word 2 is 'circle' where a shape in the plural was expected"),
        ("a circles", "word 2 is 'circles' where a shape was expected"),
        ("an red circle", "word 1 is 'an' where 'a' was expected"),
        ("a orange circle", "word 1 is 'a' where 'an' was expected"),
        ("there are a circle", "word 2 is 'are' where a verb in the singular was expected"),
        ("two stars is above a circle", "word 3 is 'is' where a verb in the plural"),
        ("a circle with a star above them", "word 7 is 'them' where 'it' was expected"),
        ("the red circle is red", "word 5 is 'red' where an adjective that says something new"),
        ("the circle is big and large", "word 6 is 'large' where an adjective"),
        ("a circle is containing a star", "word 4 is 'containing' where a place was expected"),
        ("a white background", "the caption ends where 'with' was expected"),
        ("a circle on a red background", "word 5 is 'red' where 'white' or 'grey' or 'black'"),
        ("a circle above a unk", "word 5 is 'unk' where a shape was expected"),
        ("a circle between a star", "the caption ends where 'and' was expected"),
    ],
)
def test_what_is_no_caption_is_refused_with_the_place(caption: str, why: str) -> None:
    verdict = check(caption, COLUMN)
    assert not verdict.ok
    assert verdict.claims == ()
    assert verdict.reason.startswith(why)


@pytest.mark.parametrize(
    "broken",
    [
        {},
        {**COLUMN, "background": None},
        {**COLUMN, "objects": [{"shape": "star"}]},
        {**COLUMN, "relations": [[0, "above"]]},
    ],
)
def test_facts_that_are_none_are_refused(broken: dict[str, object]) -> None:
    with pytest.raises(DataError, match=r"facts of a scene: .* Take them from facts"):
        check("a circle", broken)


def mutations(caption: str, objects: tuple[SceneObject, ...], background: str) -> Iterator[str]:
    """Captions that differ from a true one in a word or a phrase and are false for sure."""
    words = split_words(caption)
    for place, word in enumerate(words):
        news: list[str] = []
        if word in COLOURS:
            news = [c for c in COLOURS if c not in {o.colour for o in objects}][:2]
        elif word in SHAPE_OF:
            absent = [s for s in SHAPES if s not in {o.shape for o in objects}][:2]
            news = absent if word in SHAPES else [SHAPES[s] for s in absent]
        elif word in SIZE_OF:
            news = list(SIZES["small" if SIZE_OF[word] == "large" else "large"])[:2]
        elif word in BACKGROUNDS:
            news = [b for b in BACKGROUNDS if b != background]
        elif word in ("two", "three"):
            news = ["three" if word == "two" else "two"]
        elif word == "pair":
            news = ["group of three"]
        for new in news:
            before = words[:place]
            if before and before[-1] in ("a", "an"):
                before[-1] = article(new)
            yield " ".join([*before, new, *words[place + 1 :]]).replace("three of", "three")
    yield from relation_mutations(" ".join(words))


def relation_mutations(text: str) -> Iterator[str]:
    other = {
        "above": ("below", "left of"),
        "below": ("above", "right of"),
        "left of": ("right of", "above"),
        "right of": ("left of", "inside"),
        "beside": ("above", "below"),
        "inside": ("around", "above"),
        "around": ("inside", "beside"),
    }
    names = {phrase: name for name, phrases in RELATIONS.items() for phrase in phrases}
    longest_first = sorted(names, key=len, reverse=True)
    for found in re.finditer(rf"\b({'|'.join(longest_first)})\b", text):
        for new in other[names[found[0]]]:
            yield text[: found.start()] + RELATIONS[new][0] + text[found.end() :]
    if found_side := re.search(r"to (its|their) (left|right)\b", text):
        flipped = "right" if found_side[2] == "left" else "left"
        yield text[: found_side.start(2)] + flipped + text[found_side.end(2) :]


def test_mutations_of_true_captions_are_found_false() -> None:
    tried, missed, misread = 0, [], []
    for index in range(250):
        scene = make_scene(2, index)
        told = facts(scene)
        for caption in captions(scene):
            for changed in mutations(caption, scene.objects, scene.background):
                tried += 1
                verdict = check(changed, told)
                if verdict.ok:
                    missed.append((caption, changed))
                elif not verdict.false_claims:
                    misread.append((caption, changed, verdict.reason))
    assert tried > 10_000
    assert missed == []
    assert misread == []  # each is refused because it is false, not because it cannot be read


def test_slips_of_a_parallel_decoder_are_no_captions() -> None:
    for index in range(150):
        scene = make_scene(3, index)
        told = facts(scene)
        for caption in captions(scene):
            words = split_words(caption)
            assert not check(" ".join(words[:-1]), told).ok, words[:-1]
            for place, word in enumerate(words):
                twice = " ".join([*words[: place + 1], word, *words[place + 1 :]])
                assert not check(twice, told).ok, twice


@settings(deadline=None)  # a busy machine is no failure
@given(
    st.integers(0, 10**6),
    st.tuples(st.integers(0, 2), st.integers(1, 2)),
    st.sampled_from(["above", "below", "left of", "right of"]),
)
def test_a_relation_is_judged_as_the_coordinates_say(
    index: int, chosen: tuple[int, int], name: str
) -> None:
    things = make_scene(4, index).objects
    first, further = chosen  # another one, wherever there is one
    a, b = (things[number % len(things)] for number in (first, first + further))
    caption = " ".join(
        f"{article(thing.colour)} {thing.colour} {thing.shape} {link}"
        for thing, link in ((a, name), (b, ""))
    )
    like_a = [o for o in things if (o.colour, o.shape) == (a.colour, a.shape)]
    like_b = [o for o in things if (o.colour, o.shape) == (b.colour, b.shape)]
    assume(like_a != like_b)
    exact = len(like_a) == len(like_b) == 1
    across, down = b.x - a.x, b.y - a.y
    clear = max(abs(across), abs(down)) > a.radius + b.radius
    stands = {
        "above": down > abs(across),
        "below": -down > abs(across),
        "left of": across > abs(down),
        "right of": -across > abs(down),
    }
    assert check(caption, facts(make_scene(4, index))).ok == (exact and clear and stands[name])


VOCABULARY = sorted(
    {w for i in range(300) for c in captions(make_scene(0, i)) for w in split_words(c)}
)


@settings(deadline=None)  # a busy machine is no failure
@given(st.one_of(st.text(), st.lists(st.sampled_from(VOCABULARY), max_size=20).map(" ".join)))
def test_any_text_gets_a_verdict(text: str) -> None:
    verdict = check(text, COLUMN)
    assert verdict.ok == (verdict.claims != () and verdict.false_claims == ())
    assert verdict.ok == (verdict.reason == "")
