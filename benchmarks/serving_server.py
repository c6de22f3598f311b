"""`naic serve` as a process of its own, as a benchmark knows it; and clients as another."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
from benchmarks.caption_folder import resident

STARTING, ENDING = 120.0, 60.0  # seconds: longer than it ever takes


class Serving:
    """A server that runs.

    Attributes:
        address: where.
        said: what it wrote to standard error.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.address = ""
        self.said: list[str] = []
        self._ready = threading.Event()
        threading.Thread(target=self._hear, daemon=True).start()
        if not self._ready.wait(STARTING) or not self.address:
            process.kill()
            raise SystemExit(f"naic serve did not start: {' '.join(self.said)}")

    def _hear(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self.said.append(line.rstrip())
            if ": http://" in line:
                self.address = line.split()[2]
                self._ready.set()
        self._ready.set()

    @property
    def resident(self) -> int:
        """Bytes that it has in memory now."""
        return resident(self._process.pid)

    def number(self, name: str) -> float:
        """One of its metrics: all lines that begin so."""
        lines = httpx.get(f"{self.address}/metrics", timeout=ENDING).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    def stop(self) -> tuple[float, int]:
        """Send SIGTERM; the seconds until it had ended, and its exit code."""
        began = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        code = self._process.wait(ENDING)
        return time.monotonic() - began, code


@contextlib.contextmanager
def serving(temporary: Path, *options: str) -> Iterator[Serving]:
    """A server with the shipped model and its own defaults, but for a free port.

    Args:
        temporary: where it would put temporary files.
        options: further ones.
    """
    words = [sys.executable, "-m", "naic", "serve", "--port", "0", *options]
    with subprocess.Popen(
        words,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(temporary)},
    ) as process:
        try:
            yield Serving(process)
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait(ENDING)


def clients(address: str, known: Path, count: int, seconds: float) -> "subprocess.Popen[bytes]":
    """Have so many clients ask for so long."""
    words = [sys.executable, "-m", "benchmarks.serving_client", address, str(known)]
    words += ["--clients", str(count), "--seconds", str(seconds)]
    return subprocess.Popen(words, stdout=subprocess.PIPE)


def heard(running: "subprocess.Popen[bytes]") -> dict[str, Any]:
    """What happened to them."""
    told, _ = running.communicate()
    if running.returncode:
        raise SystemExit(f"the clients ended with {running.returncode}")
    found: dict[str, Any] = json.loads(told)
    return found


def quantile(values: Sequence[float], share: float) -> float:
    """The value that this share of them does not exceed; 0 of none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0
