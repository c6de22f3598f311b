"""How much of the backbone's own speed `naic prepare` keeps, and whether its memory grows.

    python benchmarks/features.py --coco $NAIC_COCO --out docs/results/features.json

All in one process, so that their ratio means something: decoding alone, the forward pass alone on
pictures that are ready in memory, the whole `prepare` (reading the tars, decoding, forward,
float16, writing and syncing shards), and the forward pass alone again. `--device cuda` for a GPU.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch

from naic.backbones import Backbone, load_backbone
from naic.data.readers import read
from naic.data.records import Problems
from naic.images import square_pixels
from naic.tasks.prepare import PrepareOptions, Progress, prepare

MEGABYTE = 2**20


@dataclass
class Watch:
    """Hears of the progress: times it, and reads the process's memory on the way."""

    started: float = 0.0
    resident: dict[int, int] = field(default_factory=dict)  # images done -> MB in use

    def __call__(self, progress: Progress) -> None:
        if progress.done == 0:
            self.started = time.perf_counter()
        if progress.done and progress.done // 1000 > max(self.resident, default=0) // 1000:
            self.resident[progress.done] = resident_megabytes()


def resident_megabytes() -> int:
    """Memory this process holds now, not the most it ever held."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * resource.getpagesize() // MEGABYTE


def forward_alone(backbone: Backbone, images: int, batch: int) -> float:
    """Images a second through the backbone on ready tensors, after a warm-up."""
    size = (batch, backbone.pixels, backbone.pixels, 3)
    pictures = [torch.randint(0, 256, size, dtype=torch.uint8) for _ in range(8)]
    for picture in pictures[:3]:
        backbone(picture)
    started = time.perf_counter()
    for number in range(images // batch):
        features = backbone(pictures[number % len(pictures)])
    features.sum().item()  # wait for the device
    return images // batch * batch / (time.perf_counter() - started)


def decode_alone(options: PrepareOptions, images: int, pixels: int) -> float:
    """Images a second out of the tars as pixels, with as many threads as `prepare` uses."""
    reading = read(
        options.reader,
        options.source,
        images=options.images,
        problems=Problems(skip=True),
        limit=images,
    )
    sources = [record.image for record in reading.records]
    started = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(lambda image: square_pixels(image.load(pixels), pixels), sources):
            pass
    return len(sources) / (time.perf_counter() - started)


def whole(options: PrepareOptions) -> tuple[float, float, int, Watch]:
    """Extract into a throw-away store: images a second, seconds in all, images, memory."""
    watch = Watch()
    with tempfile.TemporaryDirectory() as folder:
        done = prepare(replace(options, out=Path(folder) / "store"), watch)
        seconds = time.perf_counter() - watch.started
        return len(done.store) / seconds, done.seconds, len(done.store), watch


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
    few = min(images, 1024) if options.device == "cpu" else 32 * options.batch
    decoded = decode_alone(options, few, backbone.pixels)
    alone = [forward_alone(backbone, few, options.batch)]
    rate, seconds, done, watch = whole(options)
    alone.append(forward_alone(backbone, few, options.batch))
    return {
        "machine": machine(options.device),
        "backbone": backbone.name,
        "batch": options.batch,
        "images": done,
        "decode_alone_images_per_second": round(decoded, 1),
        "prepare_images_per_second": round(rate, 2),
        "prepare_seconds_with_reading": round(seconds, 1),
        "forward_alone_images_per_second": [round(value, 2) for value in alone],
        "ratio": round(rate / (sum(alone) / len(alone)), 3),
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
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--out", type=Path)
    chosen = parser.parse_args()
    options = PrepareOptions(
        "karpathy",
        str(chosen.coco / "dataset_coco.json.xz"),
        images=tuple(sorted(chosen.coco.glob("images-*.tar"))),
        device=chosen.device,
        batch=chosen.batch,
        limit=chosen.images,
        skip_bad=True,  # most of COCO's pictures are not in these tars
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
