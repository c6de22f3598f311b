"""The runtimes of a captioner side by side: how many captions differ, CIDEr-D, and how fast.

python benchmarks/runtimes.py --captions dataset_coco.json.xz --images train2017 \
    --engines eager:float32 onnx:float32 onnx:int8 --out docs/results/runtimes/cpu.json

An engine is RUNTIME:PRECISION; onnx is exported first. The first one is what the others are
measured against, on the first images of Karpathy's `val` that are there. All take turns in one
process, so that a busy machine slows them alike: believe the ratios, not the milliseconds.
"""

import argparse
import json
import lzma
import statistics
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from naic.decode.decoding import likeliest_words
from naic.errors import NaicError
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.metrics.cider import cider
from naic.runtime.captioner import shipped_model
from naic.runtime.load import load_whole
from naic.runtime.ready import Engine, make_ready
from naic.runtime.sentences import Proposals
from naic.tasks.benchmark.timing import machine
from naic.text.tokeniser import tokenise
from naic.text.vocabulary import PERIOD, Vocabulary

Images = npt.NDArray[np.uint8]
WARM_UP = 3
CAPTION_BATCH = 16
IN_A_ROW = 5  # calls before the next engine's turn; the first wakes its threads, and is left out


class Named(NamedTuple):
    """An engine, what it was called, its words, and the size of its graph if it is a file."""

    name: str
    engine: Engine
    vocabulary: Vocabulary
    size: int | None


def load(name: str, model: Path, device: str, folder: Path) -> Named:
    """RUNTIME:PRECISION of the model; a graph of ONNX is put in `folder`."""
    runtime, _, precision = name.partition(":")
    if runtime != "onnx":
        ready = make_ready(model, device, runtime, precision)
        return Named(name, ready.engine, ready.vocabulary, None)
    from naic.runtime.export import export_graph

    path = folder / f"{precision}.onnx"
    path.write_bytes(export_graph("model", load_whole(model), precision).graph)
    ready = make_ready(path, device, "onnx", "auto")
    return Named(name, ready.engine, ready.vocabulary, path.stat().st_size)


def images_of(
    captions: Path, folder: Path, count: int, pixels: int
) -> tuple[Images, list[list[str]]]:
    """The first images of `val` that are there, ready for the model, and their references."""
    with lzma.open(captions) as file:
        images = json.load(file)["images"]
    found = [(image, folder / f"{image['cocoid']:012d}.jpg") for image in images]
    chosen = [(image, path) for image, path in found if image["split"] == "val" and path.exists()]
    chosen = chosen[:count]
    opened = [square_pixels(open_image(path, at_least=pixels), pixels) for _, path in chosen]
    references = [
        [" ".join(tokenise(sentence["raw"])) for sentence in image["sentences"]]
        for image, _ in chosen
    ]
    return np.stack(opened), references


def say(engine: Engine, images: Images) -> Proposals:
    """What the engine says of each image."""
    begins = range(0, len(images), CAPTION_BATCH)
    parts = [engine(images[at : at + CAPTION_BATCH]) for at in begins]
    words, log_probs = (np.concatenate([part[i] for part in parts]) for i in (0, 1))
    pairs = [part.pairs for part in parts if part.pairs is not None]
    return Proposals(words, log_probs, np.concatenate(pairs) if pairs else None)


def sentences(said: Proposals, vocabulary: Vocabulary) -> list[str]:
    """The likeliest words up to the period."""
    chosen = likeliest_words(said.words, said.log_probs, said.pairs)[..., None]
    rows = np.take_along_axis(said.words, chosen, -1)[..., 0].tolist()
    ends = [row.index(PERIOD) if PERIOD in row else len(row) for row in rows]
    return [vocabulary.decode(row[:end]) for row, end in zip(rows, ends, strict=True)]


def compare(
    engines: Sequence[Named], images: Images, references: list[list[str]]
) -> list[dict[str, Any]]:
    """How much each engine's captions differ from those of the first one."""
    said = [say(named.engine, images) for named in engines]
    texts = [sentences(own, named.vocabulary) for own, named in zip(said, engines, strict=True)]
    exact = np.exp(said[0].log_probs[..., 0])
    return [
        {
            "engine": named.name,
            "device": str(named.engine.device),
            "bytes": named.size,
            "equal": sum(map(str.__eq__, own, texts[0])),
            "furthest": float(np.abs(np.exp(found.log_probs[..., 0]) - exact).max()),
            "cider": 100 * cider(own, references).value,
        }
        for named, own, found in zip(engines, texts, said, strict=True)
    ]


def times(engines: Sequence[Named], images: Images, rounds: int) -> list[float]:
    """Median milliseconds of each engine; they take turns."""
    taken: list[list[float]] = [[] for _ in engines]
    for number in range(WARM_UP + rounds):
        for own, named in zip(taken, engines, strict=True):
            for again in range(IN_A_ROW):
                begin = time.perf_counter()
                named.engine(images)  # its answer is on the host, so that nothing is under way
                if again and number >= WARM_UP:
                    own.append(1e3 * (time.perf_counter() - begin))
    return [statistics.median(own) for own in taken]


def measure(own: argparse.Namespace, folder: Path) -> dict[str, Any]:
    model = own.model or shipped_model()
    engines = [load(name, model, own.device, folder) for name in own.engines]
    first = engines[0].engine
    images, references = images_of(own.captions, own.images, own.count, first.pixels)
    about = machine(first.device)
    rows = compare(engines, images, references)
    for batch in own.batches:
        medians = times(engines, images[:batch], own.rounds)
        for row, median in zip(rows, medians, strict=True):
            row[f"ms, batch {batch}"] = median
            row[f"times faster, batch {batch}"] = medians[0] / median
    return {"machine": about, "images": len(images), "batches": own.batches, "rows": rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--model", type=Path, help="a model folder; by default the shipped one")
    parser.add_argument("--engines", nargs="+", default=["eager:float32"])
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 16])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, help="also write all as JSON")
    own = parser.parse_args()
    try:
        with tempfile.TemporaryDirectory() as folder:
            figures = measure(own, Path(folder))
    except NaicError as error:
        raise SystemExit(f"runtimes: {error}") from None
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if own.out:
        own.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
