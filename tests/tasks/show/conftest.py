"""A run of a second, for what `naic show` has to understand."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from naic.train.loop import train
from tests.train.runs import make_learnable_store, make_settings, on_one_thread


@pytest.fixture
def train_shortly() -> Callable[[Path], dict[str, Any]]:
    """Trains in FOLDER/run; gives the report."""

    def run(folder: Path) -> dict[str, Any]:
        make_learnable_store(folder / "store")
        settings = make_settings(folder / "store", folder / "run", optimiser={"average": 0.0})
        with on_one_thread():
            return train(settings, command="naic train config.toml")

    return run
