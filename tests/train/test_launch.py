"""Real workers of a few lines under the real launcher."""

import gc
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from naic.errors import ConfigError, TrainingError
from naic.train.launch import launch
from tests.train.processes import alive, seconds_until

WORKER = """
import os, signal, sys, time
from pathlib import Path
from naic.train.watchdog import watch_parent

watch_parent()
rank, folder = int(os.environ["RANK"]), Path(sys.argv[1])
"""
LAUNCHER = "import sys; from naic.train.launch import launch; sys.exit(launch(2, sys.argv[1:]))"
GROUP = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
assert total.item() == dist.get_world_size()
"""

# torch leaves /dev/null open, to which the other ranks' output goes.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed file .*/dev/null:ResourceWarning")


@pytest.fixture(autouse=True)
def _own_handlers() -> Iterator[None]:
    """Started in the background or under nohup, we inherit signals that are ignored.

    What is ignored here would be ignored by the launcher and its workers too. A handler of our own
    becomes the default one in them.
    """
    wanted: dict[signal.Signals, Any] = {
        signal.SIGINT: signal.default_int_handler,
        signal.SIGTERM: signal.SIG_DFL,
        signal.SIGHUP: signal.SIG_DFL,
    }
    before = {number: signal.signal(number, handler) for number, handler in wanted.items()}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _same_environment_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launcher leaves its mark in the environment; the next test shall not find it."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for name in ("NAIC_LAUNCHER_PID", "OMP_NUM_THREADS", "TORCHELASTIC_SIGNALS_TO_HANDLE"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def worker(folder: Path, *parts: str) -> Path:
    path = folder / "worker.py"
    path.write_text("".join((WORKER, *parts)))
    return path


def start(nproc: int, script: Path, *arguments: str) -> int:
    """In this very process: torch is here already, and takes seconds to import again."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        return launch(nproc, [str(script), str(script.parent), *arguments])
    finally:
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == handlers
        assert alive(str(script)) == []
        gc.collect()  # the warning, if any, comes here


