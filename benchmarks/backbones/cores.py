r"""How fast each backbone is on a CPU: an image on each core by ONNX Runtime, float32 and int8.

python benchmarks/backbones/cores.py --out docs/results/backbones/cores.json \
    efficientnet-lite2 dinov2-vits14 clip-vit-b16 clip-vit-b16+dinov2-vits14

Graphs as `naic export` makes them, but of the backbone alone: from uint8 pixels to features. The
rounds go through all graphs in turn, so that whatever else the machine does meets all of them; the
figure is the median. Each round is as many images at once as there are cores, a core each, as
`naic caption` runs a folder in int8. With it, how like the features of sample photos by int8 are to
those by float32. Nothing else should be running: the load before it is in the file.
"""

import argparse
import json
import os
import platform
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime  # type: ignore[import-untyped]
import torch
from packed import PIXELS, photos  # type: ignore[import-not-found]
from torch import nn

from naic.backbones.load import load_backbone
from naic.runtime.even import even_out, soft_noise
from naic.runtime.export import trace
from naic.runtime.fuse_vit import fold_vits
from naic.runtime.int8 import quantised

ROUNDS, WARM_UP = 30, 3
PRECISIONS = ("float32", "int8")
FEATURES = "features"
Array = npt.NDArray[Any]


def session(name: str, precision: str) -> Any:  # noqa: ANN401 - it ships no types
    """The backbone as a graph; an EfficientNet is all convolutions, which stay as they are."""
    holder = nn.ModuleDict({"network": load_backbone(name, device="cpu").module})
    fold_vits(holder)
    if precision == "int8":
        even_out(holder["network"], soft_noise(2, PIXELS))
    graph = trace(name, holder["network"], torch.zeros(2, PIXELS, PIXELS, 3).byte(), [FEATURES])
    if precision == "int8":
        graph = quantised(graph)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(
        graph.SerializeToString(), options, providers=["CPUExecutionProvider"]
    )


def see(run: Any, image: Array) -> Array:  # noqa: ANN401 - as above
    found: Array = run.run(None, {"pixels": image})[0]  # (1, R, F)
    return found


def cosine(one: Array, other: Array) -> float:
    """The mean over all cells of all photos."""
    lengths = np.linalg.norm(one, axis=-1) * np.linalg.norm(other, axis=-1)
    return float(((one * other).sum(-1) / lengths).mean())


def measure(names: list[str], rounds: int, threads: int) -> list[dict[str, Any]]:
    runs = {(name, p): session(name, p) for name in names for p in PRECISIONS}
    images = [photo[None] for photo in photos().numpy()]  # each (1, P, P, 3)
    seen = {key: np.concatenate([see(run, i) for i in images]) for key, run in runs.items()}
    times: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
    with ThreadPoolExecutor(threads) as pool:
        for number in range(WARM_UP + rounds):
            chosen = [images[(number + core) % len(images)] for core in range(threads)]
            for key, run in runs.items():
                began = time.perf_counter()
                list(pool.map(partial(see, run), chosen))
                if number >= WARM_UP:
                    times[key].append((time.perf_counter() - began) / threads)
    rows = []
    for name in names:
        rates = {p: 1 / statistics.median(times[name, p]) for p in PRECISIONS}
        alike = cosine(seen[name, "int8"], seen[name, "float32"])
        rows.append({"backbone": name, "images_per_second": rates, "int8_cosine": alike})
        print(rows[-1], flush=True)
    return rows


def processor() -> str:
    """What the machine calls its processor."""
    lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    named = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found = {
        "command": "python benchmarks/backbones/cores.py " + " ".join(options.names),
        "processor": processor(),
        "threads": options.threads,
        "onnxruntime": onnxruntime.__version__,
        "pixels": PIXELS,
        "rounds": options.rounds,
        "load_before": load,
        "rows": measure(options.names, options.rounds, options.threads),
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
