import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import DataError
from naic.metrics.cider import bleu
from naic.metrics.ngrams import stable_order
from tests.metrics.public import (
    Case,
    assert_agrees,
    assert_same,
    assert_sound,
    cases,
    coco_cases,
    coco_sentences,
    hostile_cases,
)


def test_by_hand() -> None:
    # "the" is right once; 3 words against 2, so nothing is taken off for being short.
    one, two, _, _ = bleu(["the the the"], [["the cat"]])
    assert one.name == "Bleu_1"
    assert one.value == pytest.approx(1 / 3)
    assert two.value == pytest.approx(math.sqrt(1 / 3 * 1e-15 / 2))
    # Both bigrams are right, but 3 words against 6 are too short.
    scores = bleu(["a b c"], [["a b c d e f"]])
    assert scores[1].value == pytest.approx(math.exp(1 - 6 / 3))
    assert [score.name for score in scores] == ["Bleu_1", "Bleu_2", "Bleu_3", "Bleu_4"]


def test_a_count_is_clipped_by_one_reference_not_by_all_together() -> None:
    score = bleu(["a a a"], [["a a x", "a x x"]])[0]
    assert score.value == pytest.approx(2 / 3)


def test_of_two_lengths_as_close_the_shorter_counts() -> None:
    assert bleu(["a b c"], [["a b c d", "a b"]])[0].value == pytest.approx(1.0)


def test_the_set_is_not_the_mean_of_its_images() -> None:
    score = bleu(["a b", "x y z"], [["a b"], ["p q r"]])[0]
    assert score.value == pytest.approx(2 / 5)
    assert score.per_image == pytest.approx([1.0, 0.0])


def test_nothing_said_is_worth_nothing() -> None:
    for references in (["a"], [""], ["", "a b"]):
        assert [score.value for score in bleu([""], [references])] == [0.0] * 4


def test_hostile_sets_agree_with_the_public_code() -> None:
    for case in hostile_cases(2000):
        assert_agrees(bleu(case.hypotheses, case.references), case, "BLEU")


@given(cases())
def test_any_set_agrees_with_the_public_code(case: Case) -> None:
    scores = bleu(case.hypotheses, case.references)
    assert_agrees(scores, case, "BLEU")
    for score in scores:
        assert_sound(score)


@given(cases(), st.randoms())
def test_the_order_of_references_changes_nothing(case: Case, rng: Random) -> None:
    shuffled = [rng.sample(texts, len(texts)) for texts in case.references]
    pairs = zip(
        bleu(case.hypotheses, case.references), bleu(case.hypotheses, shuffled), strict=True
    )
    for first, second in pairs:
        assert_same(first, second)


def test_a_resampled_set_is_scored_from_its_shares() -> None:
    rng = np.random.default_rng(0)
    for case in hostile_cases(20):
        size = len(case.hypotheses)
        draws = rng.integers(0, size, (5, size))
        for place, score in enumerate(bleu(case.hypotheses, case.references)):
            values = score.combine(score.shares[draws].sum(axis=1))  # (5, S) -> (5,)
            assert values.shape == (5,)
            for draw, value in zip(draws, values, strict=True):
                hypotheses = [case.hypotheses[i] for i in draw]
                references = [case.references[i] for i in draw]
                assert bleu(hypotheses, references)[place].value == pytest.approx(value, abs=1e-12)


def test_what_has_no_score_is_refused() -> None:
    with pytest.raises(DataError, match="hypotheses: there are none"):
        bleu([], [])
    with pytest.raises(DataError, match="there are 1, but references for 2 images"):
        bleu(["a"], [["a"], ["b"]])
    with pytest.raises(DataError, match="references of image 1: there are none"):
        bleu(["a", "b"], [["a"], []])
    with pytest.raises(DataError, match="one string where a list of sentences is expected"):
        bleu(["a"], ["a"])


@given(st.lists(st.integers(0, 5)), st.sampled_from([0, 1 << 20, 1 << 60]))
def test_sorting_keeps_equal_values_in_their_order(drawn: list[int], offset: int) -> None:
    values = np.array(drawn, np.int64) + offset  # the largest ones cannot be packed
    assert stable_order(values).tolist() == np.argsort(values, kind="stable").tolist()


@pytest.mark.slow
def test_coco_agrees_with_the_public_code(coco: Path) -> None:
    val = coco_sentences(coco, "val")
    assert len(val) == 4392
    for case in coco_cases(val):
        assert_agrees(bleu(case.hypotheses, case.references), case, "BLEU")
