import math
from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import DataError
from naic.metrics.cider import DocumentFrequencies, cider
from naic.metrics.score import Score
from tests.metrics.public import (
    TOLERANCE,
    Case,
    assert_agrees,
    assert_same,
    assert_sound,
    cases,
    coco_cases,
    coco_sentences,
    hostile_cases,
)


def public_with_frequencies(case: Case, corpus: list[list[str]]) -> list[float]:
    """The public scorer, its document frequencies taken from another corpus."""
    pytest.importorskip("pycocoevalcap", reason="needs the extra `metrics`")
    from pycocoevalcap.cider.cider_scorer import CiderScorer

    class Fixed(CiderScorer):  # type: ignore[misc]
        """Keeps log N where the scorer would set it from the images that it scores."""

        ref_len = property(lambda _: np.log(float(len(corpus))), lambda *_: None)

    counter, scorer = CiderScorer(), Fixed()
    for texts in corpus:
        counter += ("", texts)
    counter.compute_doc_freq()
    scorer.document_frequency = counter.document_frequency
    for hypothesis, references in zip(case.hypotheses, case.references, strict=True):
        scorer += (hypothesis, references)
    return [float(value) for value in scorer.compute_cider()]


def check(case: Case) -> Score:
    """Ours against the public code, which cannot count a set of references without any word."""
    score = cider(case.hypotheses, case.references)
    if case.has_reference_words():
        assert_agrees([score], case, "CIDEr")
    else:
        assert score.value == 0.0
    return score


def test_by_hand() -> None:
    # Words and bigrams match wholly, there are no longer n-grams: 10 · (1 + 1 + 0 + 0) / 4.
    score = cider(["a b", "c d"], [["a b"], ["c d", "x y z u v"]])
    assert score.name == "CIDEr"
    assert score.per_image == pytest.approx([5.0, 2.5])
    assert score.value == pytest.approx(3.75)


def test_another_length_costs_something() -> None:
    # 1 word against 3; only the word "a" is shared, and all words weigh the same.
    score = cider(["a", "x"], [["a b c"], ["d"]])
    cosine = 1 / math.sqrt(3)
    assert score.per_image[0] == pytest.approx(10 * cosine / 4 * math.exp(-(2**2) / 72))


def test_a_repeated_word_is_clipped() -> None:
    # min(3, 1) · 1 over the norms 3 and 1, 2 words too long.
    score = cider(["a a a", "x"], [["a"], ["d"]])
    assert score.per_image[0] == pytest.approx(10 / 3 / 4 * math.exp(-4 / 72))


@pytest.mark.parametrize("images", [2, 3, 7, 10, 41, 1000])
def test_what_all_images_have_weighs_nothing(images: int) -> None:
    assert cider(["a"] * images, [["a"]] * images).value == 0.0


def test_a_single_image_has_no_rare_words() -> None:
    assert cider(["a dog"], [["a dog"]]).value == 0.0


def test_references_without_a_word() -> None:
    assert cider(["a dog", ""], [[""], ["", ""]]).per_image.tolist() == [0.0, 0.0]


def test_hostile_sets_agree_with_the_public_code() -> None:
    for case in hostile_cases(1500):
        check(case)


@given(cases())
def test_any_set_agrees_with_the_public_code(case: Case) -> None:
    assert_sound(check(case))


@given(cases(), st.randoms())
def test_the_order_of_references_changes_nothing(case: Case, rng: Random) -> None:
    shuffled = [rng.sample(texts, len(texts)) for texts in case.references]
    first = cider(case.hypotheses, case.references)
    assert_same(first, cider(case.hypotheses, shuffled))


@given(cases())
def test_frequencies_counted_on_the_references_change_nothing(case: Case) -> None:
    first = cider(case.hypotheses, case.references)
    frequencies = DocumentFrequencies.count(case.references)
    assert frequencies.images == len(case.references)
    assert_same(first, cider(case.hypotheses, case.references, frequencies))


def test_frequencies_of_another_corpus_agree_with_the_public_code() -> None:
    drawn = hostile_cases(600)
    for case, other in zip(drawn[:300], drawn[300:], strict=True):
        corpus = [*other.references, [], ["z z a b"]]  # an image without captions is an image
        score = cider(case.hypotheses, case.references, DocumentFrequencies.count(corpus))
        public = public_with_frequencies(case, corpus)
        assert np.abs(score.per_image - public).max() <= TOLERANCE


def test_words_that_the_corpus_lacks_weigh_most() -> None:
    # N = 4: "a" is in 2 images and weighs log 4 - log 2; "x" is in none and weighs log 4.
    frequencies = DocumentFrequencies.count([["a"], ["a b"], ["b"], ["c"]])
    score = cider(["a"], [["a x"]], frequencies)
    common, rare = math.log(4) - math.log(2), math.log(4)
    cosine = common / math.hypot(common, rare)
    assert score.value == pytest.approx(10 * cosine / 4 * math.exp(-1 / 72))


def test_a_corpus_without_words_makes_all_words_alike() -> None:
    score = cider(["a b"], [["a b c d"]], DocumentFrequencies.count([[""], []]))
    cosines = math.sqrt(2 / 4) + math.sqrt(1 / 3)
    assert score.value == pytest.approx(10 * cosines / 4 * math.exp(-4 / 72))


def test_what_has_no_score_is_refused() -> None:
    with pytest.raises(DataError, match="the corpus has no image"):
        DocumentFrequencies.count([])
    with pytest.raises(DataError, match="hypotheses: there are none"):
        cider([], [])
    with pytest.raises(DataError, match="references of image 0: there are none"):
        cider(["a"], [[]])


@pytest.mark.slow
def test_coco_agrees_with_the_public_code(coco: Path) -> None:
    val = coco_sentences(coco, "val")
    for case in coco_cases(val):
        check(case)


@pytest.mark.slow
def test_coco_with_the_frequencies_of_other_images(coco: Path) -> None:
    val, other = (coco_sentences(coco, split) for split in ("val", "restval"))
    other = other[:2500]
    case = coco_cases(val)[0]
    score = cider(case.hypotheses, case.references, DocumentFrequencies.count(other))
    assert np.abs(score.per_image - public_with_frequencies(case, other)).max() <= TOLERANCE


@pytest.mark.slow
def test_one_wrong_word_costs_something(coco: Path) -> None:
    sentences = coco_sentences(coco, "train")[:5000]
    assert len(sentences) == 5000
    rng = Random(5)
    words = [word for texts in sentences for text in texts for word in text.split()]
    worse = []
    for texts in sentences:
        tokens = texts[0].split()
        tokens[rng.randrange(len(tokens))] = rng.choice(words)
        worse.append(" ".join(tokens))
    references = [texts[1:] for texts in sentences]
    right, wrong = cider([texts[0] for texts in sentences], references), cider(worse, references)
    assert right.value > wrong.value + 0.05
