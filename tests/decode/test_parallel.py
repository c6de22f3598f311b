"""Parallel decoding: every agent's likeliest word, and on request the ones after it."""

import pytest
import torch
from torch.testing import assert_close

from naic.decode.parallel import MOST_OF_A_PIECE, PIECE, by_pieces, likeliest, parallel
from naic.decode.policy import NEVER, log_policy
from naic.errors import ConfigError
from naic.text.vocabulary import PERIOD
from tests.models.small import images, small


@pytest.mark.parametrize("seed", range(5))
def test_every_agent_says_its_likeliest_word(seed: int) -> None:
    model = small(causal=False, seed=seed)
    features = images(3, seed=seed)
    mask = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]
    said = parallel(model, features, mask)
    with torch.no_grad():
        log_probs = log_policy(model(features, mask))[:, 0]
    assert torch.equal(said.words, log_probs.argmax(-1))
    assert torch.equal(said.log_probs, log_probs.amax(-1))
    assert said.alternatives is None
    assert said.alternative_log_probs is None
    assert not said.log_probs.requires_grad


def test_alternatives_best_first() -> None:
    model = small(causal=False)
    features = images(3)
    plain, said = parallel(model, features, None), parallel(model, features, None, 9)
    assert said.alternatives is not None
    assert said.alternative_log_probs is not None
    assert said.alternatives.shape == (3, 6, 9)
    assert torch.equal(said.words, plain.words)
    assert torch.equal(said.alternatives[..., 0], said.words)
    assert torch.equal(said.alternative_log_probs[..., 0], said.log_probs)
    assert bool((said.alternative_log_probs.diff(dim=-1) <= 0).all())
    allowed = [word for word in range(12) if word not in NEVER]
    assert said.alternatives.sort(-1).values.tolist() == [[allowed] * 6] * 3
    with torch.no_grad():
        log_probs = log_policy(model(features))[:, 0]
    assert_close(said.alternative_log_probs, log_probs.gather(-1, said.alternatives))


def test_special_words_are_never_said() -> None:
    model = small(causal=False)
    with torch.no_grad():
        model.decoder.output.bias[list(NEVER)] += 100
    said = parallel(model, images(4), None, 9)
    assert said.alternatives is not None
    for words in (said.words, said.alternatives):
        assert not bool(torch.isin(words, torch.tensor(NEVER)).any())
    assert bool(said.log_probs.isfinite().all())


def test_words_after_the_period_are_kept() -> None:
    """They count again when the period is replaced."""
    after = []
    for seed in range(5):
        model = small(causal=False, seed=seed)
        with torch.no_grad():
            model.decoder.output.bias[PERIOD] += 3
        words = parallel(model, images(20), None).words
        after.append(words[:, 1:][words[:, :-1] == PERIOD])
    assert bool((torch.cat(after) != PERIOD).any())
    assert not bool(torch.isin(torch.cat(after), torch.tensor(NEVER)).any())


@pytest.mark.parametrize("alternatives", [-1, 10])
def test_more_alternatives_than_words(alternatives: int) -> None:
    with pytest.raises(ConfigError, match="Give a number from 0 to 9"):
        parallel(small(causal=False), images(1), None, alternatives)


def test_a_causal_captioner_is_refused() -> None:
    with pytest.raises(ConfigError, match="word by word"):
        parallel(small(causal=True), images(1), None)


@pytest.mark.parametrize("words", [2 * PIECE, 2 * PIECE + 1, 1000])
@pytest.mark.parametrize("count", [1, 5, MOST_OF_A_PIECE])
def test_the_likeliest_are_found_piece_by_piece(words: int, count: int) -> None:
    torch.manual_seed(words + count)
    log_probs = torch.randn(2, 3, words).log_softmax(-1)
    log_probs[0, 0, :-count] = -torch.inf  # the best are the last, beside what fills the last piece
    values, ids = by_pieces(log_probs, count)
    expected = log_probs.topk(count, dim=-1)
    assert torch.equal(values, expected.values)
    assert torch.equal(ids, expected.indices)


@pytest.mark.gpu
def test_a_gpu_finds_the_same_words() -> None:
    torch.manual_seed(0)
    log_probs = torch.randn(4, 16, 9107).log_softmax(-1)
    values, ids = likeliest(log_probs.cuda(), 5)
    assert torch.equal(ids.cpu(), log_probs.topk(5).indices)
    assert torch.equal(values.cpu(), log_probs.topk(5).values)
