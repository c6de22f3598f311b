"""How much of the backbone's own speed `naic prepare` keeps, and whether its memory grows.

    python benchmarks/features.py --coco $NAIC_COCO --out docs/results/features.json

All in one process, so that their ratio means something: decoding alone; the whole `prepare`
(reading the tars, decoding, forward, float16, writing and syncing shards); and in slices all along
it the forward pass alone, on images that are ready in memory. `--device cuda` for a GPU.
"""

import argparse
import contextlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch

from naic.backbones.load import Backbone, load_backbone
from naic.data.decoding import ImageDecoder
from naic.data.readers import read
from naic.data.records import Problems
from naic.progress import Callbacks, Progress
from naic.tasks.options import PrepareOptions
from naic.tasks.prepare import prepare

MEGABYTE = 2**20


@dataclass
class Watch:
    """Hears of the progress: reads the memory, and now and then stops the run to compare.

    The speed of a shared machine drifts, so the forward pass alone is timed in short slices all
    along the run, while the run's clock stands still: what slows one slows the other. No slice
    comes within an eighth of a shard's end: the last shard is on the disk by then, so that no
    writing is hidden in the pause.
    """

    backbone: Backbone
    batch: int
    slice_images: int
    every: int
    started: float = 0.0
    paused: float = 0.0
    warm: tuple[int, float] = (0, 0.0)  # images and seconds when the first thousand was done
    alone: list[float] = field(default_factory=list)  # images a second, slice by slice
    resident: dict[int, int] = field(default_factory=dict)  # images done -> MB in use

    def __call__(self, progress: Progress) -> None:
        if progress.done == 0:
            self.started = time.perf_counter()
        if progress.done >= 1000 and not self.warm[0]:
            self.warm = (progress.done, self.seconds())
        if progress.done and progress.done % 1000 < self.batch:
            self.resident[progress.done // 1000 * 1000] = resident_megabytes()
        if progress.done % self.every == self.every // 2:
            before = time.perf_counter()
            self.alone.append(forward_alone(self.backbone, self.slice_images, self.batch))
            self.paused += time.perf_counter() - before

    def seconds(self) -> float:
        """How long the run itself has taken."""
        return time.perf_counter() - self.started - self.paused


def resident_megabytes() -> int:
    """Memory this process holds now, not the most it ever held."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // MEGABYTE


def forward_alone(backbone: Backbone, images: int, batch: int) -> float:
    """Images a second through the backbone on ready tensors, after a warm-up."""
    size = (batch, backbone.pixels, backbone.pixels, 3)
    batches = [torch.randint(0, 256, size, dtype=torch.uint8) for _ in range(4)]
    backbone(batches[0])
    started = time.perf_counter()
    for number in range(images // batch):
        features = backbone(batches[number % len(batches)])
    features.sum().item()  # wait for the device
    return images // batch * batch / (time.perf_counter() - started)


def decode_alone(options: PrepareOptions, images: int, pixels: int) -> float:
    """Images a second out of the tars as pixels, with as many processes as `prepare` uses."""
    reading = read(
        options.reader,
        options.source,
        images=options.images,
        problems=Problems(skip=True),
        limit=images,
    )
    sources = [record.image for record in reading.records]
    places = np.zeros((len(sources), pixels, pixels, 3), np.uint8)
    with ImageDecoder(os.cpu_count() or 1, pixels, isolated=True) as decoder:
        for _ in range(2):  # the first time the processes start
            started = time.perf_counter()
            tasks = [decoder.submit(*task) for task in zip(sources, places, strict=True)]
            assert not any(task.result() for task in tasks)
            seconds = time.perf_counter() - started
    return len(sources) / seconds


def whole(options: PrepareOptions, watch: Watch) -> tuple[int, float, float]:
    """Extract into a throw-away store: how many images, at how many a second in all and warm."""
    with tempfile.TemporaryDirectory() as folder:
        callbacks = Callbacks(progress=lambda _: contextlib.nullcontext(watch))
        done = prepare(replace(options, out=Path(folder) / "store"), callbacks)
        seconds, images = watch.seconds(), len(done.store)
    return images, images / seconds, (images - watch.warm[0]) / (seconds - watch.warm[1])


def help_seconds(trials: int = 5) -> float:
    """CPU time of `naic --help`, the median of some runs."""
    times = []
    for _ in range(trials):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "naic", "--help"], check=True, capture_output=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return sorted(times)[trials // 2]


def measure(options: PrepareOptions, images: int) -> dict[str, object]:
    """All the figures of one run."""
    backbone = load_backbone(device=options.device)
    slice_images = (6 if options.device == "cpu" else 32) * options.batch
    decoded = decode_alone(options, min(images, 1024), backbone.pixels)
    watch = Watch(
        backbone, options.batch, slice_images, every=max(options.per_shard // 2, 2 * options.batch)
    )
    done, rate, warm_rate = whole(options, watch)
    alone = len(watch.alone) / sum(1 / value for value in watch.alone)  # of all slices together
    return {
        "machine": machine(options.device),
        "backbone": backbone.name,
        "batch": options.batch,
        "images": done,
        "decode_alone_images_per_second": round(decoded, 1),
        "prepare_images_per_second": round(rate, 2),
        "prepare_after_the_first_1000": round(warm_rate, 2),
        "forward_alone_images_per_second": round(alone, 2),
        "forward_alone_slices": [round(value, 1) for value in watch.alone],
        "ratio": round(rate / alone, 3),
        "resident_megabytes": {str(k): v for k, v in watch.resident.items()},
        "help_cpu_seconds": round(help_seconds(), 3),
    }


def machine(device: str) -> str:
    """The machine in words."""
    card = f", {torch.cuda.get_device_name()}" if device == "cuda" else ""
    return f"{os.cpu_count()} cores, {platform.machine()}{card}, torch {torch.__version__}"


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--coco", type=Path, required=True)
    parser.add_argument("--images", type=int, default=8000)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    options = PrepareOptions(
        "karpathy",
        str(chosen.coco / "dataset_coco.json.xz"),
        images=tuple(sorted(chosen.coco.glob("images-*.tar"))),
        device=chosen.device,
        batch=chosen.batch,
        limit=chosen.images,
        skip_bad=True,  # most of COCO's images are not in these tars
    )
    command = (
        f"python benchmarks/features.py --coco $NAIC_COCO --images {chosen.images} "
        f"--device {chosen.device} --batch {chosen.batch}"
    )
    result = {"command": command} | measure(options, chosen.images)
    print(json.dumps(result, indent=2))
    if chosen.out:
        chosen.out.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
