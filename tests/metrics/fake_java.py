"""Stands in for java in the tests: a small Python script put first in PATH."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

PROLOGUE = """#!{python} -S
import os, signal, subprocess, sys, time
folder = {folder!r}
if "-version" in sys.argv:
    sys.stderr.write('openjdk version "17.0.1" 2021-10-19\\n')
    sys.exit(0)
def remember(pid):
    with open(os.path.join(folder, "pids"), "a") as file:
        file.write(f"{{pid}}\\n")
def argument(name):
    return sys.argv[sys.argv.index(name) + 1]
remember(os.getpid())
"""


class FakeJava:
    """A java that does what a test says, and whose processes the test can look for."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.path = folder / "bin" / "java"
        self.path.parent.mkdir()
        monkeypatch.delenv("JAVA_HOME", raising=False)
        monkeypatch.setenv("PATH", f"{self.path.parent}:/usr/bin:/bin")

    def does(self, body: str) -> None:
        """Let it run these lines of Python after it has said its version when asked."""
        prologue = PROLOGUE.format(python=sys.executable, folder=str(self.folder))
        self.path.write_text(prologue + body)
        self.path.chmod(0o755)

    def left(self) -> list[int]:
        """The processes it started, itself among them, that have not ended within five seconds."""
        pids = [int(line) for line in (self.folder / "pids").read_text().split()]
        assert pids
        for _ in range(100):
            running = [pid for pid in pids if is_running(pid)]
            if not running:
                break
            time.sleep(0.05)
        return running


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be reaped."""
    done = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()[:1] not in ("", "Z")
