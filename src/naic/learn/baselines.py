"""Baselines: what a reward is compared with before it says how much a word was worth.

The equations are the paper's; its 5, 6 and 8 leave out the minus sign of 4, which `policy_loss`
puts back. None of the baselines depends on what the agent itself said, so none of them changes the
expected gradient: the tests list all joint actions of small games and add them up.

Shapes: B images, S sentences sampled for each, N agents, k alternatives. All is float64.
"""

import torch
from torch import Tensor

DECAY = 0.9  # of the moving average
_SMALLEST = torch.finfo(torch.float64).tiny


def team_advantage(reward: Tensor, baseline: Tensor, said: Tensor) -> Tensor:
    """(B, S, N) R(u) − b, the same for all agents of a sentence (eq. 6; with b = 0 eq. 5).

    An agent after the period changes nothing whatever it says, so its advantage is noise without
    a meaning, and is left out. That keeps the gradient unbiased: whether there was a period before
    it does not depend on its own word.

    Args:
        reward: (B, S) of the sentences.
        baseline: broadcast to that.
        said: (B, S, N) the words up to the period and with it.
    """
    return torch.where(said, (reward - baseline)[..., None], 0.0)


def counterfactual_advantage(reward: Tensor, outcomes: Tensor, log_probs: Tensor) -> Tensor:
    """(B, S, N) Σ π'(w)·(R(u) − R(u with w at a)), each agent its own (eq. 7, 9 and 10).

    As a sum of differences it is exactly zero where nothing changes, after the period as well, so
    that no agent needs to be left out.

    Args:
        reward: (B, S) of the sentences.
        outcomes: (B, S, N, k) the rewards with one agent's word replaced by its alternatives.
        log_probs: (B, N, k) of these. π' is renormalised over them: in float64, or else what is
            missing from a sum of one would bring the agent's own word into its baseline.
    """
    weights = log_probs.double().softmax(-1)[:, None]  # (B, 1, N, k)
    return (weights * (reward[..., None, None] - outcomes)).sum(-1)


def leave_one_out(reward: Tensor) -> Tensor:
    """(B, S) the mean reward of the image's other sentences: b of eq. 6. Needs S of 2 or more."""
    return (reward.sum(1, keepdim=True) - reward) / (reward.shape[1] - 1)


class MovingAverage:
    """The mean reward of past steps, the newest counting most: b of eq. 6, alike for all images.

    Two numbers on the device, changed in place: a CUDA graph can hold it, and nothing waits for
    the host. The weights of the steps so far are summed beside the rewards, so that the first
    steps are not compared with an average that still holds zeros.
    """

    def __init__(self, device: torch.device | str) -> None:
        self.state = torch.zeros(2, dtype=torch.float64, device=device)  # rewards, their weights

    @property
    def value(self) -> Tensor:
        """0-dim, the average; 0 before the first step."""
        total, weight = self.state.unbind()
        return total / weight.clamp(min=_SMALLEST)

    def update(self, reward: Tensor) -> None:
        """Take in the mean reward of a whole step, 0-dim; after the step has used the average."""
        new = torch.stack([reward.detach().double(), torch.ones_like(self.state[0])])
        self.state.lerp_(new, 1 - DECAY)
