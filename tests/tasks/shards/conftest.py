"""A captioner and a teacher that nobody trained."""

from pathlib import Path

import pytest

from tests.runtime.small import NETWORK, PIXELS, make_model


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder `seeing`, a captioner with a backbone inside; `teacher`, one of features."""
    folder = tmp_path_factory.mktemp("models")
    make_model(folder / "seeing", backbone=NETWORK)
    make_model(folder / "teacher", "causal", pixels=PIXELS)
    return folder
