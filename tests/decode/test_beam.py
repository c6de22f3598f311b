"""Beam search equals trying every sentence, or a beam written without tricks."""

from itertools import pairwise

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

from naic.decode.policy import log_policy, spoken
from naic.decode.stepwise import beam_search, greedy
from naic.errors import ConfigError
from naic.text.vocabulary import NEVER, PAD, PERIOD
from tests.decode.naive import naive_beam, padded, score, sentences
from tests.models.small import images, small


@pytest.mark.parametrize(("length", "width"), [(1, 4), (3, 40), (4, 121)])
@pytest.mark.parametrize("seed", range(3))
def test_a_beam_that_holds_everything_is_brute_force(length: int, width: int, seed: int) -> None:
    """Four words may be said, so that the beam can hold all prefixes; all must be found."""
    model = small(causal=True, seed=seed, words=7, length=length)
    features = images(2, seed=seed)
    everything = sentences(7, length)
    assert len(everything) == width
    found = beam_search(model, model.encode(features), width, keep=width)
    for row, image in enumerate(features):
        exact = sorted((score(model, image, s), padded(s, length)) for s in everything)[::-1]
        assert found.words[row].tolist() == [words for _, words in exact]
        scores = torch.tensor([value for value, _ in exact], dtype=torch.float64)
        assert_close(found.scores[row], scores, rtol=0, atol=1e-10)


@settings(max_examples=30)
@given(seed=st.integers(0, 500), width=st.integers(1, 6), length=st.integers(1, 5))
def test_as_a_simple_beam(seed: int, width: int, length: int) -> None:
    model = small(causal=True, seed=seed, words=9, length=length)
    features = images(2, seed=seed)
    found = beam_search(model, model.encode(features), width, keep=width)
    for row, image in enumerate(features):
        beams = naive_beam(model, image, width)
        scores = [value for _, value in beams]
        assume(all(a - b > 1e-9 for a, b in pairwise(scores)))
        words = found.words[row, : len(beams)].tolist()
        assert words == [padded(sentence, length) for sentence, _ in beams]
        expected = torch.tensor(scores, dtype=torch.float64)
        assert_close(found.scores[row, : len(beams)], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_in_a_batch_as_one_by_one(seed: int) -> None:
    model = small(causal=True, seed=seed)
    features = images(5, seed=seed)
    mask = torch.arange(4) < torch.tensor([4, 3, 2, 1, 4])[:, None]
    together = beam_search(model, model.encode(features, mask), 3, keep=2)
    for row, count in enumerate((4, 3, 2, 1, 4)):
        alone = beam_search(model, model.encode(features[row : row + 1, :count]), 3, keep=2)
        assert torch.equal(together.words[row], alone.words[0])
        assert_close(together.scores[row], alone.scores[0], rtol=0, atol=1e-10)


@pytest.mark.parametrize("seed", range(6))
def test_scores_are_those_of_the_sentences(seed: int) -> None:
    model = small(causal=True, seed=seed)
    features = images(3, seed=seed)
    words, scores = beam_search(model, model.encode(features), 4, keep=4)
    with torch.no_grad():
        log_probs = log_policy(model(features, None, words))
    own = spoken(words)
    chosen = log_probs.gather(-1, words.where(own, PERIOD)[..., None])[..., 0]
    assert_close(scores, chosen.where(own, 0.0).sum(-1), rtol=0, atol=1e-10)
    assert bool((scores.diff(dim=-1) <= 0).all())
    for image in words.tolist():
        assert len({tuple(sentence) for sentence in image}) == 4
    assert bool((words == PAD)[~own].all())
    assert not bool(torch.isin(words[own], torch.tensor(NEVER)).any())


@pytest.mark.parametrize("seed", range(6))
def test_a_beam_of_one_is_greedy(seed: int) -> None:
    model = small(causal=True, seed=seed)
    memory = model.encode(images(3, seed=seed))
    said, found = greedy(model, memory), beam_search(model, memory, 1)
    assert torch.equal(found.words[:, 0], said.words)
    assert_close(found.scores[:, 0], said.log_probs.sum(-1))


def test_stopping_early_changes_nothing() -> None:
    """The best two are the same whether two or all eight must have ended."""
    for seed in range(6):
        model = small(causal=True, seed=seed)
        memory = model.encode(images(4, seed=seed))
        few, all_of_them = (beam_search(model, memory, 8, keep=keep) for keep in (2, 8))
        assert torch.equal(few.words, all_of_them.words[:, :2])
        assert torch.equal(few.scores, all_of_them.scores[:, :2])


def test_special_words_are_never_said() -> None:
    model = small(causal=True, words=7)
    with torch.no_grad():
        model.decoder.output.bias[list(NEVER)] += 100
    words, scores = beam_search(model, model.encode(images(3)), 5, keep=5)
    assert not bool(torch.isin(words[spoken(words)], torch.tensor(NEVER)).any())
    assert bool(scores.isfinite().all())


def test_more_beams_than_sentences() -> None:
    """One word and the period, two places: three sentences; the other places are empty."""
    model = small(causal=True, words=5, length=2)
    found = beam_search(model, model.encode(images(1)), 9, keep=9)
    assert sorted(found.words[0, :3].tolist()) == [[PERIOD, PAD], [4, PERIOD], [4, 4]]
    assert found.words[0, 3:].tolist() == [[PERIOD, PAD]] * 6
    assert bool(found.scores[0, :3].isfinite().all())
    assert bool(found.scores[0, 3:].isneginf().all())


@pytest.mark.parametrize(("width", "keep"), [(0, 1), (3, 0), (2, 3), (0, 0)])
def test_impossible_widths(width: int, keep: int) -> None:
    model = small(causal=True)
    with pytest.raises(ConfigError, match=r"Give 0 < keep <= width\."):
        beam_search(model, model.encode(images(1)), width, keep)
