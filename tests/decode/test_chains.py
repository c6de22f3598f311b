"""Agents with transitions between neighbours, against all sentences one by one."""

import itertools
import math
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.decode.best_first import n_best
from naic.decode.chains import told, told_after
from naic.decode.decoding import IMPOSSIBLE, likeliest_words, without_repeats
from naic.runtime.sentences import Proposals
from naic.text.vocabulary import PERIOD

AGENTS, CHOICES = 4, 3


class Way(NamedTuple):
    """A sentence by its places in K, up to its period and with it, its words, and its score."""

    places: tuple[int, ...]
    words: tuple[int, ...]
    score: float

    @property
    def repeats(self) -> bool:
        return any(a == b for a, b in itertools.pairwise(self.words))


def chains(seed: int, batch: int = 3) -> Proposals:
    """Few words, so that neighbours often have the same, and periods come early."""
    random = np.random.default_rng(seed)
    rows = [random.permutation([PERIOD, 10, 11, 12])[:CHOICES] for _ in range(batch * AGENTS)]
    words = np.array(rows, np.int64).reshape(batch, AGENTS, CHOICES)
    log_probs = -np.sort(random.exponential(size=words.shape)).astype(np.float32)
    pairs = random.normal(0, 2, (batch, AGENTS - 1, CHOICES, CHOICES)).astype(np.float32)
    return Proposals(words, log_probs, pairs)


def ways(said: Proposals, row: int) -> list[Way]:
    """Each sentence once, whatever would be said after its period."""
    words, log_probs = said.words[row], said.log_probs[row].astype(float)
    assert said.pairs is not None
    pairs = said.pairs[row].astype(float)
    found: dict[tuple[int, ...], Way] = {}
    for whole in itertools.product(range(words.shape[1]), repeat=len(words)):
        ids = [int(words[n, k]) for n, k in enumerate(whole)]
        end = ids.index(PERIOD) if PERIOD in ids else len(ids) - 1
        places = whole[: end + 1]
        score = sum(log_probs[n, k] for n, k in enumerate(places))
        score += sum(pairs[n, i, j] for n, (i, j) in enumerate(itertools.pairwise(places)))
        kept = tuple(id_ for id_ in ids[: end + 1] if id_ != PERIOD)
        found[places] = Way(places, kept, float(score))
    return list(found.values())


def log_z(every: list[Way]) -> float:
    return math.log(sum(math.exp(way.score) for way in every))


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_the_likeliest_sentence_is_the_best_of_all(seed: int) -> None:
    said = chains(seed)
    free, plain = likeliest_words(*said), without_repeats(*said)
    for row in range(len(said.words)):
        every = ways(said, row)
        best = max(every, key=lambda way: way.score)
        assert tuple(free[row, : len(best.places)]) == best.places
        assert not free[row, len(best.places) :].any()
        # What says nothing twice stays as it is, also if it says nothing; as a way out, silence
        # is none.
        if best.repeats:
            fit = [way for way in every if way.words and not way.repeats]
            best = max(fit, key=lambda way: way.score)
        assert tuple(plain[row, : len(best.places)]) == best.places


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_words_told_one_after_the_other_make_up_the_sentence(seed: int) -> None:
    said = chains(seed)
    assert said.pairs is not None
    found = told(said.words, said.log_probs, said.pairs)
    assert np.exp(found).sum(-1) == pytest.approx(np.ones(found.shape[:3]))
    for row in range(len(found)):
        every = ways(said, row)
        for way in every:
            steps = zip((0, *way.places), way.places, strict=False)
            likely = sum(found[row, n, i, j] for n, (i, j) in enumerate(steps))
            assert likely == pytest.approx(way.score - log_z(every), abs=1e-4)


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.01, 1.0, 300.0]))
@settings(max_examples=20, deadline=None)
def test_what_is_told_after_the_chosen_words_is_their_part_of_all(seed: int, scale: float) -> None:
    """Also of scores so large that no float64 holds what they are the logarithms of."""
    words, log_probs, pairs = chains(seed)
    assert pairs is not None
    log_probs, pairs = log_probs * np.float32(scale), pairs * np.float32(scale)
    log_probs[0, 1, -1] = -np.inf
    chosen = without_repeats(words, log_probs, pairs)
    after = told_after(words, log_probs, pairs, chosen)
    every = told(words, log_probs, pairs)
    said = Proposals(words, np.maximum(log_probs, IMPOSSIBLE), pairs)
    for row, places in enumerate(chosen):
        for agent, before in enumerate((0, *places[:-1])):
            assert np.array_equal(after[row, agent], every[row, agent, before])
        scores = sorted(way.score for way in ways(said, row))
        log_z = scores[-1] + math.log(sum(math.exp(score - scores[-1]) for score in scores))
        end = 1 + next((n for n, k in enumerate(places) if words[row, n, k] == PERIOD), AGENTS - 1)
        likely = sum(after[row, n, k] for n, k in enumerate(places[:end]))
        own = [way.score for way in ways(said, row) if way.places == tuple(places[:end])]
        assert likely == pytest.approx(own[0] - log_z, rel=1e-5, abs=1e-4)


