"""Other captioners that write word by word learn by both stages, and go on after a kill."""

from pathlib import Path
from typing import Any

import pytest

from naic.models.folder import load_model
from naic.train.engine import TrainingEngine
from naic.train.logs import read_metrics
from naic.train.loop import train
from tests.train.runs import COMMAND, make_learnable_store, on_one_thread, run_settings
from tests.train.sameness import differences
from tests.train.test_resume import broken_off

CAPTIONERS = ["eta", "ort"]
STEP = (TrainingEngine, "step")
SCST = {"start": "../teacher/best", "schedule": {"learning_rate": 3e-4}}


@pytest.fixture(params=CAPTIONERS)
def captioner(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def home(captioner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A store of grids of four cells; the working folder is beside it."""
    make_learnable_store(tmp_path / "store", regions=4)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    return tmp_path


def logged(run: Path, what: str) -> list[float]:
    return [float(line[what]) for line in read_metrics(run) if what in line]


def test_it_learns_and_a_kill_changes_no_bit(
    captioner: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(stage: str, **tables: Any) -> Any:
        return run_settings(stage, captioner=captioner, **tables)

    with on_one_thread():
        train(run("teacher_xe", out="../teacher", epochs=24.0), command=COMMAND)
        losses = logged(home / "teacher", "loss")
        assert losses[0] > 2.5
        assert sum(losses[-5:]) / 5 < 0.9
        assert load_model(home / "teacher" / "best").settings.captioner == captioner
        chosen = [
            run("teacher_xe", out="xe", epochs=1.6),
            run("scst", out="rl", model=None, **SCST),
        ]
        for settings in chosen:
            train(settings, command=COMMAND)
        monkeypatch.chdir(home / "two")
        for settings in chosen:
            broken_off(STEP, 6, settings)
            train(settings, command=COMMAND, resume=True)
    for name in ("xe", "rl"):
        assert differences(home / "one" / name, home / "two" / name) == []
    rewards = logged(home / "one" / "rl", "reward")
    assert min(rewards) > 0
