"""A captioner and a teacher that nobody trained."""

from pathlib import Path

import pytest

from naic.tasks.beside import put_graphs
from tests.runtime.small import NETWORK, PIXELS, make_model


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `seeing`, a captioner with a backbone inside; `teacher`, one of features.

    The captioner has its graph: a process that needs no torch starts in half a second.
    """
    folder = tmp_path_factory.mktemp("models")
    put_graphs(make_model(folder / "seeing", backbone=NETWORK), ("float32",))
    make_model(folder / "teacher", "causal", pixels=PIXELS)
    return folder
