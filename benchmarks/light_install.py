"""From an empty environment to the first caption: megabytes and seconds, with torch and without.

python benchmarks/light_install.py dist/naic-*.whl --photo photo.jpg \
    --out docs/results/light/install.json

Two environments are made, one after the other, each with a cache of its own that is empty: one with
the wheel alone, and one with torch as well (the build that the package index has). Seconds of pip
depend on the network and are told, not compared. Run it on a quiet machine.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from naic.device import CPU
from naic.files import write_atomically
from naic.tasks.benchmark.timing import machine

TURNS = 5
WAYS: dict[str, list[str]] = {"without torch": [], "with torch": ["torch==2.13.0"]}
# As a program begins: the name that programs use, and all that `naic caption` has imported when it
# knows its options.
IMPORTS = {
    "import naic": "from naic import Captioner",
    "import onnxruntime": "import onnxruntime",
    "import torch": "import torch",
}
PEAK = """
import resource, subprocess, sys
done = subprocess.run([sys.executable, "-m", "naic", *sys.argv[1:]], check=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def folder_bytes(folder: Path) -> int:
    """Of all files beneath it."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """How long a program takes, from its start to its end."""
    begin = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True, env=environment)
    return time.perf_counter() - begin


def measure(wheel: Path, photo: Path, packages: Sequence[str], folder: Path) -> dict[str, Any]:
    """One environment."""
    subprocess.run([sys.executable, "-m", "venv", folder / "env"], check=True)
    python, cache = str(folder / "env" / "bin" / "python"), folder / "cache"
    own = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "NAIC_"))}
    own["NAIC_CACHE"] = str(cache)
    site = next((folder / "env").glob("lib/python3.*/site-packages"))
    empty = folder_bytes(site)  # pip itself
    pip = [python, "-m", "pip", "install", "--quiet", "-c", "constraints.txt"]
    found: dict[str, Any] = {"pip, s": seconds([*pip, *packages, str(wheel)], own)}
    found["installed, bytes"] = folder_bytes(site) - empty
    blank = [python, "-c", "pass"]
    seconds(blank, own)
    found["python alone, s"] = statistics.median(seconds(blank, own) for _ in range(TURNS))
    for name, code in IMPORTS.items():
        if "torch" in name and not packages:
            continue
        command = [python, "-c", code]
        found[f"{name} for the first time, s"] = seconds(command, own) - found["python alone, s"]
        again = statistics.median(seconds(command, own) for _ in range(TURNS))
        found[f"{name}, s"] = again - found["python alone, s"]
    return found | captions(python, photo, cache, own, eager=bool(packages))


def captions(
    python: str, photo: Path, cache: Path, environment: Mapping[str, str], *, eager: bool
) -> dict[str, Any]:
    """The first caption, those after it, and memory; with torch also by torch."""
    ways: dict[str, list[str]] = {"": []}
    if eager:
        ways["eager, "] = ["--runtime", "eager"]
    found: dict[str, Any] = {}
    for name, more in ways.items():
        words = ["caption", str(photo), "--device", "cpu", *more]
        command = [python, "-m", "naic", *words]
        found[f"{name}first caption, s"] = seconds(command, environment)
        again = [seconds(command, environment) for _ in range(TURNS)]
        found[f"{name}a later caption, s"] = statistics.median(again)
        told = subprocess.run(
            [python, "-c", PEAK, *words],
            check=True,
            capture_output=True,
            text=True,
            env=environment,
        )
        found[f"{name}memory, bytes"] = 1024 * int(told.stdout.splitlines()[-1])
    found["cache, bytes"] = folder_bytes(cache)
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--photo", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    own = parser.parse_args(arguments)
    rows = {}
    for name, packages in WAYS.items():
        with tempfile.TemporaryDirectory() as folder:
            rows[name] = measure(own.wheel.resolve(), own.photo.resolve(), packages, Path(folder))
    found = {"machine": machine(CPU), "wheel, bytes": own.wheel.stat().st_size, "rows": rows}
    write_atomically(own.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
