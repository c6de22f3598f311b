"""`naic caption` on a folder against the bare model on ready tensors, and its memory on the way.

python benchmarks/caption_folder.py --images train2017 --count 1000 --long 8000 --out folder.json

The two take turns. The command is timed as a whole, from its start with the loading of the model to
its end, and from its second batch of captions on, which is the rate that a large folder sees.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from naic.device import CPU
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.runtime.captioner import BATCH, shipped_model
from naic.runtime.ready import Engine, make_ready
from naic.tasks.benchmark.timing import machine

EVERY = 0.02  # seconds between looks at the journal
MIB = 2**20


def bare(engine: Engine, images: npt.NDArray[np.uint8]) -> float:
    """Seconds of the model alone, in the batches that `naic caption` makes."""
    begin = time.perf_counter()
    for at in range(0, len(images), BATCH):
        engine(images[at : at + BATCH])
    return time.perf_counter() - begin


def resident(process: int) -> int:
    """Bytes that a process has in memory now (Linux)."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


def command(
    listed: Path, folder: Path, options: Sequence[str] = ()
) -> tuple[float, list[tuple[float, int, int]]]:
    """Seconds of the whole command, and (seconds, captions, bytes of memory) on its way."""
    out = folder / "captions.jsonl"
    journal = folder / "captions.jsonl.part"
    words = [sys.executable, "-m", "naic", "caption", "-", "--out", str(out), *options]
    seen: list[tuple[float, int, int]] = []
    begin = time.perf_counter()
    with (
        listed.open("rb") as names,
        subprocess.Popen(
            words, stdin=names, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        ) as run,
    ):
        done, position = 0, 0
        while run.poll() is None:
            time.sleep(EVERY)
            if not journal.exists():
                continue
            with journal.open("rb") as file:
                file.seek(position)
                new = file.read()
            position += len(new)
            lines = new.count(b"\n")
            if lines:
                done += lines
                seen.append((time.perf_counter() - begin, done, resident(run.pid)))
    taken = time.perf_counter() - begin
    if run.returncode:
        raise SystemExit(f"naic caption ended with {run.returncode}")
    out.unlink()
    return taken, seen


def steady(seen: Sequence[tuple[float, int, int]]) -> float:
    """Captions a second from the second batch to the last."""
    if len(seen) < 3:
        raise SystemExit("caption_folder: too few images to see a rate")
    (begin, first, _), (end, last, _) = seen[1], seen[-1]
    return (last - first) / (end - begin)


def rates(listed: Path, images: npt.NDArray[np.uint8], rounds: int, folder: Path) -> dict[str, Any]:
    engine = make_ready(shipped_model(), "cpu", "auto", "auto").engine
    bare(engine, images[: 4 * BATCH])
    alone, whole, later = [], [], []
    for _ in range(rounds):
        alone.append(len(images) / bare(engine, images))
        taken, seen = command(listed, folder)
        whole.append(len(images) / taken)
        later.append(steady(seen))
    model = statistics.median(alone)
    return {
        "images": len(images),
        "rounds": rounds,
        "model alone, a second": model,
        "naic caption, a second": statistics.median(later),
        "share": statistics.median(later) / model,
        "naic caption with its start, a second": statistics.median(whole),
        "share with its start": statistics.median(whole) / model,
    }


def memory(listed: Path, count: int, folder: Path) -> dict[str, Any]:
    """Memory after an eighth, a quarter, a half and all of the captions."""
    _, seen = command(listed, folder)
    marks = [count // 8, count // 4, count // 2, count]
    found = {}
    for mark in marks:
        found[str(mark)] = max((size for _, done, size in seen if done <= mark), default=0) / MIB
    return {"images": count, "peak so far, MiB": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--long", type=int, default=8000, help="this many for the memory")
    parser.add_argument("--out", type=Path)
    own = parser.parse_args()
    files = sorted(own.images.rglob("*.jpg"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        listed, many = folder / "few.list", folder / "many.list"
        listed.write_text("".join(f"{path}\n" for path in files[: own.count]))
        many.write_text("".join(f"{path}\n" for path in files[: own.long]))
        opened = [square_pixels(open_image(path, at_least=256), 256) for path in files[: own.count]]
        images = np.stack(opened)
        figures = {"machine": machine(CPU)}
        figures |= rates(listed, images, own.rounds, folder)
        figures["memory"] = memory(many, own.long, folder)
    text = json.dumps(figures, indent=1) + "\n"
    print(text, end="")
    if own.out:
        own.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
