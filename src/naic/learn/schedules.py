"""Learning rates: pure functions of the step and the epoch, so that there is no state to save."""

import math
from dataclasses import dataclass
from typing import Literal, assert_never

from naic.errors import ConfigError


@dataclass(frozen=True)
class Schedule:
    """How the learning rate goes.

    "constant" stays. "paper" climbs for three epochs, stays, and is halved every 3 epochs after
    the sixth: the paper's XE training, with 3e-4 as its peak. "decay" is multiplied by `factor`
    every so many epochs: the paper's CMAL takes 0.8 every 10. "cosine" falls to `floor` over
    `total_epochs`.

    Attributes:
        kind: How it goes, in the words above.
        learning_rate: The highest one.
        warmup_steps: Over the first so many it climbs from near zero, whatever the kind.
        factor: What "decay" multiplies by.
        every: Epochs between two decays.
        floor: The last learning rate of "cosine".
        total_epochs: The length of "cosine": give it with run.epochs.
    """

    kind: Literal["constant", "paper", "decay", "cosine"] = "constant"
    learning_rate: float = 3e-4
    warmup_steps: int = 0
    factor: float = 0.8
    every: int = 10
    floor: float = 0.0
    total_epochs: float = 30.0

    def __post_init__(self) -> None:
        peak, floor, total = self.learning_rate, self.floor, self.total_epochs
        rules = (
            ("learning_rate", peak, 0 < peak < math.inf, "above 0"),
            ("warmup_steps", self.warmup_steps, self.warmup_steps >= 0, "0 or more"),
            ("factor", self.factor, 0 < self.factor <= 1, "above 0 and at most 1"),
            ("every", self.every, self.every >= 1, "1 or more"),
            ("floor", floor, 0 <= floor <= peak, "0 to learning_rate"),
            ("total_epochs", total, 0 < total < math.inf, "above 0"),
        )
        for name, value, good, wanted in rules:
            if not good:
                raise ConfigError(f"schedule.{name}", f"it is {value}", f"It must be {wanted}.")


def learning_rate(schedule: Schedule, step: int, epoch: float) -> float:
    """The learning rate of a step.

    Args:
        schedule: how it goes.
        step: from 0.
        epoch: how many epochs were over when the step began.
    """
    rate = _of_epoch(schedule, epoch)
    if step < schedule.warmup_steps:
        rate *= (step + 1) / schedule.warmup_steps
    return rate


def _of_epoch(schedule: Schedule, epoch: float) -> float:
    peak, number = schedule.learning_rate, int(epoch) + 1  # the paper counts epochs from 1
    match schedule.kind:
        case "constant":
            return peak
        case "paper":
            # The same rates whichever step of an epoch it is. 9 is the first epoch that comes 3
            # after the sixth, and so the first of half the rate.
            return peak * min(number / 3, 1.0) * 0.5 ** max(0, (number - 6) // 3)
        case "decay":
            return float(peak * schedule.factor ** ((number - 1) // schedule.every))
        case "cosine":
            done = min(epoch / schedule.total_epochs, 1.0)
            height = (1 + math.cos(math.pi * done)) / 2
            return schedule.floor + (peak - schedule.floor) * height
        case _:
            assert_never(schedule.kind)
