"""Two machines that train together learn what one learns, and one goes on alone."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from naic.train import checkpoint
from naic.train.config import settings_toml
from naic.train.logs import read_metrics
from naic.train.loop import train
from naic.train.settings import Baseline, Settings
from tests.train.nodes import Machines, free_port, listened_to, machines, saying, words_of
from tests.train.processes import seconds_until
from tests.train.runs import EPOCH, make_home, on_one_thread, run_settings
from tests.train.test_two_processes import losses, norms

ALIKE = 1e-6  # relative, of what is logged: it is summed over processes otherwise than over parts
QUIET = {"validate_every": 100.0, "save_every": 1.0}
GONE = "naic train: this process: another process of the run is gone"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def pool() -> Iterator[Machines]:
    with machines() as found:
        yield found


@pytest.fixture
def first(home: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder that the first machine works in; the second has one of its own."""
    for name in ("store", "teacher"):
        (tmp_path / name).symlink_to(home / name)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "first")
    return tmp_path / "first"


def configure(first: Path, settings: Settings) -> Settings:
    """Both machines have the settings, and nothing else in common but the features."""
    for folder in (first, first.parent / "second"):
        (folder / "config.toml").write_text(settings_toml(settings))
    return settings


def start_both(pool: Machines, first: Path, *options: str, **second: Any) -> list[int]:
    """Both, with the same options; what else is said is for the second alone."""
    port = free_port()
    own = {"said": second.get("said", 0)}
    return [
        pool.start(first, words_of(0, port, *options), **own),
        pool.start(first.parent / "second", words_of(1, port, *options), **second),
    ]


def weights(run: Path, step: int) -> list[bytes]:
    """What was learnt, and what the optimiser remembers, to the bit."""
    folder = run / "checkpoints" / f"step-{step:08d}"
    return [(folder / f"{part}.safetensors").read_bytes() for part in checkpoint.PARTS]


def in_parts(settings: Settings) -> Settings:
    """One process that takes its steps in two parts adds up what two processes add up."""
    return replace(settings, run=replace(settings.run, accumulate=2))


def longer(settings: Settings, steps: int) -> Settings:
    return replace(settings, run=replace(settings.run, epochs=steps / EPOCH))


def test_one_two_and_one_again_are_one(pool: Machines, first: Path) -> None:
    """One machine begins, another joins it and is killed, and the first one ends alone.

    Each of the two has half of the features. Alone it takes its steps in two parts, at first since
    it is told to, at last by itself.
    """
    data = {"spread": 2}
    begun = run_settings(epochs=1.0, model={"dropout": 0.0}, data=data, run=QUIET)
    settings = configure(first, longer(begun, 40))
    with on_one_thread():
        train(in_parts(begun))
    both = start_both(pool, first, "--resume", "auto", dies_at=13)
    assert [pool.wait(machine) for machine in both] == [1, -9]
    told = (first.parent / "first.log").read_text()
    assert told.count(GONE) == 1, told
    assert "Traceback" not in told.partition(GONE)[0]
    assert not (first.parent / "second" / "run").exists()
    checkpoints = sorted(path.name for path in Path("run/checkpoints").iterdir())
    assert checkpoints[-1] == "step-00000010"
    with on_one_thread():
        train(longer(settings, 20), resume=True)
        train(replace(in_parts(longer(settings, 20)), out=Path("alone")))
    alone, shared = Path("alone"), Path("run")
    assert len(losses(alone)) == 20
    assert losses(alone)[-1] < 0.9 * losses(alone)[0]
    assert losses(shared) == pytest.approx(losses(alone), rel=ALIKE)
    assert norms(shared) == pytest.approx(norms(alone), rel=ALIKE)
    assert weights(shared, 20) == weights(alone, 20)


def values(run: Path, name: str) -> list[float]:
    return [float(line[name]) for line in read_metrics(run) if "reward" in line]


