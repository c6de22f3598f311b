import itertools
import math
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.runtime.nbest import n_best
from naic.text.vocabulary import PERIOD


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
