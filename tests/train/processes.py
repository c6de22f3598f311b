"""Looking at processes from outside: who lives, and for how long."""

import os
import subprocess
import time
from collections.abc import Callable


def alive(token: str) -> list[int]:
    """The processes whose command line has `token`; those that are dead but not buried have none.

    Tests put a path of their own into the arguments, so that no other process is meant.
    """
    listed = subprocess.run(
        ["ps", "-axww", "-o", "pid=,command="], capture_output=True, text=True, check=True
    )
    lines = [line.strip().partition(" ") for line in listed.stdout.splitlines()]
    return [int(pid) for pid, _, command in lines if token in command]


def seconds_until(condition: Callable[[], bool], limit: float) -> float:
    """How long it took until `condition` held; a test fails at the limit."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit, f"not within {limit} s"
        time.sleep(0.02)
    return time.monotonic() - began


def children(parent: int, token: str) -> list[int]:
    """The processes that `parent` started and whose command line has `token`."""
    listed = subprocess.run(
        ["ps", "-axww", "-o", "pid=,ppid=,command="], capture_output=True, text=True, check=True
    )
    lines = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [int(line[0]) for line in lines if int(line[1]) == parent and token in line[-1]]


def gone(pid: int) -> bool:
    """Whether there is no such process any more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False
