import itertools
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.metrics.score import Habits, habits
from naic.text.vocabulary import BAD_ENDINGS

ROOT = Path(__file__).parent.parent.parent
RUN = json.loads((ROOT / "docs/results/endings.json").read_text(encoding="utf-8"))


def test_each_habit() -> None:
    sentences = ["a girl girl riding a", "a dog", "the big big big dog with", ""]
    assert habits(sentences) == Habits(
        captions=4, repeats=0.5, bad_endings=0.5, vocabulary=7, mean_length=13 / 4, empty=1
    )


def test_a_word_that_comes_back_later_is_no_repeat() -> None:
    assert habits(["a man and a man"]).repeats == 0
    assert habits(["man man"]).repeats == 1


@pytest.mark.parametrize("word", ["a", "the", "with", "of", "and", "in", "is", "to"])
def test_the_endings_everybody_complains_about_are_listed(word: str) -> None:
    assert habits([f"a dog on a sofa {word}"]).bad_endings == 1


@pytest.mark.parametrize("word", ["outside", "up", "down", "her", "sofa"])
def test_words_that_people_do_end_on_are_not(word: str) -> None:
    assert habits([f"a dog {word}"]).bad_endings == 0


@given(st.lists(st.lists(st.sampled_from(["a", "dog", "of", "big"])), min_size=1))
def test_shares_are_shares(captions: list[list[str]]) -> None:
    found = habits([" ".join(words) for words in captions])
    count = len(captions)
    assert found.empty == captions.count([])
    assert found.repeats * count == pytest.approx(
        sum(any(a == b for a, b in itertools.pairwise(c)) for c in captions)
    )
    assert found.bad_endings * count == pytest.approx(
        sum(c != [] and c[-1] in ("a", "of") for c in captions)
    )
    assert found.mean_length * count == pytest.approx(sum(map(len, captions)))


def test_the_list_is_what_the_calibration_chose() -> None:
    assert list(BAD_ENDINGS) == sorted(set(BAD_ENDINGS)) == RUN["chosen"]
    for word, row in RUN["words"].items():
        assert row["uses"] >= RUN["least_uses"]
        assert (row["last"] / row["uses"] < RUN["most_last"]) == (word in BAD_ENDINGS)
    assert all(found["bad_endings"] < 0.006 for found in RUN["humans"].values())
