"""What of a fine-tuning is kept, and what is said of it."""

import pytest

from naic.tasks.finetune.choose import Said, choose, new_words_said, verdict
from naic.tasks.finetune.judge import Gain, Judged, compare, judge
from naic.tasks.finetune.report import Kept

PLACES = ("road", "hill", "path") * 4
PEOPLE = {str(i): (f"my velo on a {place}",) for i, place in enumerate(PLACES)}
BEFORE = {id_: text.replace("my velo", "a bike") for id_, (text,) in PEOPLE.items()}
WORSE = dict.fromkeys(PEOPLE, "a velo")


def kept(weights: dict[str, str], new_words: tuple[str, ...]) -> Kept:
    start = judge(BEFORE, PEOPLE)
    return choose(
        [("as it was", start), ("style", start), ("weights", judge(weights, PEOPLE))],
        PEOPLE,
        new_words,
    )[0]


def test_weights_have_to_be_better_unless_they_say_new_words() -> None:
    right = {id_: own[0] for id_, own in PEOPLE.items()}
    assert kept(right, ()) == "weights"
    assert kept(BEFORE, ()) == "style"  # as good as the model as it was: it costs nothing
    # What says none of the new words is not excused either.
    assert kept(dict.fromkeys(PEOPLE, "two cups of tea"), ("velo",)) == "style"


def test_new_words_do_not_excuse_what_is_clearly_worse() -> None:
    assert judge(WORSE, PEOPLE).cider < judge(BEFORE, PEOPLE).cider
    assert new_words_said(WORSE, PEOPLE, ("velo",)) == Said(12, 12)
    assert kept(WORSE, ("velo",)) == "style"


def test_new_words_make_up_for_chance() -> None:
    """As often a little worse as a little better: nobody could tell which is."""
    before = {id_: f"a bike on a {place}" for id_, place in zip(PEOPLE, PLACES, strict=True)}
    after = {
        id_: f"my velo on a {place}" if int(id_) % 2 else "a velo"
        for id_, place in zip(PEOPLE, PLACES, strict=True)
    }
    before["1"] = "my velo on a hill"  # by which the model as it was is the better one
    after["1"], after["3"], after["5"] = "velo", "velo", "velo"
    start, tuned = judge(before, PEOPLE), judge(after, PEOPLE)
    gain = compare(tuned.captions, start.captions, PEOPLE)
    assert gain.value < 0 < gain.high
    choices: list[tuple[Kept, Judged]] = [("as it was", start), ("weights", tuned)]
    assert choose(choices, PEOPLE, ("velo",))[0] == "weights"
    assert choose(choices, PEOPLE, ())[0] == "as it was"


@pytest.mark.parametrize(
    ("said", "learnt"),
    [(Said(3, 4), True), (Said(1, 4), True), (Said(1, 5), False), (Said(0, 0), False)],
)
def test_a_word_that_is_hardly_said_was_not_learnt(said: Said, learnt: bool) -> None:
    assert said.often is learnt


def test_what_is_said_of_it() -> None:
    gain = Gain(-0.02, -0.1, 0.05)
    told = verdict("weights", gain, 60, Said(5, 8))
    assert told.endswith("(-2.0 CIDEr, -10 to +5); new words are said of 5 of 8 that have them")
    assert verdict("weights", Gain(0.1, 0.05, 0.2), 60, Said(0, 0)).endswith("60 photos kept aside")
    assert "in your style (+10.0 CIDEr, +5 to +20, on 60" in verdict(
        "style", Gain(0.1, 0.05, 0.2), 60, Said(0, 0)
    )
