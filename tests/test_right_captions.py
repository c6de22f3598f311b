"""benchmarks/right_captions.py: what is called a right caption."""

import pytest
from benchmarks.right_captions import Judge, count_nouns, one_against_others

from naic.metrics.cider import DocumentFrequencies
from naic.metrics.meteor.data import Lexicon

SENTENCES = [
    "a red bicycle on the road",
    "the red bicycle in the road",
    "a man standing in the road",
    "a man sitting on a large fire hydrant",
    "a red fire hydrant on the road",
    "a group of dogs playing tennis in the park",
    "the group of dogs standing on a tennis court",
    "two dogs sitting with a man",
    "a game of tennis in the park",
    "a large park with a hydrant",
    "the dogs in the park",
    *(4 * ["a man on the tennis court"]),
]
NOUNS = {"bicycle", "road", "man", "hydrant", "dogs", "park", "tennis", "court"}
LEXICON = Lexicon(frozenset(), {}, {}, {"bicycle": "1", "bike": "1 2", "man": "3"})


def test_nouns_are_told_by_what_stands_around_them() -> None:
    found = count_nouns(10 * SENTENCES)
    assert found >= NOUNS
    verbs, adjectives, frames = {"standing", "sitting", "playing"}, {"red", "large"}, {"group"}
    assert found.isdisjoint(verbs | adjectives | frames | {"a", "on", "the", "two"})
    assert "fire" not in found  # it never ends a phrase
    assert count_nouns(SENTENCES).isdisjoint({"bicycle"})  # too rare to tell


@pytest.mark.parametrize(
    ("caption", "people", "wanted"),
    [
        ("a bicycle on the road", ["a bike on a road"], []),
        ("a bicycle on the road", ["a horse on a road"], ["bicycle"]),
        ("a bicycle", ["two bicycles"], []),
        ("bicycles", ["a bicycle"], []),
        ("a man and a bicycle", ["a person", "somebody rides a bike"], ["man"]),
        ("a person", ["a man"], []),
        ("a person", ["a bike"], ["person"]),
        ("riding red", ["a bike"], []),
    ],
)
def test_every_noun_is_to_be_mentioned_by_somebody(
    caption: str, people: list[str], wanted: list[str]
) -> None:
    nouns = frozenset({"bicycle", "bicycles", "road", "man", "person"})
    judge = Judge(0.0, nouns, DocumentFrequencies.count([["a"]]), LEXICON)
    assert judge.unmentioned(caption, people) == wanted


def test_a_right_caption_also_says_enough_of_what_people_say() -> None:
    images = [[sentence, f"{sentence} there"] for sentence in SENTENCES]
    judge = Judge(0.5, frozenset(NOUNS), DocumentFrequencies.count(images), LEXICON)
    said = ["two dogs sitting with a man", "a dogs dogs dogs", "two dogs sitting with a bicycle"]
    people = [images[7]] * 3
    assert judge.right(said, people).tolist() == [True, False, False]


def test_one_person_against_the_others() -> None:
    images = {str(n): [f"{n} {k}" for k in range(4)] for n in range(20)} | {"alone": ["x"]}
    captions, others = one_against_others(images, 8)
    assert len(captions) == len(others) == 8
    for caption, rest in zip(captions, others, strict=True):
        assert len(rest) == 3
        assert {*rest, caption} == set(images[caption.split()[0]])
    assert one_against_others(images, 8) == (captions, others)
    assert len(one_against_others(images, 100)[0]) == 20
    assert len({caption.split()[1] for caption in one_against_others(images, 20)[0]}) > 1
