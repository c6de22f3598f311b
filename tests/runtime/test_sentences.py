"""Sentences out of words that are chosen here, without a model."""

import itertools
import math
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.decode.best_first import n_best
from naic.decode.decoding import READABLE, Decoding
from naic.errors import ConfigError
from naic.runtime.calibration import Calibration
from naic.runtime.sentences import Caption, Proposals, found_sentences, write
from naic.text import Vocabulary
from naic.text.vocabulary import PAD, PERIOD

WORDS = Vocabulary.build(["a black cat sits on the sofa with two dogs"], more_than=0)


def said(*places: list[tuple[str, float]]) -> Proposals:
    """One image; for each agent its words and their probabilities."""
    ids = [[WORDS.id(word) for word, _ in place] for place in places]
    log_probs = [[math.log(prob) for _, prob in place] for place in places]
    return Proposals(np.array([ids]), np.array([log_probs], np.float32))


def sure(sentence: str) -> list[list[tuple[str, float]]]:
    """Agents that say this, and hardly anything else."""
    return [[(word, 0.9), ("two", 0.05)] for word in sentence.split()]


def readable(**asked: Any) -> Decoding:
    return replace(READABLE, **asked)


def one(what: Proposals, decoding: Decoding = READABLE) -> Caption:
    (caption,) = write(what, None, WORDS, decoding)
    return caption


def test_each_word_comes_with_what_its_agent_could_have_said() -> None:
    caption = one(said([("a", 0.75), ("the", 0.25)], [("cat", 0.5), (".", 0.25)], *sure(". dogs")))
    assert caption.text == "a cat"
    a, cat = caption.words
    assert a.text == "a"
    assert a.confidence == pytest.approx(0.75)
    assert dict(a.alternatives) == pytest.approx({"a": 0.75, "the": 0.25})
    assert dict(cat.alternatives) == pytest.approx({"cat": 0.5, ".": 0.25})
    assert cat.alternatives[0] == (cat.text, cat.confidence)
    assert caption.alternatives == ()


def test_alternatives_are_whole_sentences_with_their_probability() -> None:
    what = said(
        [("a", 0.8), ("the", 0.2)], [("cat", 0.6), ("sofa", 0.4)], [(".", 0.9), ("sits", 0.1)]
    )
    caption = one(what, readable(alternatives=4))
    assert [a.text for a in caption.alternatives] == ["a cat", "a sofa", "the cat", "the sofa"]
    found = [a.confidence for a in caption.alternatives]
    assert found == pytest.approx([0.432, 0.288, 0.108, 0.072])
    everything = one(what, readable(alternatives=100)).alternatives
    assert len(everything) == 8
    assert sum(a.confidence for a in everything) == pytest.approx(1)
    assert one(what, readable(alternatives=1)).alternatives == (caption.alternatives[0],)


def test_a_caption_has_the_probability_of_its_words_and_its_end() -> None:
    what = said(
        [("a", 0.8), ("the", 0.2)], [("cat", 0.6), ("sofa", 0.4)], [(".", 0.5), ("on", 0.5)]
    )
    assert one(what).confidence == pytest.approx(0.8 * 0.6 * 0.5)
    caption = one(what, readable(alternatives=3))
    assert caption.confidence == caption.alternatives[0].confidence
    assert one(said(*sure("a cat on"))).confidence == pytest.approx(0.9**3)  # nobody said the end
    assert one(said(*sure(". cat"))).confidence == pytest.approx(0.9)  # the end alone


def test_with_a_map_nothing_is_never_right() -> None:
    (silent,) = write(said(*sure(". cat")), None, WORDS, READABLE, Calibration(1.0, 0.0))
    assert (silent.text, silent.confidence) == ("", 0.0)
    assert silent.probability == pytest.approx(0.9)


def test_a_map_changes_the_confidence_and_nothing_else() -> None:
    what, same = said(*sure("a cat on the .")), Calibration(1.0, 0.0)
    asked = readable(alternatives=3)
    plain, kept, less = (
        write(what, None, WORDS, asked, own)[0] for own in (None, same, Calibration(1.0, -2.0))
    )
    assert plain.probability == plain.confidence == pytest.approx(0.9**5)
    assert not plain.calibrated
    assert kept.confidence == pytest.approx(0.9**5)
    odds = 0.9**5 / (1 - 0.9**5) * math.exp(-2.0)
    assert less.confidence == pytest.approx(odds / (1 + odds))
    assert less.calibrated
    for own in (kept, less):
        assert (own.text, own.words) == (plain.text, plain.words)
        assert own.probability == plain.probability
        assert own.alternatives == plain.alternatives
        assert own.alternatives[0].confidence == own.probability


