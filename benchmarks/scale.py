"""A run over many shards: is its time linear in shards, its memory flat, and what is a million?

    python benchmarks/scale.py --images train2017 --precision float32 --out shards.json
    python benchmarks/scale.py --images train2017 --model shipped --shards 4 --out shards.json

A few tars are made of the JPEGs, and hard links to them are the shards: a thousand take no more
room on the disk than those few. `tiny` is made here: EfficientNet-Lite0 at 64 pixels with its
ImageNet weights, one layer that looks and one that speaks, of random weights, so that what it says
makes no sense; it costs what such a small model costs. Nothing else may run meanwhile.
"""

import argparse
import json
import os
import resource
import shlex
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from naic.device import CPU, choose_device
from naic.tasks.benchmark.timing import machine

MIB = 2**20
LOOK = 0.02  # seconds between looks until the first shard is read
KEPT = 200  # samples in the results
PARTS = 10  # of a run, compared with each other
TINY = "tiny"  # of random weights, made here
WORDS = 1000  # of its vocabulary
PIXELS = 64


class Sample(NamedTuple):
    """What was seen at a moment: seconds since the start, shards done, bytes in memory."""

    seconds: float
    shards: int
    resident: int


def make_tiny(folder: Path) -> Path:
    """The smallest captioner that sees, as a model folder with its graphs."""
    import torch

    from naic.backbones.load import pretrained_backbone
    from naic.models.captioners import CAPTIONERS
    from naic.models.config import TransformerConfig
    from naic.models.folder import ModelSettings, write_model
    from naic.runtime.captioner import shipped_model
    from naic.tasks.beside import put_graphs
    from naic.text import Vocabulary

    words = Vocabulary(Vocabulary.load(shipped_model() / "vocab.json").words[:WORDS])
    name = "efficientnet-lite0"
    config = TransformerConfig(
        width=128, heads=4, encoder_layers=1, decoder_layers=1, hidden=256, backbone=name
    )
    torch.manual_seed(0)
    patch = 32 * 32 * 3
    weights = CAPTIONERS["parallel"].build(config, patch, WORDS).state_dict()
    weights |= pretrained_backbone(name)
    settings = ModelSettings("parallel", patch, WORDS, "pixels", config, PIXELS)
    write_model(folder, weights, settings, words, "# Of random weights, for a benchmark\n")
    put_graphs(folder)
    return folder


def make_shards(images: Path, folder: Path, shards: int, per_shard: int, tars: int) -> None:
    """`tars` tars of `per_shard` photos each, and hard links to them under `shards` names."""
    photos = sorted(images.rglob("*.jpg"))
    if not photos:
        raise SystemExit(f"scale: no .jpg beneath {images}")
    made = []
    for number in range(min(tars, shards)):
        path = folder.parent / f"made-{number}.tar"
        with tarfile.open(path, "w") as tar:
            for place in range(per_shard):
                photo = photos[(number * per_shard + place) % len(photos)]
                tar.add(photo, f"{number:03d}{place:06d}.jpg")
        made.append(path)
    folder.mkdir()
    for number in range(shards):
        (folder / f"{number:05d}.tar").hardlink_to(made[number % len(made)])


def tree(process: int) -> list[int]:
    """A process and all beneath it."""
    found = [process]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            try:
                found += map(int, task.read_text().split())
            except OSError:  # it has ended meanwhile
                continue
    return found


def resident(processes: list[int]) -> int:
    """Bytes of memory of them all; what they share counts for each."""
    pages = 0
    for process in processes:
        try:
            pages += int(Path(f"/proc/{process}/statm").read_text().split()[1])
        except OSError:
            continue
    return pages * os.sysconf("SC_PAGE_SIZE")


def reads_a_tar(processes: list[int]) -> bool:
    """Whether one of them has a shard open."""
    for process in processes:
        try:
            links = [str(link.readlink()) for link in Path(f"/proc/{process}/fd").iterdir()]
        except OSError:
            continue
        if any(link.endswith(".tar") for link in links):
            return True
    return False


