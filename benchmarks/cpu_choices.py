"""What the default on a processor was chosen by: threads of a session, images at once, memory.

python -m benchmarks.cpu_choices --images train2017 --out docs/results/light/choices.json

For the model inside naic, by ONNX Runtime. One image: by a session of one thread, and of one for
each core. A folder: each image by all cores, or a core for each image; in float32 also several
images in one batch. All take turns; medians. Memory: the peak of `naic caption` on a folder, for
several --batch.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from naic.device import CPU, usable_cores
from naic.files import write_atomically
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.runtime.captioner import shipped_model
from naic.runtime.graphs import beside
from naic.runtime.onnx_engine import _session
from naic.tasks.benchmark.timing import machine

SIDE, MANY, ROUNDS = 256, 16, 7
BATCHES = (1, 4, 16, 64)
FOLDER = 128  # images whose captions are made to see the memory
# Not getrusage: that would tell the peak of the program that started it, where that is higher.
PEAK = "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"


def turns(ways: dict[str, Callable[[], object]]) -> dict[str, float]:
    """The median seconds of each way; they take turns, and the first turn is left out."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(ROUNDS + 1):
        for name, way in ways.items():
            began = time.perf_counter()
            way()
            if number:
                taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(times) for name, times in taken.items()}


def speeds(precision: str, pixels: Any) -> dict[str, Any]:  # noqa: ANN401 - uint8 (B, P, P, 3)
    """Milliseconds of one image, and images a second of several."""
    cores, graph = usable_cores(), beside(shipped_model(), precision)
    one, all_ = (_session(graph, CPU, threads) for threads in (1, cores))

    def run(session: Any, images: Any) -> object:  # noqa: ANN401 - ONNX Runtime ships no types
        return session.run(None, {"pixels": images})

    singles = [pixels[i : i + 1] for i in range(len(pixels))]

    def a_core_each() -> None:
        with ThreadPoolExecutor(cores) as pool:
            list(pool.map(lambda image: run(one, image), singles))

    single = turns(
        {
            "one thread": lambda: run(one, singles[0]),
            f"{cores} threads": lambda: run(all_, singles[0]),
        }
    )
    ways: dict[str, Callable[[], object]] = {
        "all cores at each image": lambda: [run(all_, image) for image in singles],
        "a core for each image": a_core_each,
    }
    if precision == "float32":  # in int8 an image's words would depend on its neighbours
        ways["all cores at batches of 4"] = lambda: [
            run(all_, pixels[i : i + 4]) for i in range(0, len(pixels), 4)
        ]
        ways["all cores at one batch of 16"] = lambda: run(all_, pixels)
    many = turns(ways)
    return {
        "one image, ms": {name: 1e3 * taken for name, taken in single.items()},
        "images a second": {name: len(pixels) / taken for name, taken in many.items()},
    }


def peak(files: Sequence[Path], *words: str) -> int:
    """Bytes at most of `naic caption` on these files."""
    code = f"import sys; from naic.cli.main import main; main(sys.argv[1:]); {PEAK}"
    with tempfile.TemporaryDirectory() as folder:
        out = str(Path(folder, "out.jsonl"))
        command = [sys.executable, "-c", code, "caption", *map(str, files), "--out", out, *words]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
    return 1024 * int(told.stdout.splitlines()[-1])


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    own = parser.parse_args(arguments)
    files = sorted(own.images.rglob("*.jpg"))[:FOLDER]
    opened = [square_pixels(open_image(path, at_least=SIDE), SIDE) for path in files[:MANY]]
    pixels = np.stack(opened)
    found = {
        "machine": machine(CPU),
        "speeds": {name: speeds(name, pixels) for name in ("int8", "float32")},
        "memory": {
            f"int8, --batch {batch}": peak(files, "--device", "cpu", "--batch", str(batch))
            for batch in BATCHES
        },
        "folder": len(files),
    }
    write_atomically(own.out, (json.dumps(found, indent=1) + "\n").encode())


if __name__ == "__main__":
    main()
