"""Which captions are better, and what is said of a difference."""

import pytest

from naic.tasks.finetune.judge import Gain, compare, in_words, judge

PEOPLE = {
    str(i): (f"a {thing} on a {place}",)
    for i, (thing, place) in enumerate(
        [("dog", "bed"), ("cat", "mat"), ("bird", "branch"), ("car", "street"), ("boat", "lake")]
        * 4
    )
}
RIGHT = {id_: own[0] for id_, own in PEOPLE.items()}
WRONG = dict.fromkeys(PEOPLE, "two women with umbrellas in a")


def test_captions_are_scored_against_those_of_people() -> None:
    assert judge(RIGHT, PEOPLE).cider > 5
    assert judge(WRONG, PEOPLE).cider < 0.5
    assert judge(WRONG, PEOPLE).bad_endings == 1
    assert judge(RIGHT | {"other": "a tree"}, PEOPLE).captions == RIGHT


def test_a_difference_has_an_interval_around_it() -> None:
    some = {id_: (RIGHT if int(id_) % 3 else WRONG)[id_] for id_ in PEOPLE}
    gain = compare(some, WRONG, PEOPLE)
    assert gain.low < gain.value < gain.high
    assert gain.low > 0
    same = compare(RIGHT, RIGHT, PEOPLE)
    assert (same.value, same.low, same.high) == (0, 0, 0)


@pytest.mark.parametrize(
    ("gain", "photos", "said"),
    [
        (Gain(0.15, 0.12, 0.19), 60, "better by 12 to 19 CIDEr on 60 photos kept aside"),
        (
            Gain(0.15, 0.12, 0.19),
            20,
            "better by 12 to 19 CIDEr on 20 photos kept aside; with so few photos the interval is "
            "a rough one",
        ),
        (
            Gain(0.031, -0.02, 0.08),
            600,
            "better by 3.1 CIDEr on 600 photos kept aside, which may be chance (-2 to +8)",
        ),
        (Gain(0.0, -0.02, 0.08), 60, "no better on 60 photos kept aside (+0.0 CIDEr, -2 to +8)"),
    ],
)
def test_it_is_said_in_plain_words(gain: Gain, photos: int, said: str) -> None:
    assert in_words(gain, photos) == said
