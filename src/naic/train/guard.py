"""Stops a run that has gone wrong, while the best weights are still there, and says what to do."""

import math
from dataclasses import dataclass

from naic.errors import TrainingError
from naic.train.config import Settings

_ADVICE = {
    "teacher_xe": "Lower schedule.learning_rate, or warm up longer (schedule.warmup_steps).",
    "student_xe": "Lower schedule.learning_rate, or warm up longer (schedule.warmup_steps).",
    "scst": (
        "Lower schedule.learning_rate (5e-6 to 1e-5 held where 3e-5 collapsed), start from a "
        "teacher trained without label smoothing, or take more scst.samples."
    ),
    "cmal": "Lower schedule.learning_rate, or train the student longer by cross-entropy first.",
}


@dataclass
class Guard:
    """Remembers the best validation and reward; `state` goes into checkpoints."""

    settings: Settings
    best_cider: float = -math.inf
    best_step: int = -1
    best_reward: float = 0.0

    def logged(self, step: int, epoch: float, logs: dict[str, float]) -> None:
        """Look at the mean values since the last line of the log."""
        bad = [name for name, value in logs.items() if not math.isfinite(value)]
        if bad:
            raise self._stopped(step, f"{', '.join(bad)} is not a finite number any more")
        reward = logs.get("reward")
        if reward is None:
            return
        self.best_reward = max(self.best_reward, reward)
        if self._watching(epoch) and reward < self.settings.guard.fraction * self.best_reward:
            why = f"the reward collapsed from {self.best_reward:.3f} to {reward:.3f}"
            raise self._stopped(step, why)

    def validated(self, step: int, cider: float) -> bool:
        """Note a validation; the answer is whether it is the best so far."""
        better = cider > self.best_cider
        if better:
            self.best_cider, self.best_step = cider, step
        return better

    def judge(self, step: int, epoch: float, cider: float) -> None:
        """Stop if the validation is far below the best one; call it when that is saved."""
        if self._watching(epoch) and cider < self.settings.guard.fraction * self.best_cider:
            why = f"CIDEr fell from {self.best_cider:.3f} at step {self.best_step} to {cider:.3f}"
            raise self._stopped(step, why)

    def _watching(self, epoch: float) -> bool:
        return epoch >= self.settings.guard.from_epoch

    def _stopped(self, step: int, why: str) -> TrainingError:
        kept = f"The best weights are in {self.settings.out / 'best'}. " if self.kept else ""
        return TrainingError(
            f"step {step}", why, f"{kept}{_ADVICE[self.settings.stage]} Then begin a new run."
        )

    @property
    def kept(self) -> bool:
        """Whether there is a best model on disk."""
        return self.best_step >= 0

    def state(self) -> dict[str, float]:
        """What a checkpoint has to keep."""
        return {
            "best_cider": self.best_cider if self.kept else 0.0,
            "best_step": self.best_step,
            "best_reward": self.best_reward,
        }

    def restore(self, state: dict[str, float]) -> None:
        """Go on from a checkpoint."""
        self.best_step = int(state["best_step"])
        self.best_cider = state["best_cider"] if self.kept else -math.inf
        self.best_reward = state["best_reward"]
