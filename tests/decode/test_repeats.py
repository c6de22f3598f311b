"""The likeliest sentence without a repeat, against trying them all."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.decode.decoding import LogProbs, Words, without_repeats
from naic.errors import ConfigError
from naic.text.vocabulary import PERIOD

DOG, CAT, A, RUNS = 10, 11, 12, 13


def spoken(words: Words, log_probs: LogProbs) -> tuple[Words, LogProbs]:
    chosen = without_repeats(words, log_probs)[..., None]
    return (
        np.take_along_axis(words, chosen, -1)[..., 0],
        np.take_along_axis(log_probs, chosen, -1)[..., 0],
    )


def log(*rows: list[float]) -> LogProbs:
    return np.log(np.asarray([rows], np.float32))


def test_a_caption_without_a_repeat_stays_as_it_is() -> None:
    words = np.asarray([[[A, DOG], [DOG, A], [PERIOD, A], [CAT, A], [CAT, A]]])
    said, sure = spoken(words, log([0.9, 0.1], [0.6, 0.4], *[[0.7, 0.3]] * 3))
    assert said.tolist() == [[A, DOG, PERIOD, CAT, CAT]]  # after the period nobody minds
    assert np.exp(sure[0]) == pytest.approx([0.9, 0.6, 0.7, 0.7, 0.7])


def test_the_less_sure_of_two_neighbours_gives_way() -> None:
    words = np.asarray([[[A, CAT], [DOG, CAT], [DOG, RUNS], [PERIOD, A]]])
    said, sure = spoken(words, log([0.9, 0.1], [0.8, 0.2], [0.5, 0.4], [0.9, 0.1]))
    assert said.tolist() == [[A, DOG, RUNS, PERIOD]]
    assert np.exp(sure[0]) == pytest.approx([0.9, 0.8, 0.4, 0.9])


def test_it_may_end_earlier_if_that_is_likelier() -> None:
    words = np.asarray([[[A, CAT], [A, PERIOD], [DOG, RUNS]]])
    said, _ = spoken(words, log([0.9, 0.01], [0.6, 0.4], [0.5, 0.4]))
    assert said.tolist() == [[A, PERIOD, DOG]]


def test_silence_is_no_way_out() -> None:
    words = np.asarray([[[A, PERIOD], [A, DOG]]])
    said, _ = spoken(words, log([0.6, 0.4], [0.9, 0.1]))
    assert said.tolist() == [[A, DOG]]


def test_an_impossible_word_is_better_than_a_repeat() -> None:
    words = np.asarray([[[DOG, CAT], [DOG, CAT], [DOG, CAT]]])
    with np.errstate(divide="ignore"):
        said, _ = spoken(words, log([1.0, 0.0], [1.0, 0.0], [1.0, 0.0]))
    assert said.tolist() == [[DOG, CAT, DOG]]


def test_one_word_each_leaves_no_choice() -> None:
    with pytest.raises(ConfigError, match="nothing to choose from"):
        without_repeats(np.ones((1, 3, 1), np.int64), np.zeros((1, 3, 1), np.float32))


def likeliest(words: Words, log_probs: LogProbs) -> tuple[float, list[int]]:
    """The best of all sentences without a repeat, one by one."""
    agents, choices = words.shape
    best: tuple[float, list[int]] = (-np.inf, [])
    for picks in itertools.product(range(choices), repeat=agents):
        said = [int(words[agent, pick]) for agent, pick in enumerate(picks)]
        end = said.index(PERIOD) if PERIOD in said else agents
        sentence = said[:end]
        if any(a == b for a, b in itertools.pairwise(sentence)):
            continue
        if not sentence and words[0, 0] != PERIOD:
            continue
        score = sum(float(log_probs[agent, pick]) for agent, pick in enumerate(picks))
        if score > best[0]:
            best = (score, said)
    return best


@given(st.integers(0, 2**32 - 1), st.integers(2, 3), st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_it_is_the_best_of_all(seed: int, choices: int, agents: int) -> None:
    random = np.random.default_rng(seed)
    words = np.stack(
        [
            [random.permutation([PERIOD, DOG, CAT, A])[:choices] for _ in range(agents)]
            for _ in range(3)
        ]
    ).astype(np.int64)
    log_probs = -np.sort(random.exponential(size=(3, agents, choices)))
    said, sure = spoken(words, log_probs)
    for row in range(3):
        score, sentence = likeliest(words[row], log_probs[row])
        assert sure[row].sum() == pytest.approx(score)
        assert said[row].tolist() == sentence