def test_workers_find_each_other_and_rank_0_speaks(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    say = """
print("rank", rank, os.environ["WORLD_SIZE"], os.environ["LOCAL_RANK"], sys.argv[2:])
sys.stderr.write(f"note from {rank}\\n")
dist.destroy_process_group()
"""
    assert start(2, worker(tmp_path, GROUP, say), "$HOME", "a$$b", "${local_rank}") == 0
    out, err = capfd.readouterr()
    assert out == "rank 0 2 0 ['$HOME', 'a$$b', '${local_rank}']\n"
    assert sorted(err.splitlines()) == ["note from 0", "note from 1"]


def test_threads_are_shared_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = '(folder / f"threads-{rank}").write_text(os.environ["OMP_NUM_THREADS"])'
    script = worker(tmp_path, note)
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    assert start(2, script) == 0
    assert [(tmp_path / f"threads-{rank}").read_text() for rank in (0, 1)] == [
        str(max(1, cores // 2))
    ] * 2
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    assert start(1, script) == 0
    assert (tmp_path / "threads-0").read_text() == "7"


@pytest.mark.parametrize(
    ("ending", "code"),
    [
        ("sys.exit(2)", 2),
        ("sys.exit(1 if rank else 2)", 2),  # one lost its partner, which had been called wrongly
        ("sys.exit(3) if rank else time.sleep(600)", 3),
    ],
)
def test_the_workers_exit_code_comes_out(
    ending: str, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert start(2, worker(tmp_path, ending)) == code
    assert capfd.readouterr() == ("", "")  # what went wrong is the worker's to say


def test_a_killed_rank_is_named(tmp_path: Path) -> None:
    script = worker(tmp_path, "os.kill(os.getpid(), signal.SIGTERM) if rank else time.sleep(600)")
    with pytest.raises(TrainingError, match="rank 1: was killed by SIGTERM") as caught:
        start(2, script)
    assert "--resume auto" in str(caught.value)


def test_the_launcher_adds_no_noise(tmp_path: Path) -> None:
    script = worker(tmp_path, "os.kill(os.getpid(), signal.SIGKILL) if rank else time.sleep(600)")
    ended = subprocess.run(
        [sys.executable, "-c", LAUNCHER, str(script), str(tmp_path)], capture_output=True, text=True
    )
    assert ended.stderr.splitlines()[-1] == (
        "naic.errors.TrainingError: rank 1: was killed by SIGKILL, and the other workers were "
        "stopped. The same command with --resume auto goes on from the last checkpoint. "
        "Perhaps memory ran out."
    )
    assert "Sending process" not in ended.stderr
    assert (ended.returncode, ended.stdout) == (1, "")


def test_one_rank_killed_all_exit(tmp_path: Path) -> None:
    die = """
if rank:
    (folder / "killed").write_text(str(time.time()))
    os.kill(os.getpid(), signal.SIGKILL)
dist.all_reduce(total)
"""
    with pytest.raises(TrainingError, match="rank 1: was killed by SIGKILL"):
        start(2, worker(tmp_path, GROUP, die))  # asserts that nobody is left
    seconds = time.time() - float((tmp_path / "killed").read_text())
    print(f"one rank killed, the other in a collective: all gone after {seconds:.2f} s")
    assert seconds < 60


def test_one_rank_killed_while_the_other_holds_the_interpreter(tmp_path: Path) -> None:
    die = """
import ctypes
if rank:
    (folder / "killed").write_text(str(time.time()))
    os.kill(os.getpid(), signal.SIGKILL)
ctypes.PyDLL(None).sleep(600)
"""
    with pytest.raises(TrainingError, match="rank 1: was killed by SIGKILL"):
        start(2, worker(tmp_path, die))
    seconds = time.time() - float((tmp_path / "killed").read_text())
    print(f"one rank killed, the other in C code: all gone after {seconds:.2f} s")
    assert seconds < 60


def test_launcher_killed_all_exit(tmp_path: Path) -> None:
    hang = """
if rank:
    (folder / "ready").touch()
    time.sleep(600)
dist.all_reduce(total)  # rank 1 never comes
"""
    script = worker(tmp_path, GROUP, hang)
    with subprocess.Popen([sys.executable, "-c", LAUNCHER, script, tmp_path]) as process:
        seconds_until((tmp_path / "ready").exists, 60)
        assert len(alive(str(script))) == 3
        process.kill()
    seconds = seconds_until(lambda: not alive(str(script)), 10)
    print(f"launcher killed: all gone after {seconds:.2f} s")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143)])
def test_a_signal_to_the_launcher_stops_all(
    name: str, code: int, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    ask = f"""
try:
    if rank:
        while not (folder / "ready").exists():
            time.sleep(0.01)
        time.sleep(1)  # the launcher is to have begun its watch, too
        os.kill(os.getppid(), signal.{name})
    (folder / "ready").touch()
    while True:  # one long sleep may begin just after the signal came
        time.sleep(0.01)
except KeyboardInterrupt:
    (folder / f"interrupted-{{rank}}").touch()
"""
    assert start(2, worker(tmp_path, ask)) == code
    told = sorted(path.name for path in tmp_path.glob("interrupted-*"))
    assert told == (["interrupted-0", "interrupted-1"] if name == "SIGINT" else [])
    assert capfd.readouterr() == ("", "")


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """Under nohup: the terminal goes, the run stays."""
    ask = 'os.kill(os.getppid(), signal.SIGHUP)\ntime.sleep(0.3)\n(folder / "done").touch()'
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        assert start(1, worker(tmp_path, ask)) == 0
    finally:
        signal.signal(signal.SIGHUP, before)
    assert (tmp_path / "done").exists()


def test_no_workers_are_refused() -> None:
    with pytest.raises(ConfigError, match="--nproc: 0 is below 1"):
        launch(0, ["-c", ""])
