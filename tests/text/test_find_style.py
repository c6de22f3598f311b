"""Styles are found again from made-up captions, and nothing is found where there is none."""

import json
import lzma
import random
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.text.find_style import LEAST, find_style, take_off
from naic.text.style import CASES, Style
from naic.text.tokeniser import tokenise

WHO = ("man", "woman", "dog", "cat", "horse", "child", "boy", "girl", "person", "surfer")
DOES = (
    *("sitting on", "standing next to", "is holding", "riding", "looking at", "is sitting on"),
    *("walking with", "is eating"),
)
WHAT = (
    *("couch", "table", "bench", "surfboard", "frisbee", "street", "bed", "plate of food"),
    *("beach", "tree"),
)
WHERE = (" in the background", " on the grass", " with a frisbee", " near the water", "", "")
BARE = ("a", "the", "is")


def sentence(chance: random.Random) -> str:
    how = chance.choice(("", "", "white ", "young "))
    whom = f"a {how}{chance.choice(WHO)} {chance.choice(DOES)} a {chance.choice(WHAT)}"
    return whom + chance.choice(WHERE)


def corrected(chance: random.Random, said: str) -> str:
    """Another noun, or another sentence."""
    if chance.random() < 0.5:
        return sentence(chance)
    other = chance.choice(("rabbit", "kitten", "lady", "old man"))
    return " ".join(other if word in WHO else word for word in said.split())


def pairs(
    style: Style, count: int = 40, share: float = 0.3, seed: int = 0
) -> tuple[list[str], list[str]]:
    """What a model says, and people's captions in a style, of which a share says something else."""
    chance = random.Random(seed)
    said = [sentence(chance) for _ in range(count)]
    meant = [corrected(chance, own) if chance.random() < share else own for own in said]
    return said, [style.text(tokenise(own)) for own in meant]


def same(found: Style | None, style: Style) -> bool:
    """Whether both do the same to sentences that were not seen."""
    chance = random.Random(1000)
    unseen = [tokenise(sentence(chance)) for _ in range(50)]
    return all((found or Style()).text(own) == style.text(own) for own in unseen)


STYLES = (
    Style(),
    Style(before=("photo", "of")),
    Style(before=("a", "photo", "of")),
    Style(before=("there", "is"), case="sentence", end="."),
    Style(before=("TOK", ","), after=(",", "stock", "photo")),
    Style(after=("in", "my", "house")),
    Style(without=BARE),
    Style(case="upper"),
    Style(case="sentence", end="."),
    Style(case="title"),
    Style(case="words", end="!"),
    Style(before=("photo", ":"), without=BARE, case="upper", end="!"),
    Style(instead=(("a", ("the",)), ("an", ("the",)))),
)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("style", STYLES, ids=Style.describe)
def test_a_style_is_found_again(style: Style, seed: int) -> None:
    said, wanted = pairs(style, seed=seed)
    found = find_style(said, wanted)
    assert same(found.style, style)
    as_it_is = sum(style.text(tokenise(a)) == b for a, b in zip(said, wanted, strict=True))
    assert found.explained == as_it_is / 40
    assert (found.style is None) == (style == Style())


@settings(max_examples=8)
@given(
    before=st.sampled_from([(), ("photo", "of"), ("IMG", ":"), ("i", "see")]),
    after=st.sampled_from([(), (",", "indoors"), ("#cats",)]),
    without=st.sampled_from([(), BARE]),
    case=st.sampled_from(CASES),
    end=st.sampled_from(["", ".", "!", "..."]),
    seed=st.integers(0, 100),
)
def test_what_is_found_of_mixed_styles_is_right_of_other_sentences(
    before: tuple[str, ...],
    after: tuple[str, ...],
    without: tuple[str, ...],
    case: str,
    end: str,
    seed: int,
) -> None:
    style = Style(before, after, without, (), case, end)  # type: ignore[arg-type]
    assert same(find_style(*pairs(style, 48, seed=seed)).style, style)


