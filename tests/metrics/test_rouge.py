from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import DataError
from naic.metrics.cider import rouge_l
from tests.metrics.public import (
    UNSEEN,
    Case,
    assert_agrees,
    assert_same,
    assert_sound,
    cases,
    coco_cases,
    coco_sentences,
    hostile_cases,
    sentences,
)


def test_by_hand() -> None:
    # In common: a, c. Precision 2/4, recall 2/3.
    score = rouge_l(["a b c d"], [["a x c"]])
    assert score.name == "ROUGE_L"
    assert score.value == pytest.approx((1 + 1.44) * 0.5 * (2 / 3) / (2 / 3 + 1.44 * 0.5))


def test_precision_and_recall_may_come_from_two_references() -> None:
    # "a" gives recall 1, "a b c d e f" gives precision 1.
    assert rouge_l(["a b"], [["a", "a b c d e f"]]).value == 1.0


def test_the_order_of_words_matters() -> None:
    assert rouge_l(["a b c"], [["c b a"]]).value == pytest.approx(1 / 3)


def test_an_unbreakable_space_stays_inside_its_word() -> None:
    assert rouge_l(["1\u00a01/2"], [["1 1/2"]]).value == 0.0


def test_the_empty_sentence_is_one_empty_word() -> None:
    assert rouge_l(["", ""], [["a b"], ["a", ""]]).per_image.tolist() == [0.0, 1.0]


def test_long_sentences() -> None:
    long = " ".join(str(number) for number in range(500))
    even = " ".join(str(number) for number in range(0, 500, 2))
    score = rouge_l([long, even], [[even], [long]])
    assert score.per_image == pytest.approx(
        [2.44 * 0.5 / (1 + 1.44 * 0.5), 2.44 * 0.5 / (0.5 + 1.44)]
    )


def test_hostile_sets_agree_with_the_public_code() -> None:
    for case in hostile_cases(2000):
        assert_agrees([rouge_l(case.hypotheses, case.references)], case, "ROUGE")


@given(cases())
def test_any_set_agrees_with_the_public_code(case: Case) -> None:
    score = rouge_l(case.hypotheses, case.references)
    assert_agrees([score], case, "ROUGE")
    assert_sound(score)
    assert (score.per_image <= 1).all()


@given(cases(), st.randoms())
def test_the_order_of_references_changes_nothing(case: Case, rng: Random) -> None:
    shuffled = [rng.sample(texts, len(texts)) for texts in case.references]
    first = rouge_l(case.hypotheses, case.references)
    assert_same(first, rouge_l(case.hypotheses, shuffled))


@given(sentences(UNSEEN))
def test_a_caption_equal_to_its_only_reference_has_1(sentence: str) -> None:
    assert rouge_l([sentence], [[sentence]]).value == 1.0


def test_what_has_no_score_is_refused() -> None:
    with pytest.raises(DataError, match="hypotheses: there are none"):
        rouge_l([], [])
    with pytest.raises(DataError, match="references of image 0: there are none"):
        rouge_l(["a"], [[]])


@pytest.mark.slow
def test_coco_agrees_with_the_public_code(coco: Path) -> None:
    val = coco_sentences(coco, "val")
    for case in coco_cases(val):
        assert_agrees([rouge_l(case.hypotheses, case.references)], case, "ROUGE")
