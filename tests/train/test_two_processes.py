"""Two processes that share a batch learn what one learns from all of it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from naic.train.config import settings_toml
from naic.train.logs import read_metrics
from naic.train.loop import train
from tests.train.processes import seconds_until
from tests.train.runs import EPOCH, make_learnable_store, run_settings

STEPS = 50


def losses(run: Path) -> list[float]:
    return [float(line["loss"]) for line in read_metrics(run) if "loss" in line]


def norms(run: Path) -> list[float]:
    return [float(line["gradient"]) for line in read_metrics(run) if "loss" in line]


def test_the_loss_is_that_of_one_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if each of them takes its share in two parts."""
    make_learnable_store(tmp_path / "store")
    rare = {"validate_every": 100.0, "save_every": 100.0}
    settings = run_settings(epochs=STEPS / EPOCH, model={"dropout": 0.0}, run=rare)
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "config.toml").write_text(settings_toml(settings))
    words = ["config.toml", "--nproc", "2", "--out", "shared", "--run.accumulate", "2"]
    done = subprocess.run(
        [sys.executable, "-m", "naic", "train", *words],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    monkeypatch.chdir(folder)
    train(settings)
    alone, shared = folder / "run", folder / "shared"
    assert len(losses(alone)) == STEPS
    assert losses(alone)[-1] < 0.5 * losses(alone)[0]
    assert losses(shared) == pytest.approx(losses(alone), rel=1e-4)
    assert norms(shared) == pytest.approx(norms(alone), rel=1e-3)
    assert done.stdout.count("best model: ") == 1  # process 0 alone speaks


def test_ctrl_c_at_the_terminal_is_told_of_once(tmp_path: Path) -> None:
    make_learnable_store(tmp_path / "store")
    folder = tmp_path / "here"
    folder.mkdir()
    (folder / "config.toml").write_text(settings_toml(run_settings(epochs=1e6)))
    with subprocess.Popen(
        [sys.executable, "-m", "naic", "train", "config.toml", "--nproc", "2"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        seconds_until((folder / "run" / "checkpoints").exists, 60)
        os.killpg(process.pid, signal.SIGINT)  # a terminal tells all of them
        told = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert told.count("naic train: stopped.") == 1
    assert "Traceback" not in told
