"""The runtimes of a captioner side by side: how fast against eager, and how many words differ.

python benchmarks/runtimes.py --photos data/coco/train2017 --engines eager:float32 graph:bfloat16

An engine is RUNTIME:PRECISION for the model, or the path of an exported graph. The first one is
what the others are measured against. All take turns in one process, so that a busy machine slows
them alike: believe the ratios, not the milliseconds.
"""

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from naic.errors import NaicError
from naic.images import open_image, square_pixels
from naic.runtime.captioner import shipped_model
from naic.runtime.choose import make_ready
from naic.runtime.engines import Engine
from naic.text.vocabulary import PERIOD, Vocabulary

WARM_UP = 3
CAPTION_BATCH = 16


class Named(NamedTuple):
    """An engine, what it was called, and its words."""

    name: str
    engine: Engine
    vocabulary: Vocabulary


def load(name: str, model: Path, device: str) -> Named:
    """RUNTIME:PRECISION, or the path of a graph."""
    runtime, colon, precision = name.partition(":")
    if colon:
        ready = make_ready(model, device, runtime, precision)
    else:
        ready = make_ready(Path(name), device, "onnx", "auto")
    return Named(name, ready.engine, ready.vocabulary)


def photos(folder: Path, count: int, pixels: int) -> Tensor:
    """The first `count` pictures by name, as an engine takes them."""
    found = sorted(path for path in folder.iterdir() if path.suffix.lower() in (".jpg", ".png"))
    opened = (square_pixels(open_image(path, at_least=pixels), pixels) for path in found[:count])
    return torch.from_numpy(np.stack(list(opened)))


def times(engines: Sequence[Named], pixels: Tensor, rounds: int) -> list[list[float]]:
    """Seconds of each engine in each round; the engines take turns."""
    for named, _ in itertools.product(engines, range(WARM_UP)):
        named.engine(pixels)
    taken: list[list[float]] = [[] for _ in engines]
    for _ in range(rounds):
        for own, named in zip(taken, engines, strict=True):
            start = time.perf_counter()
            named.engine(pixels)  # its answer is on the host, so that nothing is under way
            own.append(time.perf_counter() - start)
    return taken


def sentences(named: Named, pixels: Tensor) -> list[str]:
    """What the engine says of each picture."""
    said = []
    for start in range(0, len(pixels), CAPTION_BATCH):
        for row in named.engine(pixels[start : start + CAPTION_BATCH]).words[..., 0].tolist():
            end = row.index(PERIOD) if PERIOD in row else len(row)
            said.append(named.vocabulary.decode(row[:end]))
    return said


def measure(
    engines: Sequence[Named], pixels: Tensor, batches: Sequence[int], rounds: int
) -> list[dict[str, Any]]:
    """A row for each engine and batch size."""
    first, *_ = expected = [sentences(named, pixels) for named in engines]
    rows = []
    for batch in batches:
        taken = times(engines, pixels[:batch], rounds)
        plain = statistics.median(taken[0])
        for named, own, said in zip(engines, taken, expected, strict=True):
            rows.append(
                {
                    "engine": named.name,
                    "device": str(named.engine.device),
                    "batch": batch,
                    "median_ms": 1000 * statistics.median(own),
                    "times_faster": plain / statistics.median(own),
                    "equal": sum(map(str.__eq__, said, first)),
                    "pictures": len(pixels),
                }
            )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, help="a model folder; by default the shipped one")
    parser.add_argument("--engines", nargs="+", default=["eager:float32"])
    parser.add_argument("--photos", type=Path, required=True)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="also write the rows as JSON")
    own = parser.parse_args()
    try:
        model = own.model or shipped_model()
        engines = [load(name, model, own.device) for name in own.engines]
        pixels = photos(own.photos, max(own.count, *own.batches), engines[0].engine.pixels)
        rows = measure(engines, pixels, own.batches, own.rounds)
    except NaicError as error:
        raise SystemExit(f"runtimes: {error}") from None
    for row in rows:
        print(
            f"{row['engine']:24} batch {row['batch']:4} on {row['device']}: "
            f"{row['median_ms']:8.2f} ms, {row['times_faster']:5.2f} times as fast, "
            f"{row['equal']} of {row['pictures']} captions equal"
        )
    if own.out:
        own.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
