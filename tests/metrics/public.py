"""The public evaluation as the judge of ours, and sets of sentences that are hard on both."""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

from naic.metrics.score import Score
from naic.text import tokenise

TOLERANCE = 1e-9
WORDS = ["a", "b", "c", "dog", "1\u00a01/2", "a\u00a0b", "\u00a0", "-lrb-", "\u2028"]
UNSEEN = [*WORDS, "x", "y", "x\u00a0dog"]


@dataclass(frozen=True)
class Case:
    """A set of images: what was said of each, and what should have been."""

    hypotheses: list[str]
    references: list[list[str]]

    def has_reference_words(self) -> bool:
        return any(text.split() for texts in self.references for text in texts)


def sentences(words: list[str]) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(words), max_size=9).map(" ".join)


def images() -> st.SearchStrategy[tuple[str, list[str]]]:
    return st.tuples(sentences(UNSEEN), st.lists(sentences(WORDS), min_size=1, max_size=7))


def cases() -> st.SearchStrategy[Case]:
    return st.lists(images(), min_size=1, max_size=4).map(
        lambda drawn: Case([first for first, _ in drawn], [others for _, others in drawn])
    )


def hostile_cases(count: int) -> list[Case]:
    """Seeded sets of 1 to 4 images with 1 to 7 references.

    Sentences are empty, one word, all repeats, or hold words that no reference has.
    """
    rng = random.Random(3)

    def sentence(words: list[str]) -> str:
        some = words[: rng.choice([1, 3, len(words)])]  # few words: many repeats
        return " ".join(rng.choices(some, k=rng.choice([0, 1, 2, 4, 9, 20])))

    def image() -> tuple[str, list[str]]:
        references = [sentence(WORDS) for _ in range(rng.randint(1, 7))]
        copied = rng.random() < 0.2
        return rng.choice(references) if copied else sentence(UNSEEN), references

    drawn = [[image() for _ in range(rng.randint(1, 4))] for _ in range(count)]
    return [Case([h for h, _ in images], [r for _, r in images]) for images in drawn]


def public_scores(case: Case, metric: str) -> tuple[list[float], list[list[float]]]:
    """Values of the set and of each image: four of BLEU, one of ROUGE and CIDEr."""
    pytest.importorskip("pycocoevalcap", reason="needs the extra `metrics`")
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.rouge.rouge import Rouge

    wanted = dict(enumerate(case.references))
    given = {place: [text] for place, text in enumerate(case.hypotheses)}
    if metric == "BLEU":
        values, each = Bleu().compute_score(wanted, given, verbose=0)
        return values, each
    value, each = (Rouge() if metric == "ROUGE" else Cider()).compute_score(wanted, given)
    return [float(value)], [each.tolist()]


def assert_agrees(scores: Sequence[Score], case: Case, metric: str) -> None:
    """Ours are the public numbers, for the set and for each image."""
    values, each = public_scores(case, metric)
    assert len(scores) == len(values)
    for score, value, per_image in zip(scores, values, each, strict=True):
        assert abs(score.value - value) <= TOLERANCE
        assert score.per_image.shape == (len(case.hypotheses),)
        assert np.abs(score.per_image - per_image).max() <= TOLERANCE


def assert_sound(score: Score) -> None:
    """No NaN, no infinity, nothing below zero; the value is what the shares make of it."""
    assert np.isfinite(score.per_image).all()
    assert (score.per_image >= 0).all()
    assert np.isfinite(score.value)
    assert abs(float(score.combine(score.shares.sum(axis=0))) - score.value) <= 1e-12


def assert_same(first: Score, second: Score) -> None:
    assert abs(first.value - second.value) <= 1e-12
    assert np.abs(first.per_image - second.per_image).max() <= 1e-12


def coco_sentences(coco: Path, *splits: str) -> list[list[str]]:
    """The tokenised captions of each image of some splits of COCO."""
    from benchmarks.metrics import read_split

    images = read_split(coco / "dataset_coco.json.xz", *splits)
    return [[" ".join(tokenise(text)) for text in texts] for texts in images]


def coco_cases(references: list[list[str]]) -> list[Case]:
    """A reference against the others; and against all, after a share of words was replaced."""
    from benchmarks.metrics import corrupt

    first = [texts[0] for texts in references]
    return [
        Case(first, [texts[1:] for texts in references]),
        Case(corrupt(first, share=0.3, seed=1), references),
    ]
