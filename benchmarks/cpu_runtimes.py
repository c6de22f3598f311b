"""A processor's runtimes in turns: one image, and a folder of JPEGs, by the model inside naic.

python -m benchmarks.cpu_runtimes --images train2017 --count 1000 --out docs/results/light/cpu.json
PYTHONPATH=folder/with/transformers python -m benchmarks.cpu_runtimes ... --blip

Eager PyTorch in float32 is what the others are measured against. One image is timed from pixels to
words, one call after the other. The folder is captioned by `Captioner.each`, from files to
captions, in pieces: each runtime captions a piece before the next piece has its turn, so that
whatever else the machine does slows all alike. With --blip, BLIP-base through transformers with
random weights writes one caption of about as many tokens as ours have words, from ready pixels,
greedily.
"""

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from naic import __version__
from naic.device import keep_freed_memory
from naic.errors import ImageError, NaicError
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.runtime.captioner import Captioner, shipped_model
from naic.tasks.benchmark.other_models import BLIP, OtherModels
from naic.tasks.benchmark.timing import machine

AGAINST = "eager:float32"
RUNTIMES = (AGAINST, "onnx:float32", "onnx:int8")
BLIP_WORDS = 10  # about as many as a caption has, and the period
WARM_UP = 2  # turns
IN_A_ROW = 4  # calls of a turn; the first one wakes the threads, and is left out
WARM_FILES = 32


def load(name: str, model: Path) -> Captioner:
    """RUNTIME:PRECISION of a model."""
    runtime, _, precision = name.partition(":")
    return Captioner(model, device="cpu", runtime=runtime, precision=precision)


def one_image(runs: Mapping[str, Callable[[], object]], rounds: int) -> list[dict[str, Any]]:
    """The milliseconds of each; they take turns."""
    taken: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(WARM_UP + rounds):
        for name, run in runs.items():
            for again in range(IN_A_ROW):
                began = time.perf_counter()
                run()  # its answer is on the host: nothing is under way afterwards
                if again and number >= WARM_UP:
                    taken[name].append(1e3 * (time.perf_counter() - began))
    medians = {name: statistics.median(times) for name, times in taken.items()}
    return [
        {
            "runtime": name,
            "median ms": medians[name],
            "least ms": min(times),
            "times faster": medians[AGAINST] / medians[name],
            "times": len(times),
        }
        for name, times in taken.items()
    ]


def a_folder(
    captioners: Mapping[str, Captioner], files: Sequence[Path], piece: int
) -> list[dict[str, Any]]:
    """Images a second of each, files and all; they take turns at each piece of the folder."""
    seconds: dict[str, list[float]] = {name: [] for name in captioners}
    said: dict[str, list[str]] = {name: [] for name in captioners}
    for captioner in captioners.values():
        list(captioner.each(files[:WARM_FILES]))
    for at in range(0, len(files), piece):
        for name, captioner in captioners.items():
            began = time.perf_counter()
            found = list(captioner.each(files[at : at + piece]))
            seconds[name].append(time.perf_counter() - began)
            said[name] += ["" if isinstance(own, ImageError) else own.text for own in found]
    first = seconds[AGAINST]
    return [
        {
            "runtime": name,
            "a second": len(files) / sum(times),
            "times faster": sum(first) / sum(times),
            "of each piece": [one / own for one, own in zip(first, times, strict=True)],
            "equal captions": sum(map(str.__eq__, said[name], said[AGAINST])) / len(files),
        }
        for name, times in seconds.items()
    ]


def measure(own: argparse.Namespace) -> dict[str, Any]:
    keep_freed_memory()
    if own.threads:
        torch.set_num_threads(own.threads)
        os.environ["OMP_NUM_THREADS"] = str(own.threads)  # which ONNX Runtime's engine asks
    model = own.model or shipped_model()
    others: dict[str, Callable[[], object]] = {}
    if own.blip:  # before all else: its package may be missing
        blip = OtherModels(torch.device("cpu"), "float32")
        others["BLIP-base, random weights"] = blip.runner(BLIP, 1, BLIP_WORDS, 1)
    captioners = {name: load(name, model) for name in RUNTIMES}
    files = sorted(own.images.rglob("*.jpg"))[: own.count]
    if not files:
        raise SystemExit(f"cpu_runtimes: {own.images} has no files that end in .jpg")
    side = captioners[AGAINST].engine.pixels
    pixels = square_pixels(open_image(files[0], at_least=side), side)[None]
    runs: dict[str, Callable[[], object]] = {
        name: (lambda engine=captioner.engine: engine(pixels))  # type: ignore[misc]
        for name, captioner in captioners.items()
    }
    runs |= others
    found = {
        "naic": __version__,
        "machine": machine(torch.device("cpu")),
        "one image": {"rounds": own.rounds, "rows": one_image(runs, own.rounds)},
    }
    rows = a_folder(captioners, files, own.piece)
    return found | {"folder": {"images": len(files), "piece": own.piece, "rows": rows}}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, help="a model folder; by default the shipped one")
    parser.add_argument("--images", type=Path, required=True, help="a folder of JPEGs")
    parser.add_argument("--count", type=int, default=1000, help="so many of them")
    parser.add_argument("--piece", type=int, default=50, help="files of a turn")
    parser.add_argument("--rounds", type=int, default=20, help="turns of one image")
    parser.add_argument("--threads", type=int, help="of each runtime; default: one a core")
    parser.add_argument("--blip", action="store_true", help="needs the package transformers")
    parser.add_argument("--out", type=Path, help="also write all as JSON")
    own = parser.parse_args(arguments)
    try:
        figures = measure(own)
    except NaicError as error:
        raise SystemExit(f"cpu_runtimes: {error}") from None
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if own.out:
        own.out.parent.mkdir(parents=True, exist_ok=True)
        own.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
