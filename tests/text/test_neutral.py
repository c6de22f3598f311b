import itertools
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.text.neutral import DESCRIBING, PEOPLE, PRONOUNS, TABLE, neutral
from naic.text.vocabulary import spell

GUIDE = (Path(__file__).parents[2] / "docs" / "caption.md").read_text(encoding="utf-8")


def as_text(sentence: str) -> str:
    return spell([word for piece in neutral(sentence.split()) for word in piece.words])


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("a woman holding her phone", "a person holding their phone"),
        ("a man and a woman riding bikes", "two people riding bikes"),
        ("a man and woman", "two people"),
        ("man and woman on a bench", "two people on a bench"),
        ("with a woman and a man", "with two people"),
        ("a young man and woman in suits", "two young people in suits"),
        ("an older man and a woman", "an older person and a person"),
        ("two men and a woman", "three people"),
        ("ten men and eight women", "people"),
        ("a group of men and women", "a group of people"),
        ("several men and a woman", "several people"),
        ("the man and the woman", "the two people"),
        ("one man or one woman", "one person"),
        ("a person and a woman", "two people"),
        ("a person and a person", "a person and a person"),
        ("a boy and a girl", "two children"),
        ("a man and a boy", "a person and a child"),
        ("a dog and a man", "a dog and a person"),
        ("a man and", "a person and"),
        ("a bride and groom cutting a cake", "two newlyweds cutting a cake"),
        ("a policeman on a horse", "an officer on a horse"),
        ("an elderly lady", "an elderly person"),
        ("a female tennis player", "a tennis player"),
        ("an elderly female athlete", "an elderly athlete"),
        ("a female athlete", "an athlete"),
        ("a male riding a wave", "a person riding a wave"),
        ("a male and a female", "two people"),
        ("a group of male and female tennis players", "a group of tennis players"),
        ("a women 's restroom", "a restroom"),
        ("a woman 's hand", "a person's hand"),
        ("as he rides a wave", "as they ride a wave"),
        ("as she watches", "as they watch"),
        ("as he carries it", "as they carry it"),
        ("while she is sitting", "while they are sitting"),
        ("he 's there", "they're there"),
        ("a man looking at her", "a person looking at them"),
        ("a dog next to her on a beach", "a dog next to them on a beach"),
        ("a man taking a picture of himself", "a person taking a picture of themselves"),
        ("a baby girl", "a baby"),
        ("lady woman in red", "person in red"),
        ("a man made lake", "a man made lake"),
        ("a cowboy on a queen size bed", "a cowboy on a queen size bed"),
        ("", ""),
    ],
)
def test_nobody_has_a_gender_and_the_grammar_follows(said: str, expected: str) -> None:
    assert as_text(said) == expected


WORDS = [
    *TABLE,
    *("a", "an", "the", "two", "three", "and", "or", "young", "old", "dog", "riding", "rides"),
    *("on", "in", "'s", "is", "made", "baby", "person", "people", "child", "tennis", "player"),
]


@given(st.lists(st.sampled_from(WORDS), max_size=9))
def test_whatever_is_said(said: list[str]) -> None:
    pieces = neutral(said)
    # They stand for all words, in order, and are not more of them.
    assert [place for own in pieces for place in range(own.begin, own.end)] == [*range(len(said))]
    assert all(own.words for own in pieces)
    assert sum(len(own.words) for own in pieces) <= len(said)
    words = [word for own in pieces for word in own.words]
    made = [after == "made" for after in (*words[1:], "")]
    for word, kept in zip(words, made[: len(words)], strict=True):
        assert word not in TABLE or (word == "man" and kept)
    # Who says nothing of gender is left alone.
    if TABLE.keys().isdisjoint(said):
        assert words == said


def test_people_people_are_people() -> None:
    @given(st.lists(st.sampled_from([*TABLE, "people", "person"]), min_size=1, max_size=6))
    def check(said: list[str]) -> None:
        words = [word for own in neutral(said) for word in own.words]
        if words != said:
            pairs = [own for own in itertools.pairwise(words) if own[0] == own[1]]
            kept = [own for own in itertools.pairwise(said) if own[0] == own[1]]
            assert len(pairs) <= len(kept)

    check()


def test_the_table_of_the_guide_is_that_of_the_code() -> None:
    shown = {
        (said, word)
        for said, words in re.findall(r"^\| ([a-z, ]+) \| ([a-z, ]+) \|$", GUIDE, re.MULTILINE)
        for word in words.split(", ")
        if said not in ("said", "to")
    }
    people = {(", ".join(pair), word) for pair, words in PEOPLE.items() for word in words}
    others = {(said, word) for word, said in (DESCRIBING | PRONOUNS).items()}
    assert shown == people | others
