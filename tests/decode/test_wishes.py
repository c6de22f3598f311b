"""The likeliest sentence with words forbidden and others preferred, against trying them all."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.decode.best_first import n_best
from naic.decode.decoding import LogProbs, Words, likeliest_words, without_repeats
from naic.decode.wishes import BONUS, Wanted, as_decoding, as_wanted, likeliest_without
from naic.errors import ConfigError
from naic.text.vocabulary import PERIOD

DOG, CAT, A, RUNS = 10, 11, 12, 13


def upto(said: list[int], *stops: int) -> list[int]:
    return list(itertools.takewhile(lambda word: word not in stops, said))


def at(words: Words, chosen: Any) -> list[list[int]]:
    return np.take_along_axis(words, chosen[..., None], -1)[..., 0].tolist()  # type: ignore[no-any-return]


def log(*rows: list[float]) -> LogProbs:
    return np.log(np.asarray([rows], np.float32))


def say(words: list[list[int]], probs: LogProbs, **wanted: frozenset[int]) -> list[int]:
    ids = np.asarray([words])
    (said,) = at(ids, as_wanted(ids, probs, None, Wanted(**wanted), repeats=False))
    return said


def test_another_word_takes_the_place_of_a_forbidden_one() -> None:
    words = [[A, CAT], [DOG, CAT], [PERIOD, RUNS], [DOG, CAT]]
    probs = log([0.9, 0.1], [0.8, 0.1], [0.9, 0.1], [0.9, 0.1])
    assert upto(say(words, probs), PERIOD) == [A, DOG]
    assert upto(say(words, probs, forbidden=frozenset({DOG})), PERIOD) == [A, CAT]


def test_a_caption_that_the_wishes_do_not_touch_stays_as_it_is() -> None:
    words = [[PERIOD, A], [DOG, CAT]]  # nothing is said, and after that a forbidden word
    probs = log([0.9, 0.1], [0.8, 0.1])
    assert say(words, probs, forbidden=frozenset({DOG})) == [PERIOD, DOG]
    assert say(words, probs, preferred=frozenset({RUNS})) == [PERIOD, DOG]


def test_a_preferred_word_is_said_if_it_is_likely_enough() -> None:
    words = [[A, CAT], [DOG, CAT], [PERIOD, RUNS]]
    likely = log([0.9, 0.01], [0.8, 0.8 / np.exp(BONUS - 0.1)], [0.9, 0.1])
    unlikely = log([0.9, 0.01], [0.8, 0.8 / np.exp(BONUS + 0.1)], [0.9, 0.1])
    wanted = frozenset({CAT})
    assert upto(say(words, likely, preferred=wanted), PERIOD) == [A, CAT]
    assert upto(say(words, unlikely, preferred=wanted), PERIOD) == [A, DOG]


def test_a_preferred_word_is_not_said_once_more() -> None:
    words = [[A, CAT], [CAT, DOG], [RUNS, PERIOD], [A, CAT]]
    probs = log([0.9, 0.1], [0.8, 0.2], [0.9, 0.1], [0.5, 0.4])
    assert say(words, probs, preferred=frozenset({CAT})) == [A, CAT, RUNS, A]


def test_where_all_is_forbidden_the_sentence_ends_before_it() -> None:
    words = [[A, CAT], [DOG, A], [DOG, CAT], [RUNS, A]]
    probs = log(*[[0.6, 0.4]] * 4)
    stops = {DOG, CAT}
    assert upto(say(words, probs, forbidden=frozenset(stops)), *stops) == [A]  # "a a" is a repeat
    assert upto(say(words, probs, forbidden=frozenset({DOG, CAT, A})), *stops, A) == []
    words[1] = [RUNS, PERIOD]
    assert upto(say(words, probs, forbidden=frozenset(stops)), *stops) == [A, PERIOD]


def best(
    words: Words, log_probs: LogProbs, pairs: LogProbs | None, wanted: Wanted, said: list[int]
) -> float | None:
    """The score of the best of all sentences, one by one; None: there is none."""
    agents, choices = words.shape
    liked = wanted.preferred - set(said)
    found = []
    allowed = ~np.isin(words, list(wanted.forbidden))
    rest = [max(own[ok], default=0.0) for own, ok in zip(log_probs, allowed, strict=True)]
    for end in range(1, agents + 1):
        for picks in itertools.product(range(choices), repeat=end):
            ids = [int(words[n, k]) for n, k in enumerate(picks)]
            if PERIOD in ids[:-1] or not wanted.forbidden.isdisjoint(ids) or ids[0] == PERIOD:
                continue
            if ids[-1] != PERIOD and end < agents:
                continue
            if any(one == other for one, other in itertools.pairwise(ids)):
                continue
            score = sum(float(log_probs[n, k]) for n, k in enumerate(picks))
            score += BONUS * sum(word in liked for word in ids)
            if pairs is None:
                score += sum(rest[end:])
            else:
                score += sum(
                    float(pairs[n, i, j]) for n, (i, j) in enumerate(itertools.pairwise(picks))
                )
            found.append(score)
    return max(found, default=None)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(2, 3),
    st.integers(1, 4),
    st.frozensets(st.sampled_from([DOG, CAT, A, RUNS]), max_size=3),
    st.frozensets(st.sampled_from([DOG, CAT, A]), max_size=2),
    st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_it_is_the_best_of_all(
    seed: int,
    choices: int,
    agents: int,
    forbidden: frozenset[int],
    preferred: frozenset[int],
    chain: bool,
) -> None:
    random = np.random.default_rng(seed)
    shape = (2, agents, choices)
    likely = [PERIOD, DOG, CAT, A, RUNS]
    words = np.array([random.permutation(likely)[:choices] for _ in range(2 * agents)])
    words = words.reshape(shape)
    log_probs = -np.sort(random.exponential(2.0, shape))
    pairs = random.normal(0, 1, (2, agents - 1, choices, choices)) if chain else None
    wanted = Wanted(forbidden, preferred - forbidden)
    plain = at(words, without_repeats(words, log_probs, pairs))
    chosen = as_wanted(words, log_probs, pairs, wanted, repeats=False)
    for row, said in enumerate(at(words, chosen)):
        own = None if pairs is None else pairs[row]
        spoken = upto(plain[row], PERIOD)
        liked = wanted.preferred - set(spoken)
        if wanted.forbidden.isdisjoint(spoken) and not np.isin(words[row], list(liked)).any():
            assert said == plain[row]
            continue
        expected = best(words[row], log_probs[row], own, wanted, spoken)
        kept = upto(said, *wanted.forbidden)
        if expected is None:  # it is cut short, and nobody could have gone on
            assert len(kept) < agents
            assert said[len(kept)] in wanted.forbidden
            assert PERIOD not in kept
            after = set(words[row, len(kept)].tolist()) - wanted.forbidden
            assert after <= {*kept[-1:]} or not kept
            continue
        end = said.index(PERIOD) + 1 if PERIOD in said else agents
        assert wanted.forbidden.isdisjoint(said[:end])
        alone = words[row, :end], log_probs[row, :end]
        places = [ids.tolist().index(word) for ids, word in zip(alone[0], said, strict=False)]
        score = sum(own[k] for own, k in zip(alone[1], places, strict=True))
        score += BONUS * sum(word in liked for word in said[:end])
        if own is None:
            ok = ~np.isin(words[row], list(wanted.forbidden))
            score += sum(max(log_probs[row, n][ok[n]], default=0.0) for n in range(end, agents))
        else:
            score += sum(own[n, i, j] for n, (i, j) in enumerate(itertools.pairwise(places)))
        assert score == pytest.approx(expected)


def test_repeats_are_allowed_if_they_are_asked_for() -> None:
    words = np.asarray([[[DOG, CAT], [DOG, RUNS], [DOG, CAT]]])
    probs = log(*[[0.6, 0.4]] * 3)
    wanted = Wanted(frozenset({RUNS}), frozenset({CAT}))
    assert at(words, as_wanted(words, probs, None, wanted, repeats=True)) == [[CAT, DOG, CAT]]
    assert at(words, likeliest_words(words, probs, None)) == [[DOG, DOG, DOG]]


def all_of(words: list[list[int]], log_probs: Any, forbidden: set[int]) -> list[tuple[Any, float]]:
    """What `n_best` finds, in its order, without the sentences that have a forbidden word."""
    return [own for own in n_best(words, log_probs) if forbidden.isdisjoint(own.words)]


@pytest.mark.parametrize("chain", [False, True])
def test_the_sentences_without_a_word_are_those_that_never_had_it(chain: bool) -> None:
    random = np.random.default_rng(1)
    words = [random.permutation([PERIOD, DOG, CAT, A, RUNS])[:4].tolist() for _ in range(4)]
    log_probs = -random.exponential(size=(4, 4, 4) if chain else (4, 4))
    if chain:
        log_probs[0] = log_probs[0, 0]  # the first hears nobody
    expected = all_of(words, log_probs.tolist(), {DOG, A})
    found = list(likeliest_without(frozenset({DOG, A}), words, log_probs.tolist()))
    assert found == expected
    assert len(found) > 10


def test_sentences_end_before_an_agent_that_may_say_nothing() -> None:
    words, log_probs = [[A, CAT], [DOG, PERIOD], [DOG, CAT]], [[-0.1, -2.0]] * 3
    found = list(likeliest_without(frozenset({DOG, CAT}), words, log_probs))
    assert found == [((A,), -2.1)]
    words[1] = [RUNS, DOG]
    assert list(likeliest_without(frozenset({DOG, CAT}), words, log_probs)) == [((A, RUNS), -0.2)]
    assert list(likeliest_without(frozenset({A, CAT}), words, log_probs)) == []


def test_words_are_wished_for_as_a_text_or_a_list() -> None:
    assert as_decoding({"forbid": "Dog, cat  cat"}, 0).forbid == ("dog", "cat")
    assert as_decoding({"prefer": ["Dog", "cat"]}, 0).prefer == ("dog", "cat")
    assert as_decoding({}, 3) == as_decoding({"forbid": "", "prefer": []}, 3)


@pytest.mark.parametrize(
    ("wishes", "why"),
    [
        ({"forbid": "dog's"}, "\"dog's\" is 2 words, dog and 's"),
        ({"prefer": ["hot dog"]}, "'hot dog' is 2 words, hot and dog"),
        ({"forbid": "cat ."}, "'.' is no word"),
        ({"forbid": "cat dog", "prefer": "Dog"}, "'dog' cannot be forbidden and preferred"),
        ({"max_chars": 0}, "0 is below 1"),
        ({"forbid": "cat their", "neutral": True}, "'their' is what neutral captions say instead"),
    ],
)
def test_what_cannot_be_wished_for_is_refused(wishes: Any, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        as_decoding(wishes, 0)


def test_a_wish_that_there_is_not_is_no_wish() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'max_word'"):
        as_decoding({"max_word": 3}, 0)  # type: ignore[typeddict-unknown-key]
