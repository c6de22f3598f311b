"""Parallel decoding: every agent's likeliest word, and on request the ones after it."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from naic.decode.policy import (
    MOST_OF_A_PIECE,
    PIECE,
    by_pieces,
    likeliest,
    log_policy,
    parallel,
)
from naic.errors import ConfigError
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import NEVER, PERIOD
from tests.models.small import images, small


def logits_of(model: TransformerCaptioner, features: Tensor, mask: Tensor | None = None) -> Tensor:
    with torch.no_grad():
        logits: Tensor = model(features, mask)[:, 0]
        return logits


@pytest.mark.parametrize("seed", range(5))
def test_every_agent_says_its_likeliest_word(seed: int) -> None:
    mask = torch.arange(4) < torch.tensor([4, 2, 3])[:, None]
    logits = logits_of(small(causal=False, seed=seed), images(3, seed=seed), mask)
    words, sure = parallel(logits.requires_grad_())
    log_probs = log_policy(logits)
    assert torch.equal(words, log_probs.argmax(-1, keepdim=True))
    assert torch.equal(sure, log_probs.amax(-1, keepdim=True))
    assert not sure.requires_grad


def test_alternatives_best_first() -> None:
    logits = logits_of(small(causal=False), images(3))
    (plain, sure), (words, log_probs) = parallel(logits), parallel(logits, 9)
    assert words.shape == log_probs.shape == (3, 6, 9)
    assert torch.equal(words[..., :1], plain)
    assert torch.equal(log_probs[..., :1], sure)
    assert bool((log_probs.diff(dim=-1) <= 0).all())
    allowed = [word for word in range(12) if word not in NEVER]
    assert words.sort(-1).values.tolist() == [[allowed] * 6] * 3
    assert_close(log_probs, log_policy(logits).gather(-1, words))


def test_special_words_are_never_said() -> None:
    model = small(causal=False)
    with torch.no_grad():
        model.decoder.output.bias[list(NEVER)] += 100
    for count in (1, 9):
        words, log_probs = parallel(logits_of(model, images(4)), count)
        assert not bool(torch.isin(words, torch.tensor(NEVER)).any())
        assert bool(log_probs[..., 0].isfinite().all())


def test_words_after_the_period_are_kept() -> None:
    """They count again when the period is replaced."""
    after = []
    for seed in range(5):
        model = small(causal=False, seed=seed)
        with torch.no_grad():
            model.decoder.output.bias[PERIOD] += 3
        words = parallel(logits_of(model, images(20)))[0][..., 0]
        after.append(words[:, 1:][words[:, :-1] == PERIOD])
    assert bool((torch.cat(after) != PERIOD).any())
    assert not bool(torch.isin(torch.cat(after), torch.tensor(NEVER)).any())


@pytest.mark.parametrize("choices", [0, 10])
def test_more_choices_than_words(choices: int) -> None:
    with pytest.raises(ConfigError, match="Give a number from 1 to 9"):
        parallel(logits_of(small(causal=False), images(1)), choices)


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