def watch(words: list[str], out: Path, every: float) -> Iterator[tuple[Sample, bool]]:
    """Run a command; what is seen of it, and whether a shard has been read yet."""
    begin = time.perf_counter()
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        read = False
        while run.poll() is None:
            processes = tree(run.pid)
            done = sum(entry.name.endswith(".parquet") for entry in os.scandir(out))
            # A shard of few images may be open between two looks only.
            read = read or done > 0 or reads_a_tar(processes)
            yield Sample(time.perf_counter() - begin, done, resident(processes)), read
            time.sleep(every if read else LOOK)
        assert run.stderr is not None
        told = run.stderr.read().decode()
    if run.returncode:
        raise SystemExit(f"scale: naic shards ended with {run.returncode}\n{told}")


def parts(samples: list[Sample], shards: int) -> list[dict[str, float]]:
    """Seconds and the most memory of each tenth of the shards: all alike, if nothing grows."""
    count = min(PARTS, shards)
    ends = [shards * (number + 1) / count for number in range(count)]
    last = samples[-1].seconds  # the very end may lie between two looks
    reached = [next((s.seconds for s in samples if s.shards >= end), last) for end in ends]
    found = []
    for began, ended in zip([0.0, *reached], reached, strict=False):
        peak = max(s.resident for s in samples if began <= s.seconds <= ended)
        found.append({"seconds": round(ended - began, 1), "peak MiB": round(peak / MIB)})
    return found


def measure(own: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """One run over all shards."""
    shards, out, images = folder / "in", folder / "out", own.shards * own.per_shard
    make_shards(own.images, shards, own.shards, own.per_shard, own.tars)
    words = [sys.executable, "-m", "naic", "shards", "caption", str(shards), "--out", str(out)]
    if own.model == TINY:
        words += ["--model", str(make_tiny(folder / TINY))]
    elif own.model != "shipped":
        words += ["--model", own.model]
    words += ["--workers", str(own.workers), "--precision", own.precision]
    words += ["--device", own.device]
    out.mkdir()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    first, samples = None, list[Sample]()
    for sample, read in watch(words, out, own.every):
        samples.append(sample)
        first = sample.seconds if read and first is None else first
    seconds = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    step = max(1, len(samples) // KEPT)
    return {
        "command": shlex.join(["python", "benchmarks/scale.py", *sys.argv[1:]]),
        "machine": machine(CPU if own.device == "cpu" else choose_device(own.device)),
        "model": own.model,
        "precision": own.precision,
        "workers": own.workers,
        "shards": own.shards,
        "images": images,
        "bytes of an image": sum(p.stat().st_size for p in shards.iterdir()) // images,
        "seconds until a shard is read": first,
        "seconds": seconds,
        "seconds of processors": cpu,
        "images a second": images / seconds,
        "parts": parts(samples, own.shards),
        "samples": [
            [round(s.seconds, 2), s.shards, round(s.resident / MIB)] for s in samples[::step]
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=Path, required=True, help="a folder of JPEGs")
    parser.add_argument("--model", default=TINY, help="tiny, shipped, or a model folder")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--shards", type=int, default=1000)
    parser.add_argument("--per-shard", type=int, default=1000)
    parser.add_argument("--tars", type=int, default=4)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--every", type=float, default=1.0, help="seconds between looks")
    parser.add_argument("--work", type=Path, help="where the tars are made and captioned")
    parser.add_argument("--name", help="what the run is called in the results; else the model")
    parser.add_argument("--out", type=Path)
    own = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=own.work) as name:
        found = measure(own, Path(name))
    print(json.dumps({name: value for name, value in found.items() if name != "samples"}, indent=1))
    if own.out:
        there = json.loads(own.out.read_text(encoding="utf-8")) if own.out.exists() else {}
        there[own.name or own.model] = found
        own.out.parent.mkdir(parents=True, exist_ok=True)
        own.out.write_text(json.dumps(there, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