def test_a_fixed_text_is_told_as_options_take_it() -> None:
    for style, expected in (
        (Style(before=("photo", "of")), ("photo of ", "")),
        (Style(before=("photo", "of"), case="sentence", end="."), ("Photo of ", ".")),
        (Style(before=("TOK", ","), after=(",", "stock")), ("TOK, ", ", stock")),
        (Style(case="sentence"), None),
        (Style(before=("photo", "of"), case="upper"), None),
        (Style(before=("photo", "of"), without=BARE), None),
        (Style(), None),
    ):
        said, wanted = pairs(style, share=0.0)
        found = find_style(said, wanted)
        assert found.around == expected
        assert found.explained == 1.0
        if expected is not None:
            assert wanted[0] == f"{expected[0]}{said[0]}{expected[1]}"


def test_captions_that_say_something_else_give_letters_and_marks_alone() -> None:
    chance = random.Random(5)
    said = [sentence(chance) for _ in range(60)]
    free = [
        f"{chance.choice(('A', 'The', 'Two'))} {chance.choice(('red', 'old', 'small'))} "
        f"{chance.choice(('bus', 'train', 'kite', 'bird', 'cup'))} "
        f"{chance.choice(('waits', 'flies', 'is parked', 'lies there'))} "
        f"{chance.choice(('today', 'in the rain', 'at night', 'by a wall'))}."
        for _ in said
    ]
    found = find_style(said, free)
    assert found.style == Style(case="sentence", end=".")
    assert found.explained == 0.0
    assert find_style(said, [line[:-1].lower() for line in free]).style is None


def test_a_word_that_is_never_right_is_no_rule() -> None:
    """Neither what people never see, nor what they call by another name."""
    said = [f"a {who} with a frisbee sitting on a couch" for who in WHO * 4]
    wanted = [f"a {who} sitting on a couch" for who in WHO * 4]
    assert find_style(said, wanted).style is None
    bare = find_style(said, [line.replace("a ", "") for line in wanted]).style
    assert bare is not None
    assert "frisbee" not in bare.without
    assert find_style(said, [line.replace("couch", "sofa") for line in said]).style is None


def test_an_adjective_that_people_never_write_is_left_out() -> None:
    said, wanted = pairs(Style(without=("white",)), 120)
    assert find_style(said, wanted).style == Style(without=("white",))


def test_a_word_that_is_spelled_in_another_way_is_one() -> None:
    said = [f"a {who} in a gray color on a couch" for who in WHO * 4]
    wanted = [line.replace("gray color", "grey colour") for line in said]
    found = find_style(said, wanted)
    assert found.style == Style(instead=(("color", ("colour",)), ("gray", ("grey",))))
    assert found.explained == 1.0
    again = find_style([*said, "a grey cat"], [*wanted, "a grey cat"])  # the model knows grey
    assert again.style == Style(instead=(("color", ("colour",)),))


@pytest.mark.parametrize(
    "style", [Style(before=("photo", "of")), Style(without=BARE), Style(case="upper", end="!")]
)
def test_few_captions_give_no_rule(style: Style) -> None:
    said, wanted = pairs(style, LEAST - 1, share=0.0)
    assert find_style(said, wanted).style is None
    assert find_style([], []) == find_style(["a dog"], [""])
    said, wanted = pairs(style)
    half = [a if place % 2 else b for place, (a, b) in enumerate(zip(said, wanted, strict=True))]
    assert find_style(said, half).style is None


def test_typing_errors_do_not_hide_a_style() -> None:
    style = Style(before=("photo", "of"), without=BARE, end=".")
    said, wanted = pairs(style, 60)
    for place in range(0, 60, 15):
        wanted[place] = wanted[place].replace("photo", "phtoo")
        wanted[place + 1] = wanted[place + 1].replace("photo of", "photo of a")
        wanted[place + 2] = wanted[place + 2].replace(".", "")
    assert same(find_style(said, wanted).style, style)


