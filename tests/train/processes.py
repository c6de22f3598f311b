"""Looking at processes from outside: who lives, and for how long."""

import os
import subprocess
import time
from collections.abc import Callable


def alive(token: str) -> list[int]:
    """The processes whose command line has `token`; those that are dead but not buried have none.

    Tests put a path of their own into the arguments, so that no other process is meant.
    """
    return [pid for pid, _, command in _all() if token in command]


def children(parent: int, token: str) -> list[int]:
    """The processes that `parent` started and whose command line has `token`."""
    return [pid for pid, started_by, command in _all() if started_by == parent and token in command]


def gone(pid: int) -> bool:
    """Whether there is no such process any more."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


def seconds_until(condition: Callable[[], bool], limit: float) -> float:
    """How long it took until `condition` held; a test fails at the limit."""
    began = time.monotonic()
    while not condition():
        assert time.monotonic() - began < limit, f"not within {limit} s"
        time.sleep(0.02)
    return time.monotonic() - began


def _all() -> list[tuple[int, int, str]]:
    """Pid, parent's pid and command line of every process."""
    columns = ["-o", "pid=", "-o", "ppid=", "-o", "command="]
    listed = subprocess.run(["ps", "-axww", *columns], capture_output=True, text=True, check=True)
    lines = [line.split(maxsplit=2) for line in listed.stdout.splitlines()]
    return [(int(line[0]), int(line[1]), line[-1]) for line in lines]