@pytest.mark.parametrize("baseline", ["cf", "ma"])
def test_rewards_teach_two_machines_what_they_teach_one(
    baseline: Baseline, pool: Machines, first: Path
) -> None:
    """CMAL: of its sentences, drawn by chance otherwise, each agent says its second word here.

    The moving average remembers the mean reward of both.
    """
    never = {"validate_every": 100.0, "save_every": 100.0}
    quiet: dict[str, Any] = {"model": {"dropout": 0.0}, "run": never}
    chosen = run_settings("cmal", epochs=2.4, cmal={"baseline": baseline}, **quiet)
    settings = configure(first, chosen)
    both = start_both(pool, first, "--out", "shared", said=1)
    assert [pool.wait(machine) for machine in both] == [0, 0], Path("../first.log").read_text()
    with on_one_thread(), saying(1):
        train(in_parts(settings))
    alone, shared = Path("run"), Path("shared")
    for name in ("reward", "loss", "gradient", *(["baseline"] if baseline == "ma" else [])):
        expected = values(alone, name)
        assert len({*expected}) > 10, name
        assert values(shared, name) == pytest.approx(expected, rel=ALIKE, abs=1e-6), name
    assert weights(shared, 12) == weights(alone, 12)


@pytest.mark.slow
def test_a_frozen_machine_is_not_waited_for_for_ever(pool: Machines, first: Path) -> None:
    """As one whose cable was pulled: nobody says that it is gone."""
    configure(first, run_settings(epochs=8.0, run=QUIET))
    patience = 2.0
    words = ("--engine.patience", str(patience / 60))
    both = start_both(pool, first, *words, dies_at=13, by=signal.SIGSTOP)
    began = time.monotonic()
    try:
        assert pool.wait(both[0]) == 1
    finally:
        os.killpg(both[1], signal.SIGKILL)
    assert patience < time.monotonic() - began < patience + 60
    assert pool.wait(both[1]) == -signal.SIGKILL
    told = (first.parent / "first.log").read_text()
    assert told.count(GONE) == 1, told
    assert "Timed out" in told


@pytest.mark.slow
def test_the_machine_that_is_left_goes_on_by_itself(first: Path) -> None:
    """The program torchrun itself, told that one machine will do; the other is killed."""
    rare = QUIET | {"save_every": 4.0}
    settings = configure(first, run_settings(epochs=100.0, model={"dropout": 0.0}, run=rare))
    port = free_port()
    words = ["--nnodes", "1:2", "--max-restarts", "1", "--nproc-per-node", "1"]
    words += ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"127.0.0.1:{port}"]
    words += ["--rdzv-id", "test", "--rdzv-conf", "last_call_timeout=10"]
    words += ["-m", "naic", "train", "config.toml", "--resume", "auto"]
    program = [sys.executable, "-m", "torch.distributed.run", *words]
    with Path("one.log").open("w") as log, subprocess.Popen(program, stderr=log) as one:
        seconds_until(lambda: listened_to(port), 60)  # by the one that is to be left
        with subprocess.Popen(program, stderr=subprocess.DEVNULL, start_new_session=True) as other:
            seconds_until(lambda: len(losses(first / "run")) > 25, 120)
            os.killpg(other.pid, signal.SIGKILL)
        assert one.wait(300) == 0
    told = Path("one.log").read_text()
    assert told.count(GONE) == 1
    assert "each takes its share of a step in 2 parts" in told
    report = json.loads((first / "run" / "report.json").read_text())
    assert (report["processes"], report["steps"]) == (1, 100 * EPOCH)
    steps = [int(line["step"]) for line in read_metrics(first / "run") if "loss" in line]
    assert steps == list(range(1, 100 * EPOCH + 1))
    with on_one_thread():
        train(replace(in_parts(settings), out=Path("alone")))
    assert losses(first / "run") == pytest.approx(losses(Path("alone")), rel=ALIKE)
    assert weights(first / "run", 100 * EPOCH) == weights(Path("alone"), 100 * EPOCH)
