"""One reproduction with all its tables, for all tests that only look at it."""

from pathlib import Path

import pytest

from naic.tasks.reproduce.run import reproduce
from tests.models.conftest import one_thread
from tests.tasks.reproduce.micro import Heard, make_options, write_preset
from tests.train.runs import on_one_thread

__all__ = ["one_thread"]
ALL_TABLES = "baselines,topk,unlabelled,fill"


@pytest.fixture(scope="session")
def preset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_preset(tmp_path_factory.mktemp("presets") / "micro")


@pytest.fixture(scope="session")
def whole(preset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run."""
    out = tmp_path_factory.mktemp("whole") / "run"
    with on_one_thread():
        reproduce(make_options(preset, out, tables=ALL_TABLES), Heard().callbacks, "naic reproduce")
    return out


@pytest.fixture(scope="session")
def short(preset: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of the short form."""
    out = tmp_path_factory.mktemp("short") / "run"
    with on_one_thread():
        reproduce(
            make_options(preset, out, quick=True), Heard().callbacks, "naic reproduce --quick"
        )
    return out