def test_neighbours_may_make_up_for_words_that_no_float64_could_say() -> None:
    """exp(-800) is nothing by itself; with a pair that adds 800 it is as likely as another."""
    words = np.array([[[10, 11], [12, 13], [14, PERIOD]]])
    log_probs = np.array([[[0.0, -20.0], [-800.0, 0.0], [-1.0, -1.0]]], np.float32)
    pairs = np.zeros((1, 2, 2, 2), np.float32)
    pairs[0, 0, 0, 0] = 800.0
    found = told(words, log_probs, pairs)
    assert found[0, 1, 0] == pytest.approx(np.log([0.5, 0.5]))
    assert found[0, 1, 1, 1] == pytest.approx(0.0)


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_all_sentences_of_a_chain_come_once_and_the_likeliest_first(seed: int) -> None:
    said = chains(seed, batch=1)
    assert said.pairs is not None
    heard = told(said.words, said.log_probs, said.pairs)[0]
    found = list(n_best(said.words[0].tolist(), heard.tolist()))
    every = ways(said, 0)
    expected = {way.words: way.score - log_z(every) for way in every}
    assert len(found) == len(every) == len(expected)
    for sentence in found:
        assert sentence.log_prob == pytest.approx(expected[sentence.words], abs=1e-4)
    values = [sentence.log_prob for sentence in found]
    assert all(a >= b - 1e-9 for a, b in itertools.pairwise(values))
    assert sum(map(math.exp, values)) == pytest.approx(1)


def test_without_transitions_to_speak_of_the_words_are_those_of_the_agents() -> None:
    """Pairs of 0 change no probability: log p is what the agents give, over the chain's words."""
    words = np.array([[[10, 11], [12, PERIOD], [10, PERIOD]]])
    log_probs = np.log(np.array([[[0.8, 0.2], [0.7, 0.3], [0.4, 0.6]]], np.float32))
    found = np.exp(told(words, log_probs, np.zeros((1, 2, 2, 2), np.float32)))
    assert found[0, :, 0] == pytest.approx(np.exp(log_probs[0]))
    assert found[0, :, 1] == pytest.approx(np.exp(log_probs[0]))


def test_a_hundred_sentences_of_a_long_chain_are_found_without_trying_all() -> None:
    """There are 16^16 ways to speak."""
    random = np.random.default_rng(0)
    words = np.arange(16 * 16).reshape(1, 16, 16) + 10
    log_probs, pairs = random.normal(size=words.shape), random.normal(size=(1, 15, 16, 16))
    heard = told(words, log_probs, pairs)[0]
    found = list(itertools.islice(n_best(words[0].tolist(), heard.tolist()), 100))
    assert len({sentence.words for sentence in found}) == 100
    best = likeliest_words(words, log_probs, pairs)[..., None]
    assert found[0].words == tuple(np.take_along_axis(words, best, -1)[0, :, 0])