def test_a_cut_caption_has_the_probability_of_what_was_said_up_to_the_limit() -> None:
    cut = readable(alternatives=2, max_words=4)  # "on" is said and goes
    caption = one(said(*sure("a cat sits on the sofa .")), cut)
    assert len(caption.words) == 3
    assert caption.confidence == caption.alternatives[0].confidence == pytest.approx(0.9**4)


def test_the_caption_comes_first_though_a_shorter_sentence_is_likelier() -> None:
    """Each agent says its likeliest word; the product is another matter."""
    what = said(
        [("cat", 1.0), ("a", 1e-9)], [("sits", 0.6), (".", 0.4)], [("dogs", 0.5), (".", 0.5)]
    )
    caption = one(what, readable(alternatives=2))
    assert [a.text for a in caption.alternatives] == ["cat sits dogs", "cat"]
    assert [a.confidence for a in caption.alternatives] == pytest.approx([0.3, 0.4])


def test_no_alternative_is_empty() -> None:
    what = said([("cat", 0.6), (".", 0.4)], [(".", 1.0), ("sits", 1e-9)])
    texts = [a.text for a in one(what, readable(alternatives=5)).alternatives]
    assert texts == ["cat", "cat sits"]


def test_no_sentence_has_a_word_twice_in_a_row() -> None:
    what = said([("cat", 0.6), (".", 0.4)], [("cat", 0.9), ("sits", 0.1)])
    caption = one(what, readable(alternatives=5))
    assert [alternative.text for alternative in caption.alternatives] == ["cat sits"]
    assert [[text for text, _ in word.alternatives] for word in caption.words] == [
        ["cat", "."],
        ["sits", "cat"],
    ]


@pytest.mark.parametrize(
    ("sentence", "limit", "expected"),
    [
        ("a cat sits on the sofa .", 6, "a cat sits on the sofa"),
        ("a cat sits on the sofa .", 100, "a cat sits on the sofa"),
        ("a cat sits on the sofa .", 5, "a cat sits"),
        ("a cat sits on the sofa .", 4, "a cat sits"),
        ("a cat sits on the sofa .", 3, "a cat sits"),
        ("a cat sits on the sofa .", 2, "a cat"),
        ("a cat sits on the sofa .", 1, "a"),
        ("on the sofa sits a cat .", 2, "on"),  # never nothing at all
        ("a cat sits on .", 100, "a cat sits"),  # it ended so by itself
        ("a cat sits on the .", 4, "a cat sits"),
        ("a cat on", 3, "a cat"),  # all agents spoke
        (". cat", 1, ""),
    ],
)
def test_a_sentence_is_cut_where_it_can_end(sentence: str, limit: int, expected: str) -> None:
    caption = one(said(*sure(sentence)), readable(max_words=limit))
    assert caption.text == expected
    assert [word.text for word in caption.words] == expected.split()


def test_alternatives_are_cut_too_and_none_comes_twice() -> None:
    what = said(*sure("a cat sits on the sofa ."))
    caption = one(what, readable(alternatives=6, max_words=4))
    texts = [a.text for a in caption.alternatives]
    assert texts[0] == caption.text == "a cat sits"
    assert len(set(texts)) == len(texts) == 6
    assert all(1 <= len(text.split()) <= 4 for text in texts)
    assert caption.alternatives[0].confidence == pytest.approx(0.9**4)


def test_of_a_causal_model_the_beam_gives_them_after_the_caption() -> None:
    def row(sentence: str) -> list[int]:
        ids = [WORDS.id(word) for word in sentence.split()]
        return ids + [PAD] * (4 - len(ids))

    sentences = ["a dogs .", "a cat .", "the cat sits on", "."]
    scores = [math.log(0.5), math.log(0.3), math.log(0.1), -math.inf]
    beams = found_sentences([[row(s) for s in sentences]], [scores])
    what = Proposals(
        np.array([[[i] for i in row("a cat .")]]), np.log([[[0.6], [0.5], [1.0], [1.0]]])
    )
    (caption,) = write(what, beams, WORDS, readable(alternatives=4))
    assert caption.text == "a cat"
    assert dict(caption.words[0].alternatives) == pytest.approx({"a": 0.6})
    texts = [alternative.text for alternative in caption.alternatives]
    assert texts == ["a cat", "a dogs", "the cat sits"]
    found = [alternative.confidence for alternative in caption.alternatives]
    assert found == pytest.approx([0.3, 0.5, 0.1])
    assert caption.confidence == pytest.approx(0.3)


