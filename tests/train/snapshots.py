"""Checkpoints to save and to compare, and a kill at any call to the system."""

import sys
from collections.abc import Callable
from pathlib import Path

import torch

from naic.train.checkpoint import Snapshot

FILES = ("model.safetensors", "optimiser.safetensors", "average.safetensors", "state.json")


def snapshot(step: int) -> Snapshot:
    """Different tensors at each step, so that one cannot be taken for another."""
    weights = {
        "a.weight": torch.full((2, 3), float(step)),
        "b": torch.tensor([step], dtype=torch.bfloat16),
    }
    optimiser = {"exp_avg/b": torch.tensor([0.5 * step]), "step/b": torch.tensor(step)}
    return Snapshot(step, weights, optimiser, {}, {"seed": 7, "rng": ["00ff"], "best": 0.1 + step})


def assert_same(found: Snapshot, expected: Snapshot) -> None:
    assert (found.step, found.state) == (expected.step, expected.state)
    for part in ("model", "optimiser", "average"):
        mine, theirs = getattr(found, part), getattr(expected, part)
        assert mine.keys() == theirs.keys()
        for name in theirs:
            assert mine[name].dtype == theirs[name].dtype
            assert torch.equal(mine[name], theirs[name])


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


class Killed(BaseException):
    """What a process does no more."""


class Killer:
    """Lets so many calls to the system through, and none after that: a process that is dead.

    An audit hook sees files opened, made, renamed, linked and removed; fsync has no event of its
    own. Since nothing works after the kill, tidying up in `except` and `finally` does not either.
    """

    EVENTS = frozenset(
        ["open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.symlink", "os.scandir"]
    )

    def __init__(self) -> None:
        self.left: int | None = None
        sys.addaudithook(lambda event, _: self.call() if event in self.EVENTS else None)

    def call(self) -> None:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Killed

    def kills(self, calls: int, work: Callable[[], object]) -> bool:
        """Whether `work` was killed before it was done."""
        self.left = calls
        try:
            work()
        except Killed:
            return True
        finally:
            self.left = None
        return False
