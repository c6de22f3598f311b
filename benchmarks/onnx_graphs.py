"""Exported graphs against PyTorch: equal captions, CIDEr-D, size, and speed at batch 1 on a CPU.

python benchmarks/onnx_graphs.py --captions dataset_coco.json.xz --pictures train2017 --out x.json
(Not called onnx.py: a script's folder comes first on the path, and would hide the package.)
"""

import argparse
import json
import lzma
import os
import platform
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # type: ignore[import-untyped]
import torch
from torch import Tensor

from naic.backbones.cpu import keep_freed_memory
from naic.images import open_image, square_pixels
from naic.metrics.cider import cider
from naic.runtime.captioner import shipped_model
from naic.runtime.choose import LoadedWhole, load_whole
from naic.runtime.engines import EagerEngine, Engine, Said
from naic.runtime.export import PRECISIONS, export_graph
from naic.runtime.onnx_engine import OnnxEngine
from naic.text import Vocabulary
from naic.text.tokeniser import tokenise

BATCH = 16
IN_A_ROW = (
    5  # calls before the next engine's turn; the first one wakes its threads, and is left out
)
PARTS = ("eyes", "backbone", "encoder", "decoder/output", "decoder", "remember_all")


def pictures_of(
    captions: Path, folder: Path, count: int, pixels: int
) -> tuple[Tensor, list[list[str]]]:
    """The first pictures of `val` that are there, ready for the model, and their references."""
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
    return torch.from_numpy(np.stack(opened)), references


def say(engine: Engine, pictures: Tensor) -> Said:
    parts = [engine(pictures[at : at + BATCH]) for at in range(0, len(pictures), BATCH)]
    return Said(*(np.concatenate(values) for values in zip(*parts, strict=True)))


def compare(
    wanted: Said, found: Said, references: list[list[str]], words: Vocabulary
) -> dict[str, Any]:
    texts = [[words.decode(row) for row in said.words[..., 0].tolist()] for said in (wanted, found)]
    same = (wanted.words[..., 0] == found.words[..., 0]).all(1)
    probabilities = np.exp(wanted.log_probs[..., 0]), np.exp(found.log_probs[..., 0])
    return {
        "equal captions": sum(one == other for one, other in zip(*texts, strict=True)),
        "equal words of all agents": int(same.sum()),
        "largest difference of a confidence": float(np.abs(np.subtract(*probabilities)).max()),
        "cider": 100 * cider(texts[1], references).value,
    }


def time_them(engines: dict[str, Engine], picture: Tensor, rounds: int) -> dict[str, float]:
    """Median milliseconds of each, in turns, so that a busy machine is as busy for all."""
    times: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        for name, engine in engines.items():
            engine(picture)
            for _ in range(IN_A_ROW - 1):
                begin = time.perf_counter()
                engine(picture)
                times[name].append(1e3 * (time.perf_counter() - begin))
    return {name: statistics.median(values) for name, values in times.items()}


def parts_of(path: Path, picture: Tensor, folder: Path, calls: int = 20) -> dict[str, float]:
    """Milliseconds of each part of the graph, by the names of its nodes."""
    options = onnxruntime.SessionOptions()
    options.enable_profiling = True
    options.intra_op_num_threads = torch.get_num_threads()
    options.profile_file_prefix = str(folder / "profile")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    for _ in range(calls):
        session.run(None, {"pixels": picture.numpy()})
    events = json.loads(Path(session.end_profiling()).read_text())
    took: dict[str, float] = defaultdict(float)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("kernel_time"):
            part = next((part for part in PARTS if f"/{part}/" in event["name"]), "rest")
            took[part] += event["dur"] / 1e3 / calls
    return dict(took)


def measure(
    loaded: LoadedWhole, pictures: Tensor, references: list[list[str]], rounds: int
) -> dict[str, Any]:
    device = torch.device("cpu")
    eager = EagerEngine(loaded.whole, loaded.pixels, device, "float32")
    engines: dict[str, Engine] = {"eager": eager}
    figures: dict[str, Any] = {"images": len(pictures)}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {precision: folder / f"{precision}.onnx" for precision in PRECISIONS}
        for precision, path in paths.items():
            path.write_bytes(export_graph("model", loaded, precision).graph)
            engines[precision] = OnnxEngine(path, device)
        said = {name: say(engine, pictures) for name, engine in engines.items()}
        for name, found in said.items():
            figures[name] = compare(said["eager"], found, references, loaded.vocabulary)
        times = time_them(engines, pictures[:1], rounds)
        for name, median in times.items():
            figures[name] |= {"ms": median, "times faster": times["eager"] / median}
        for name, path in paths.items():
            figures[name]["bytes"] = path.stat().st_size
            figures[name]["parts, ms"] = parts_of(path, pictures[:1], folder)
    figures["machine"] = {
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "architecture": platform.machine(),
        "torch": torch.__version__,
        "onnxruntime": onnxruntime.__version__,
        "load": os.getloadavg()[0],
    }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, required=True)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--out", type=Path)
    own = parser.parse_args()
    keep_freed_memory()
    loaded = load_whole(own.model or shipped_model())
    pictures, references = pictures_of(own.captions, own.pictures, own.count, loaded.pixels)
    text = json.dumps(measure(loaded, pictures, references, own.rounds), indent=1) + "\n"
    print(text, end="")
    if own.out:
        own.out.write_text(text)


if __name__ == "__main__":
    main()