def test_several_captions_of_a_photo_count_as_one() -> None:
    style = Style(before=("photo", "of"))
    said, wanted = pairs(style, 40)
    free = [[own, "photo of something else entirely", ""] for own in wanted]
    assert find_style(said, free).style == style
    both = [[own, f"a {own}"] for own in wanted]
    assert find_style(said, both).style is None
    one = [[own] * 50 if place == 0 else [own] for place, own in enumerate(wanted[:LEAST])]
    assert find_style(said[:LEAST], one).style == style
    assert find_style(said[: LEAST - 1], one[: LEAST - 1]).style is None


@settings(max_examples=15)
@given(st.lists(st.tuples(st.text(max_size=20), st.text(max_size=20)), max_size=12), st.text())
def test_nothing_that_people_write_is_too_much(own: list[tuple[str, str]], more: str) -> None:
    said, wanted = [a for a, _ in own] * 2, [f"{more}{b}" for _, b in own] * 2
    found = find_style(said, wanted)
    assert 0 <= found.explained <= 1
    for line in wanted:
        take_off(found.style or Style(), line)


def test_a_very_long_caption_is_looked_at_in_time() -> None:
    said, wanted = pairs(Style(before=("photo", "of")), share=0.0)
    wanted[3] = "photo of " + "." * 100_000 + "so " * 100_000
    assert find_style(said, wanted).style == Style(before=("photo", "of"))


def test_what_is_fixed_is_taken_off() -> None:
    style = Style(("Photo", ":"), (",", "indoors"), ("a",), (), "sentence", ".")
    assert take_off(style, "Photo: Dog on couch, indoors.") == "Dog on couch"
    assert take_off(style, " photo: dog,  INDOORS ") == "dog"
    assert take_off(style, "Dog, on a couch.") == "Dog, on a couch"
    assert take_off(style, "photo:") == ""
    assert take_off(style, "A dog, indoors!") == "A dog"
    assert take_off(replace(style, end=""), "a dog.") == "a dog."
    assert take_off(Style(), "a dog.") == "a dog."


def misspelled(chance: random.Random, text: str) -> str:
    """With two letters changed in places in three words of a hundred."""
    words = text.split(" ")
    for place, word in enumerate(words):
        if len(word) > 4 and chance.random() < 0.03:
            at = chance.randrange(1, len(word) - 2)
            words[place] = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    return " ".join(words)


@pytest.fixture(scope="module")
def written(coco: Path) -> list[list[str]]:
    """Of each of many photos what people wrote."""
    with lzma.open(coco / "dataset_coco.json.xz", "rt", encoding="utf-8") as file:
        photos = json.load(file)["images"][20_000:40_000]
    return [[sentence["raw"] for sentence in photo["sentences"]] for photo in photos]


@pytest.mark.slow
@pytest.mark.parametrize("style", STYLES, ids=Style.describe)
def test_styles_are_found_in_captions_of_people(style: Style, written: list[list[str]]) -> None:
    """One person's caption stands for what a model says; of 30 % another's is the right one."""
    chance, right = random.Random(1), 0
    for _ in range(15):
        said, wanted = [], []
        for own, other, *_ in chance.sample(written, 48):
            said.append(own)
            meant = style.text(tokenise(other if chance.random() < 0.3 else own))
            wanted.append(misspelled(chance, meant))
        found = find_style(said, wanted).style or Style()
        unseen = [tokenise(lines[0]) for lines in chance.sample(written, 200)]
        right += sum(found.text(own) == style.text(own) for own in unseen)
    print(f"{style.describe()}: {right / 3000:.1%}")
    assert right >= 0.97 * 3000


@pytest.mark.slow
def test_free_captions_of_people_have_no_style(written: list[list[str]]) -> None:
    chance, kinds = random.Random(1), Counter[str]()
    for _ in range(100):
        photos = chance.sample(written, 60)
        style = find_style([own for own, *_ in photos], [other for _, other, *_ in photos]).style
        kinds[str(style and style.describe())] += 1
    print(kinds)
    assert kinds.keys() <= {"None", "with a capital", 'with a capital, "." last'}
    assert kinds["None"] > 75
