"""Small games: every joint action listed with its chance, and the exact gradient they add up to."""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from naic.decode.policy import log_policy
from naic.text import PAD, PERIOD
from naic.train import cmal_stage
from naic.train.stages import STAGES
from naic.train.tools import Tools
from tests.models.small import small
from tests.train.stage_cases import (
    A,
    B,
    Policy,
    all_sentences,
    gradients,
    make_batch,
    sentence,
)

LENGTH = 3
SAYABLE = (PERIOD, A, B)
FIVE = (PERIOD, A, B, B + 1, B + 2)
BATCH = make_batch(1, words=torch.full((1, 1, LENGTH), PAD), length=LENGTH)
Team = tuple[int, ...]


class Game:
    """Agents, what their sentences are worth, and what the expected reward's gradient is."""

    def __init__(self, model: nn.Module, seed: int, sayable: Team = SAYABLE) -> None:
        self.model = model
        generator = torch.Generator().manual_seed(seed)
        said = list(all_sentences(LENGTH, sayable[1:]))
        worth = torch.rand(len(said), generator=generator, dtype=torch.float64) * 4
        self.worth: dict[Team, float] = dict(zip(said, worth.tolist(), strict=True))
        policy = log_policy(model(BATCH.features, None)[0, 0])  # (N, V)
        chances = {
            team: torch.stack([policy[i, word] for i, word in enumerate(team)]).sum().exp()
            for team in itertools.product(sayable, repeat=LENGTH)
        }
        expected = torch.stack([p * self.reward(team) for team, p in chances.items()]).sum()
        self.exact = gradients(-expected, model)
        self.chances = {team: float(p.detach()) for team, p in chances.items()}

    def reward(self, team: Team) -> float:
        return self.worth[sentence(list(team))]

    def expected_gradient(self, tools: Tools) -> list[Tensor]:
        """The mean of the stage's gradient over all that can be sampled, as often as it is."""
        total = [torch.zeros_like(part) for part in self.exact]
        for chance, own in self.estimates(tools):
            for part, value in zip(total, own, strict=True):
                part.add_(value, alpha=chance)
        return total

    def estimates(self, tools: Tools) -> Iterator[tuple[float, list[Tensor]]]:
        """The stage's gradient for all that can be sampled, each with its chance."""
        for teams in itertools.product(self.chances, repeat=tools.settings.cmal.samples):
            chance = math.prod(self.chances[team] for team in teams)
            with sampling(*teams):
                loss, _ = STAGES["cmal"].step(self.model, BATCH, tools)
            yield chance, gradients(loss, self.model)


@contextmanager
def sampling(*teams: Iterable[int]) -> Iterator[None]:
    """The stage as it is, but for chance: these are sampled, one after the other."""
    coming = iter(teams)
    choose: Callable[[Tensor], Tensor] = lambda _: torch.tensor([list(next(coming))])  # noqa: E731
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cmal_stage, "choose", choose)
        yield
    assert next(coming, None) is None, "a sample was not asked for"


def table_game(seed: int, sayable: Team = SAYABLE) -> Game:
    """Agents whose logits are all there is to learn."""
    return Game(Policy(LENGTH, max(sayable) + 1, seed), seed, sayable)


def captioner_game(seed: int) -> Game:
    """A real captioner, whose agents share their weights and talk to each other."""
    return Game(small(causal=False, seed=seed, words=B + 1, length=LENGTH), seed)


def apart(one: list[Tensor], two: list[Tensor]) -> float:
    """The largest difference of two gradients."""
    return max(float((a - b).abs().max()) for a, b in zip(one, two, strict=True))
