import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from naic.learn.losses import cross_entropy
from naic.text import PAD, PERIOD

V = 11


def make_words(images: int, captions: int, length: int, seed: int) -> Tensor:
    """Captions as they come: words, mostly a period and padding; some are not there at all."""
    generator = torch.Generator().manual_seed(seed)
    words = torch.randint(4, V, (images, captions, length), generator=generator)
    for caption in words.view(-1, length):
        end = int(torch.randint(-1, length + 1, (), generator=generator))
        if end < 0:
            caption[:] = PAD
        elif end < length:
            caption[end], caption[end + 1 :] = PERIOD, PAD
    return words


def make_logits(*shape: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed + 1)
    return (3 * torch.randn(*shape, V, generator=generator)).requires_grad_()


def filled(words: Tensor) -> Tensor:
    """Caption by caption, what `fill` is said to do."""
    rows = [
        row if row[0] == PAD else [PERIOD if word == PAD else word for word in row]
        for row in words.flatten(0, 1).tolist()
    ]
    return torch.tensor(rows).view_as(words)


cases = {
    "images": st.integers(1, 3),
    "captions": st.integers(1, 5),
    "length": st.integers(1, 5),
    "smoothing": st.sampled_from([0.0, 0.1, 0.5]),
    "fill": st.booleans(),
    "seed": st.integers(0, 10**6),
}


@given(**cases)
def test_it_is_torchs_own_where_each_caption_has_its_logits(
    images: int, captions: int, length: int, smoothing: float, fill: bool, seed: int
) -> None:
    words = make_words(images, captions, length, seed)
    logits = make_logits(images, captions, length, seed=seed)
    loss = cross_entropy(logits, words, smoothing=smoothing, fill=fill)
    expected = F.cross_entropy(
        logits.reshape(-1, V),
        (filled(words) if fill else words).reshape(-1),
        reduction="sum",
        ignore_index=PAD,
        label_smoothing=smoothing,
    )
    assert loss.shape == ()
    assert torch.equal(loss, expected)


@given(**cases)
def test_shared_logits_give_the_loss_and_gradient_of_repeated_ones(
    images: int, captions: int, length: int, smoothing: float, fill: bool, seed: int
) -> None:
    words = make_words(images, captions, length, seed)
    logits = make_logits(images, 1, length, seed=seed).double().detach().requires_grad_()
    repeated = logits.expand(images, captions, length, V)
    target = filled(words) if fill else words
    share = F.one_hot(target, V) * (1 - smoothing) + smoothing / V  # (B, C, N, V)
    per_word = -(share * repeated.log_softmax(-1)).sum(-1)
    expected = per_word[target != PAD].sum()
    loss = cross_entropy(logits, words, smoothing=smoothing, fill=fill)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-4)
    found = torch.autograd.grad(loss, logits)[0]
    wanted = torch.autograd.grad(expected, logits, allow_unused=True)[0]
    assert wanted is not None
    torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
def test_by_hand(shared: bool) -> None:
    """Even logits: every target word costs log V, smoothed or not."""
    words = torch.tensor([[[5, PERIOD, PAD], [5, 6, 7], [PAD, PAD, PAD]]])
    logits = torch.zeros(1, 1 if shared else 3, 3, V)
    for smoothing in (0.0, 0.2):
        loss = cross_entropy(logits, words, smoothing=smoothing)
        assert loss.item() == pytest.approx(5 * math.log(V), rel=1e-6)
        loss = cross_entropy(logits, words, smoothing=smoothing, fill=True)
        assert loss.item() == pytest.approx(6 * math.log(V), rel=1e-6)


@pytest.mark.parametrize("shared", [False, True])
def test_a_batch_without_a_target_costs_nothing(shared: bool) -> None:
    words = torch.full((2, 3, 4), PAD)
    logits = make_logits(2, 1 if shared else 3, 4, seed=0)
    for fill in (False, True):
        loss = cross_entropy(logits, words, smoothing=0.1, fill=fill)
        assert loss.item() == 0.0
        assert not torch.autograd.grad(loss, logits)[0].any()


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_bfloat16_logits_are_summed_in_float32(shared: bool, smoothing: float) -> None:
    words = make_words(40, 3, 16, seed=2)
    logits = make_logits(40, 1 if shared else 3, 16, seed=2).detach() * 20  # far from even
    coarse = logits.bfloat16().requires_grad_()
    loss = cross_entropy(coarse, words, smoothing=smoothing)
    exact = cross_entropy(coarse.detach().double(), words, smoothing=smoothing)
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss, exact, rtol=1e-6, atol=0.0)  # in bfloat16 it would be 1e-2
    gradient = torch.autograd.grad(loss, coarse)[0]
    assert gradient.dtype == torch.bfloat16
    assert gradient.isfinite().all()
