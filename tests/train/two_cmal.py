"""A CMAL run without chance, by one process or two: what they learn can be compared.

python -m tests.train.two_cmal PROCESSES STORE STUDENT OUT
"""

import sys
from pathlib import Path

import pytest

from naic.train import cmal_stage
from naic.train.launch import launch
from naic.train.loop import train
from tests.train.runs import EPOCH, make_settings

STEPS = 12


def learn(store: Path, student: Path, out: Path) -> None:
    """Each agent says its second word: processes have noise of their own, and none is wanted."""
    settings = make_settings(
        store,
        out,
        "cmal",
        start=str(student),
        model={"dropout": 0.0},
        cmal={"baseline": "ma"},
        run={"epochs": STEPS / EPOCH, "validate_every": 100.0, "save_every": 100.0},
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cmal_stage, "choose", lambda log_probs: log_probs.topk(2).indices[..., 1])
        train(settings)


if __name__ == "__main__":
    processes, *paths = sys.argv[1:]
    if processes == "1":
        learn(*map(Path, paths))
    else:
        sys.exit(launch(int(processes), ["-m", "tests.train.two_cmal", "1", *paths]))
