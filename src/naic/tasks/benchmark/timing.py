"""The clock: how long a pass takes, warm, with nothing else under way on the device."""

import math
import os
import platform
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

import torch

from naic.device import Place, device_name
from naic.text.vocabulary import PERIOD

WARM_UP, WARM_SECONDS = 3, 1.0  # passes before the clock counts; slow ones are warm after fewer
LEAST = 3  # passes that count, however slow they are
TURN = 0.05  # seconds that one may go on before it is the next one's turn
PACKAGES = ("torch", "numpy", "onnxruntime", "transformers")

NEVER = -1e4  # put on the period's score: it is not said, and nothing becomes no number

Run = Callable[[], object]


class Timed(NamedTuple):
    """What the clock said of one thing.

    Attributes:
        median_ms: half of the passes took less.
        p99_ms: one pass in a hundred took longer; of fewer than a hundred, the slowest.
        repeats: the passes that counted.
    """

    median_ms: float
    p99_ms: float
    repeats: int


def milliseconds(run: Run, device: torch.device) -> float:
    """One pass, from a device that has nothing to do to one that has nothing to do."""
    _wait(device)
    began = time.perf_counter()
    run()
    _wait(device)
    return 1000 * (time.perf_counter() - began)


def summary(times: Sequence[float]) -> Timed:
    """The median and the 99th percentile (by nearest rank) of some milliseconds."""
    ordered = sorted(times)
    slow = ordered[math.ceil(0.99 * len(ordered)) - 1]
    return Timed(statistics.median(ordered), slow, len(ordered))


def take_turns(
    runs: Mapping[str, Run], device: torch.device, seconds: float
) -> dict[str, Timed | Exception]:
    """Time several things for `seconds` each, or say why one could not be timed.

    They take turns, so that whatever else the machine does meanwhile slows them alike. A turn is
    several passes where these are short: a model finds its own data in the caches then, as it does
    in use.
    """
    found: dict[str, Timed | Exception] = {}
    times: dict[str, list[float]] = {}
    for name, run in runs.items():
        try:
            _warm(run, device)
            times[name] = []
        except Exception as error:  # of any kind: the others can still be timed
            found[name] = error
    while waiting := [own for own in times if own not in found and _wants(times[own], seconds)]:
        name = min(waiting, key=lambda own: sum(times[own]))
        try:
            _one_turn(runs[name], device, times[name])
        except Exception as error:
            found[name] = error
    return found | {name: summary(own) for name, own in times.items() if name not in found}


def _warm(run: Run, device: torch.device) -> None:
    spent = 0.0
    for _ in range(WARM_UP):
        spent += milliseconds(run, device)
        if spent > 1000 * WARM_SECONDS:
            break


def _wants(times: Sequence[float], seconds: float) -> bool:
    return len(times) < LEAST or sum(times) < 1000 * seconds


def _one_turn(run: Run, device: torch.device, times: list[float]) -> None:
    spent = 0.0
    while spent < 1000 * TURN:
        times.append(milliseconds(run, device))
        spent += times[-1]


def _wait(device: torch.device) -> None:
    """Until the device has done all it was told to."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def machine(device: torch.device | Place) -> dict[str, Any]:
    """What it was measured on, as far as it can be found out."""
    # The cores that this process may use: a container may have fewer than its machine.
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    found: dict[str, Any] = {
        "system": platform.platform(terse=True),
        "processor": _processor(),
        "cores": cores,
        "threads": torch.get_num_threads(),
        "load": round(os.getloadavg()[0], 2),
        "device": device_name(device),
        "python": platform.python_version(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
    }
    if device.type == "cuda":
        memory = torch.cuda.get_device_properties(str(device)).total_memory
        found |= {"gpu_memory_gib": round(memory / 2**30, 1), "driver": _driver()}
        found |= {"cuda": torch.version.cuda}
    return found


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:  # no Linux
        pass
    return platform.processor() or platform.machine()


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _driver() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    asked = [program, "--query-gpu=driver_version", "--format=csv,noheader"]
    try:
        said = subprocess.run(asked, capture_output=True, text=True, timeout=20, check=True)  # noqa: S603 - nothing in it is a user's
    except (OSError, subprocess.SubprocessError):
        return ""
    return (said.stdout.splitlines() or [""])[0].strip()


@torch.no_grad()
def never_end(teacher: Any) -> None:  # noqa: ANN401 - any with an output layer in its decoder
    """Let it say no period: its time then depends on its places, and not on what it says."""
    teacher.decoder.output.bias[PERIOD] = NEVER
