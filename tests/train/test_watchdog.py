"""Orphans: a launcher is killed with -9 while its workers are stuck in one way or another."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from naic.train.watchdog import LAUNCHER_PID
from tests.train.processes import alive, seconds_until

LIMIT = 10.0

# Starts argv[1] with the rest, waits for it.
LAUNCHER = """
import os, subprocess, sys
os.environ["NAIC_LAUNCHER_PID"] = str(os.getpid())
subprocess.run([sys.executable, *sys.argv[1:]], start_new_session=True)
"""
# Says that it is there (argv[2]), then hangs in one way (argv[1]).
WORKER = """
import ctypes, socket, sys, time
from pathlib import Path
from naic.train.watchdog import watch_parent

watch_parent()
there, way_out = socket.socketpair()
Path(sys.argv[2]).touch()
if sys.argv[1] == "sleep":
    time.sleep(600)
elif sys.argv[1] == "recv":
    there.recv(1)
else:  # C code that does not release the interpreter: no thread of ours runs
    ctypes.PyDLL(None).sleep(600)
"""


@pytest.mark.parametrize(
    "way",
    [
        "sleep",
        "recv",
        pytest.param(
            "C code",
            marks=pytest.mark.skipif(sys.platform != "linux", reason="only Linux's kernel helps"),
        ),
    ],
)
def test_a_worker_dies_with_its_launcher(way: str, tmp_path: Path) -> None:
    launcher, worker, ready = (tmp_path / name for name in ("launcher.py", "worker.py", "ready"))
    launcher.write_text(LAUNCHER)
    worker.write_text(WORKER)
    command = [sys.executable, str(launcher), str(worker), way, str(ready)]
    with subprocess.Popen(command) as process:
        seconds_until(ready.exists, LIMIT)
        workers = [pid for pid in alive(str(worker)) if pid != process.pid]
        assert len(workers) == 1
        process.kill()
    print(f"{way}: gone after {seconds_until(lambda: not alive(str(worker)), LIMIT):.2f} s")


def test_polling_alone_is_enough(tmp_path: Path) -> None:
    """What macOS has to do without its kernel's help."""
    launcher, worker, ready = (tmp_path / name for name in ("launcher.py", "worker.py", "ready"))
    launcher.write_text(LAUNCHER)
    worker.write_text("import sys\nsys.platform = 'darwin'\n" + WORKER)
    with subprocess.Popen([sys.executable, launcher, worker, "recv", ready]) as process:
        seconds_until(ready.exists, LIMIT)
        process.kill()
    print(f"polling: gone after {seconds_until(lambda: not alive(str(worker)), LIMIT):.2f} s")


def run_worker(launcher: str) -> subprocess.CompletedProcess[str]:
    code = "from naic.train.watchdog import watch_parent; watch_parent(); print('goes on')"
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, LAUNCHER_PID: launcher},
        capture_output=True,
        text=True,
    )


def test_a_launcher_that_died_before_the_watch_began_is_missed() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as gone:
        pass
    ended = run_worker(str(gone.pid))
    assert (ended.returncode, ended.stdout, ended.stderr) == (1, "", "")


def test_a_worker_with_its_launcher_goes_on() -> None:
    ended = run_worker(str(os.getpid()))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "goes on\n", "")


def test_programs_that_a_worker_starts_do_not_take_its_launcher_for_theirs() -> None:
    inner = "from naic.train.watchdog import watch_parent; watch_parent(); print('goes on')"
    code = (
        "import subprocess, sys; from naic.train.watchdog import watch_parent; watch_parent();"
        f'sys.exit(subprocess.run([sys.executable, "-c", {inner!r}]).returncode)'
    )
    environment = {**os.environ, LAUNCHER_PID: str(os.getpid())}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
