"""Processes that make stages for another one do not outlive it, and say so when they are killed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from naic.errors import TrainingError
from naic.tasks.reproduce.run import reproduce
from naic.tasks.reproduce.stage_runner import StageRunner
from tests.tasks.reproduce.micro import Heard, make_options, write_preset

PATIENCE = 60


def alive(group: int) -> list[str]:
    """The processes of a group that run; what is dead and not yet taken note of does not."""
    words = ["ps", "-A", "-o", "pgid=", "-o", "stat=", "-o", "pid="]
    found = subprocess.run(words, capture_output=True, check=True)
    rows = [line.split() for line in found.stdout.decode().splitlines()]
    return [pid for own, state, pid in rows if int(own) == group and not state.startswith("Z")]


def test_nobody_is_left_after_a_kill(tmp_path: Path) -> None:
    """Nor one that had nothing to do: the pool starts a new process as soon as one has ended."""
    chain = write_preset(tmp_path / "p", preset={"systems": ["AIC beam 3"]})  # one at a time
    words = ["reproduce", "--preset", str(chain), "--out", str(tmp_path / "out")]
    with subprocess.Popen(
        [sys.executable, "-m", "naic", *words, "--device", "cpu", "--fast", "--jobs", "2"],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        try:
            assert any(line == b"features: done\n" for line in process.stderr)
            time.sleep(1)  # by then the new one waits
        finally:
            process.kill()
    end = time.monotonic() + PATIENCE
    while left := alive(process.pid):
        assert time.monotonic() < end, f"still there: {left}"
        time.sleep(0.2)


def test_a_process_that_was_killed_is_told(
    preset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StageRunner, "__reduce__", _deadly)
    options = make_options(preset, tmp_path / "out", quick=True, jobs=2)
    with pytest.raises(TrainingError, match=r"features: a process was ended from outside"):
        reproduce(options, Heard().callbacks)


def _deadly(_: StageRunner) -> tuple[object, tuple[int, int]]:
    """What unpickles it, in the other process, is its end."""
    return _kill_self, (0, signal.SIGKILL)


def _kill_self(_: int, how: int) -> None:
    os.kill(os.getpid(), how)
