"""The policy: probabilities of words that may be said, and none for the others."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from naic.decode.decoding import READABLE, Decoding
from naic.decode.policy import log_policy, spoken
from naic.errors import ConfigError
from naic.text.vocabulary import BOS, NEVER, PAD, PERIOD, UNK


def test_never() -> None:
    assert set(NEVER) == {BOS, UNK, PAD}
    assert PERIOD not in NEVER


@given(st.lists(st.floats(-50, 50), min_size=5, max_size=9))
def test_normalised_over_what_may_be_said(scores: list[float]) -> None:
    log_probs = log_policy(torch.tensor(scores, dtype=torch.float64))
    kept = [i for i in range(len(scores)) if i not in NEVER]
    assert all(log_probs[i] == -math.inf for i in NEVER)
    exact = torch.tensor([scores[i] for i in kept], dtype=torch.float64).log_softmax(0)
    assert_close(log_probs[kept], exact)
    assert float(log_probs.exp().sum()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.float32),
        (torch.float32, torch.float32),
        (torch.float64, torch.float64),
    ],
)
def test_at_least_float32(given: torch.dtype, expected: torch.dtype) -> None:
    assert log_policy(torch.zeros(2, 3, 6, dtype=given)).dtype == expected


def test_no_gradient_for_what_is_never_said() -> None:
    logits = torch.randn(3, 4, 8)
    logits[..., NEVER[0]] = 80  # the largest by far
    logits.requires_grad_()
    words = torch.randint(4, 8, (3, 4))
    (gradient,) = torch.autograd.grad(log_policy(logits).gather(-1, words[..., None]).sum(), logits)
    assert bool(gradient.isfinite().all())
    assert torch.equal(gradient[..., list(NEVER)], torch.zeros(3, 4, 3))
    assert bool((gradient[..., 4:] != 0).all())


def test_the_sentence_ends_with_its_first_period() -> None:
    words = torch.tensor([[[5, 6, 0, 7, 0], [0, 0, 0, 0, 0]], [[5, 6, 7, 8, 9], [4, 4, 4, 4, 0]]])
    assert spoken(words).int().tolist() == [
        [[1, 1, 1, 0, 0], [1, 0, 0, 0, 0]],
        [[1, 1, 1, 1, 1], [1, 1, 1, 1, 1]],
    ]


def test_no_beam_is_refused() -> None:
    assert Decoding().beam == 1
    with pytest.raises(ConfigError, match="beam: 0 is below 1"):
        Decoding(beam=0)


def test_a_decoding_says_what_it_is() -> None:
    assert Decoding(3).describe() == "beam 3"
    assert READABLE.describe() == "beam 1, no repeats, no loose endings"
    assert Decoding(max_words=8).describe() == "beam 1, at most 8 words"


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_on_a_gpu_it_is_the_same_and_the_logits_stay(kind: torch.dtype) -> None:
    logits = torch.randn(2, 3, 70).to(kind)
    there = logits.cuda()
    with torch.no_grad():
        assert_close(log_policy(there).cpu(), log_policy(logits))
    assert torch.equal(there.cpu(), logits)
