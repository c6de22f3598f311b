"""The guard stops a run that has gone wrong while the best weights are still there."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path

from naic.errors import TrainingError
from naic.resume import BEST
from naic.train.settings import GuardSettings

# One bad validation is not a collapse: early validations of healthy runs go up and down.
IN_A_ROW = 2


@dataclass
class Guard:
    """Remembers the best validation and reward, and how many in a row were far below them.

    `state` goes into checkpoints: a run that was killed is given up where it would have been.

    Attributes:
        rules: when a run is given up.
        out: the run's folder.
        advice: what to change in a run that was given up.
    """

    rules: GuardSettings
    out: Path
    advice: str
    best_cider: float = -math.inf  # of the best weights, as below
    best_worth: float = -math.inf  # what they were chosen by
    best_step: int = -1
    best_reward: float = 0.0
    bad_validations: int = 0
    bad_rewards: int = 0

    def logged(self, step: int, epoch: float, logs: Mapping[str, float]) -> None:
        """Look at the mean values since the last line of the log."""
        bad = [name for name, value in logs.items() if not math.isfinite(value)]
        if bad:
            raise self._stopped(step, f"{', '.join(bad)} is not a finite number any more")
        reward = logs.get("reward")
        if reward is None:
            return
        self.best_reward = max(self.best_reward, reward)
        bad_one = self._far_below(epoch, reward, self.best_reward)
        self.bad_rewards = self.bad_rewards + 1 if bad_one else 0
        if self.bad_rewards == IN_A_ROW:
            why = f"the reward collapsed from {self.best_reward:.3f} to {reward:.3f}"
            raise self._stopped(step, why)

    def weighed(self, step: int, *, finite: bool) -> None:
        """Call it before weights are kept: a checkpoint of broken ones would be no use."""
        if not finite:
            raise self._stopped(step, "the weights are not finite numbers any more")

    def validated(self, step: int, cider: float, worth: float | None = None) -> bool:
        """Note a validation; the answer is whether it is the best so far: by CIDEr, or `worth`."""
        worth = cider if worth is None else worth
        better = worth > self.best_worth
        if better:
            self.best_cider, self.best_worth, self.best_step = cider, worth, step
        return better

    def judge(self, step: int, epoch: float, cider: float) -> None:
        """Stop if validations stay far below the best one; call it when that is saved."""
        bad = self._far_below(epoch, cider, self.best_cider)
        self.bad_validations = self.bad_validations + 1 if bad else 0
        if self.bad_validations == IN_A_ROW:
            why = f"CIDEr fell from {self.best_cider:.3f} at step {self.best_step} to {cider:.3f}"
            raise self._stopped(step, why)

    def _far_below(self, epoch: float, value: float, best: float) -> bool:
        """Of what was never above 0, as a reward of one's own may be, there is no share."""
        rules = self.rules
        return epoch >= rules.from_epoch and best > 0 and value < rules.fraction * best

    def _stopped(self, step: int, why: str) -> TrainingError:
        kept = f"The best weights are in {self.out / BEST}. " if self.kept else ""
        return TrainingError(f"step {step}", why, f"{kept}{self.advice} Then begin a new run.")

    @property
    def kept(self) -> bool:
        """Whether there is a best model on disk."""
        return self.best_step >= 0

    def state(self) -> dict[str, float]:
        """What a checkpoint has to keep."""
        numbers = {one.name: getattr(self, one.name) for one in fields(self)[3:]}
        return (
            numbers if self.kept else numbers | {"best_cider": 0.0, "best_worth": 0.0}
        )  # infinity is no JSON

    def restore(self, state: dict[str, float]) -> None:
        """Go on from a checkpoint."""
        self.best_step = int(state["best_step"])
        self.best_cider = state["best_cider"] if self.kept else -math.inf
        # Checkpoints of before there were rewards of one's own have CIDEr alone.
        self.best_worth = state.get("best_worth", self.best_cider) if self.kept else -math.inf
        self.best_reward = state["best_reward"]
        # Checkpoints of before the guard counted can still be gone on with.
        self.bad_validations = int(state.get("bad_validations", 0))
        self.bad_rewards = int(state.get("bad_rewards", 0))