def test_as_the_tables_of_the_paper_have_them() -> None:
    """Repeats and loose ends stay, so that training shows."""
    what = said(*sure("a cat cat on the ."))
    assert one(what, Decoding()).text == "a cat cat on the"
    assert one(what, Decoding(repeats=False)).text == "a two cat on the"
    assert one(what, Decoding(bad_endings=False)).text == "a cat cat"
    texts = [a.text for a in one(what, Decoding(alternatives=6)).alternatives]
    assert texts[0] == "a cat cat on the"
    assert any("cat cat" in text for text in texts[1:])


@pytest.mark.parametrize("wrong", [{"alternatives": -1}, {"alternatives": 101}, {"max_words": 0}])
def test_what_cannot_be_asked_for_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=f"{next(iter(wrong.values()))} is"):
        readable(**wrong)


def test_an_empty_caption_counts_among_its_alternatives() -> None:
    what = said([(".", 0.6), ("cat", 0.4)], [("sits", 0.9), (".", 0.1)])
    for wanted in (1, 2, 3):
        assert len(one(what, readable(alternatives=wanted)).alternatives) == wanted


def all_sentences(
    words: list[list[int]], log_probs: list[list[float]]
) -> dict[tuple[int, ...], float]:
    """By trying all ways to speak, and adding up those that end in the same sentence."""
    found: dict[tuple[int, ...], float] = {}
    for ranks in itertools.product(*(range(len(own)) for own in words)):
        said = [own[rank] for own, rank in zip(words, ranks, strict=True)]
        end = said.index(PERIOD) if PERIOD in said else len(said)
        parts = [own[rank] for own, rank in zip(log_probs, ranks, strict=True)]
        found[tuple(said[:end])] = sum(parts[: end + 1])
    return found


@st.composite
def agents(draw: st.DrawFn) -> tuple[list[list[int]], list[list[float]]]:
    length, top = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    words = [
        draw(st.lists(st.integers(0, 6), min_size=top, max_size=top, unique=True))
        for _ in range(length)
    ]
    log_prob = st.floats(-20, 0)
    log_probs = [
        sorted(draw(st.lists(log_prob, min_size=top, max_size=top)), reverse=True)
        for _ in range(length)
    ]
    return words, log_probs


@given(agents())
def test_all_sentences_come_once_and_the_likeliest_first(
    spoken: tuple[list[list[int]], list[list[float]]],
) -> None:
    expected = all_sentences(*spoken)
    found = list(n_best(*spoken))
    assert len(found) == len(expected)
    assert {sentence.words for sentence in found} == expected.keys()
    for sentence in found:
        assert sentence.log_prob == pytest.approx(expected[sentence.words], abs=1e-9)
    values = [sentence.log_prob for sentence in found]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(values))


def test_a_sentence_ends_with_its_period_and_what_comes_after_is_left_open() -> None:
    words = [[5, 6], [PERIOD, 7], [8, 9]]
    log_probs = [[math.log(p), math.log(1 - p)] for p in (0.9, 0.9, 0.8)]
    assert next(n_best(words, log_probs)).log_prob == pytest.approx(math.log(0.81))
    found = [sentence.words for sentence in n_best(words, log_probs)]
    assert found == [(5,), (6,), (5, 7, 8), (5, 7, 9), (6, 7, 8), (6, 7, 9)]


def test_a_word_that_cannot_be_said_comes_last() -> None:
    found = list(n_best([[5, 6], [PERIOD, 7]], [[0.0, -math.inf], [0.0, -2.0]]))
    assert [sentence.words for sentence in found[:2]] == [(5,), (5, 7)]
    assert {sentence.log_prob for sentence in found[2:]} == {-math.inf}


def test_it_does_not_try_all_ways_to_speak() -> None:
    """There are 5^16 of them. No agent is sure, so that nothing stands out."""
    words = [[10 * place + rank for rank in range(1, 6)] for place in range(16)]
    log_probs = [[-1.5 - 0.01 * rank for rank in range(5)] for _ in range(16)]
    start = time.perf_counter()
    found = list(itertools.islice(n_best(words, log_probs), 100))
    assert time.perf_counter() - start < 5
    assert len({sentence.words for sentence in found}) == 100
    assert found[0].log_prob == pytest.approx(-24)
