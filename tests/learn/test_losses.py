import math

import pytest
import torch

from naic.learn.losses import entropy, policy_loss


def test_by_hand() -> None:
    log_probs = torch.tensor([[-1.0, -2.0, -3.0], [-0.5, -0.25, -4.0]], requires_grad=True)
    advantages = torch.tensor([[2.0, -1.0, 5.0], [4.0, 8.0, 7.0]])
    spoken = torch.tensor([[True, True, False], [True, True, True]])
    loss = policy_loss(log_probs, advantages, spoken)
    assert loss.shape == ()
    assert loss.item() == -((-2.0 + 2.0) + (-2.0 - 2.0 - 28.0))
    assert torch.autograd.grad(loss, log_probs)[0].tolist() == [
        [-2.0, 1.0, 0.0],
        [-4.0, -8.0, -7.0],
    ]


def test_one_advantage_for_a_sentence_is_that_of_each_of_its_words() -> None:
    generator = torch.Generator().manual_seed(0)
    log_probs = -torch.rand(2, 3, 5, generator=generator)
    advantages = torch.randn(2, 3, 1, generator=generator, dtype=torch.float64)  # as rewards are
    spoken = torch.rand(2, 3, 5, generator=generator) < 0.7
    loss = policy_loss(log_probs, advantages, spoken)
    assert loss.dtype == torch.float32
    assert torch.equal(loss, policy_loss(log_probs, advantages.expand(2, 3, 5), spoken))


def test_what_was_not_said_counts_nothing_whatever_its_numbers() -> None:
    spoken = torch.tensor([True, False, False])
    log_probs = torch.tensor([-1.0, -math.inf, -2.0], requires_grad=True)
    advantages = torch.tensor([3.0, 1.0, math.nan])
    loss = policy_loss(log_probs, advantages, spoken)
    assert loss.item() == 3.0
    assert torch.autograd.grad(loss, log_probs)[0].tolist() == [-3.0, 0.0, 0.0]


def test_no_gradient_goes_through_the_advantages() -> None:
    weight = torch.tensor(2.0, requires_grad=True)
    loss = policy_loss(torch.tensor([-1.0]) * weight, 3.0 * weight[None], torch.tensor([True]))
    assert torch.autograd.grad(loss, weight)[0].item() == 6.0  # 3·2 from the log-probability alone


def test_entropy_of_what_can_be_said() -> None:
    """Words that cannot be said have no part in it, nor in its gradient."""
    scores = torch.tensor([[0.0, 0.0, 0.0, 0.0], [0.0, 50.0, 0.0, 0.0]], dtype=torch.float64)
    scores.requires_grad_()
    never = torch.tensor([False, False, True, True])
    log_probs = scores.masked_fill(never, -math.inf).log_softmax(-1)
    found = entropy(log_probs)
    assert found.tolist() == pytest.approx([math.log(2), 50 * math.exp(-50)], rel=1e-2)
    (gradient,) = torch.autograd.grad(found.sum(), scores)
    assert gradient.isfinite().all()
    assert gradient[:, 2:].tolist() == [[0.0, 0.0]] * 2
    assert gradient[0].tolist() == pytest.approx([0.0] * 4, abs=1e-15)  # it is at its highest


def test_the_gradient_of_entropy_is_that_of_its_formula() -> None:
    scores = torch.randn(3, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    scores.requires_grad_()
    probs = scores.softmax(-1)
    (expected,) = torch.autograd.grad(-(probs * probs.log()).sum(), scores)
    (found,) = torch.autograd.grad(entropy(scores.log_softmax(-1)).sum(), scores)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
