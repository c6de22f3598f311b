"""Captions of a model with transitions between neighbours: what its confidences mean."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from naic.decode.decoding import READABLE, Decoding
from naic.runtime.sentences import Caption, Proposals, write
from naic.text import Vocabulary

WORDS = Vocabulary.build(["a black cat sits on the sofa with two dogs"], more_than=0)
NEIGHBOURS = {("a", "cat"): 2.0, ("two", "dogs"): 2.0, ("a", "dogs"): -1.0, ("cat", "cat"): 1.5}


def chain(*places: dict[str, float]) -> Proposals:
    """One image; for each agent its words and their probabilities; transitions as above."""
    names = [list(place) for place in places]
    log_probs = [[math.log(prob) for prob in place.values()] for place in places]
    pairs = [
        [[NEIGHBOURS.get((one, other), 0.0) for other in after] for one in before]
        for before, after in itertools.pairwise(names)
    ]
    ids = [[WORDS.id(name) for name in own] for own in names]
    numbers = (np.array([values], np.float32) for values in (log_probs, pairs))
    return Proposals(np.array([ids]), *numbers)


def one(what: Proposals, decoding: Decoding = READABLE) -> Caption:
    (caption,) = write(what, None, WORDS, decoding)
    return caption


SURE_OF_DOGS = chain(
    {"a": 0.6, "two": 0.4}, {"dogs": 0.7, "cat": 0.3}, {".": 0.8, "sits": 0.2}
)  # each by itself would say "a dogs"


def test_neighbours_change_what_is_said_and_how_sure_it_is() -> None:
    caption = one(SURE_OF_DOGS, replace(READABLE, alternatives=3))
    scores = {
        "two dogs": 0.4 * 0.7 * math.exp(2),
        "a cat": 0.6 * 0.3 * math.exp(2),
        "a dogs": 0.6 * 0.7 * math.exp(-1),
        "two cat": 0.4 * 0.3,
    }
    z = sum(scores.values())  # the last agent has no neighbour's say: it adds 0.8 + 0.2
    assert caption.text == "two dogs"
    assert caption.confidence == pytest.approx(0.8 * scores["two dogs"] / z, rel=1e-5)
    two, dogs = caption.words
    assert two.confidence == pytest.approx((scores["two dogs"] + scores["two cat"]) / z, rel=1e-5)
    assert dogs.confidence == pytest.approx(0.7 * math.exp(2) / (0.7 * math.exp(2) + 0.3), rel=1e-5)
    assert two.confidence * dogs.confidence * 0.8 == pytest.approx(caption.confidence, rel=1e-5)
    assert [text for text, _ in dogs.alternatives] == ["dogs", "cat"]
    assert sum(likely for _, likely in dogs.alternatives) == pytest.approx(1)
    texts = [sentence.text for sentence in caption.alternatives]
    assert texts == ["two dogs", "a cat", "two dogs sits"]
    found = [sentence.confidence for sentence in caption.alternatives]
    expected = [0.8 * scores["two dogs"], 0.8 * scores["a cat"], 0.2 * scores["two dogs"]]
    assert found == pytest.approx([value / z for value in expected], rel=1e-5)


def test_the_probabilities_of_all_sentences_are_1_in_all() -> None:
    caption = one(SURE_OF_DOGS, Decoding(alternatives=100))
    assert len(caption.alternatives) == 8
    assert sum(sentence.confidence for sentence in caption.alternatives) == pytest.approx(1)


def test_repeats_are_said_or_not_as_it_is_asked_for() -> None:
    what = chain({"a": 0.9, "the": 0.1}, {"cat": 0.6, "black": 0.4}, {"cat": 0.6, "sits": 0.4})
    plain = one(what, Decoding(alternatives=3))
    assert plain.text == "a cat cat"
    caption = one(what, replace(READABLE, alternatives=3))
    assert caption.text == "a cat sits"
    assert all("cat cat" not in sentence.text for sentence in caption.alternatives)
    assert plain.confidence > caption.confidence


def test_a_cut_sentence_has_the_probability_of_its_first_words() -> None:
    caption = one(SURE_OF_DOGS, Decoding(alternatives=4, max_words=1))
    assert caption.text == "two"
    whole = one(SURE_OF_DOGS, Decoding(alternatives=4))
    assert caption.confidence == pytest.approx(whole.words[0].confidence)
    found = {sentence.text: sentence.confidence for sentence in caption.alternatives}
    assert found.keys() == {"two", "a"}
    assert sum(found.values()) == pytest.approx(1)


def test_a_word_has_no_more_alternatives_than_those_of_other_models() -> None:
    """A chain looks at more words; those that are likeliest after the word before are told."""
    names = ["sofa", "black", "sits", "dogs", "cat", "the"]
    likely = {name: 0.3 - 0.04 * n for n, name in enumerate(names)}
    caption = one(chain({"a": 0.9} | likely, {"with": 0.31} | likely))
    assert caption.text == "a cat"
    found = [text for text, _ in caption.words[1].alternatives]
    assert found == ["cat", "with", "sofa", "black", "sits"]
