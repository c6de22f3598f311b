"""`naic serve` under load, beside `naic caption`, for ten minutes, and stopped in the middle.

python -m benchmarks.serving --coco "$NAIC_COCO" --out docs/results/serving

Starts the server as its users do, with the shipped model and all defaults, and has a program of its
own ask it for captions of photos of COCO. Every answer is compared with what `naic caption` says of
the same file. --quick takes a minute and proves only that it runs.
"""

import argparse
import json
import os
import random
import tarfile
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.caption_folder import command, steady
from benchmarks.serving_faults import documented, mutations
from benchmarks.serving_server import Serving, clients, heard, quantile, serving

from naic import __version__
from naic.cli.main import main as naic
from naic.device import CPU
from naic.serve.options import ServeOptions
from naic.tasks.benchmark.timing import machine

CLIENTS = (1, 8, 64, 256)
ENDS = (8, 32, 64, 128)  # clients when it is stopped, in turns
WARM = 3.0  # seconds that are left out: the queue fills
AT_ONCE = 64
EVERY = 1.0  # seconds between looks at the memory
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Plan:
    """How long everything takes."""

    photos: int = 256
    seconds: float = 30.0
    turns: int = 3
    memory: float = 600.0
    stops: int = 20
    mutations: int = 2000
    documented: int = 100


QUICK = Plan(photos=64, seconds=6.0, turns=1, memory=12.0, stops=2, mutations=60, documented=3)


def bring(coco: Path, count: int, folder: Path) -> list[Path]:
    """The first photos of the tars, as files."""
    found: list[Path] = []
    for archive in sorted(coco.glob("images-*.tar")):
        with tarfile.open(archive, "r:") as tar:
            for member in tar:
                if len(found) == count:
                    return found
                if member.name.endswith(".jpg") and (file := tar.extractfile(member)):
                    found.append(folder / Path(member.name).name)
                    found[-1].write_bytes(file.read())
    if not found:
        raise SystemExit(f"serving: {coco} has no images-*.tar")
    return found


def captions(photos: Sequence[Path], folder: Path) -> Path:
    """A file with what `naic caption` says of each."""
    out = folder / "known.jsonl"
    if naic(["caption", *map(str, photos), "--out", str(out)]) != 0:
        raise SystemExit("serving: naic caption failed")
    rows = map(json.loads, out.read_text(encoding="utf-8").splitlines())
    known = folder / "known.json"
    known.write_text(json.dumps({row["path"]: row["caption"] for row in rows}), encoding="utf-8")
    return known


def figures(told: dict[str, Any], seconds: float) -> dict[str, Any]:
    """What came of a load."""
    counted = [took for at, took in told["answered"] if WARM <= at <= seconds]
    return {
        "statuses": told["statuses"],
        "wrong": len(told["wrong"]),
        "broken": told["broken"],
        "captions a second": len(counted) / (seconds - WARM),
        "p50, s": quantile(counted, 0.5),
        "p99, s": quantile(counted, 0.99),
        "longest, s": max(counted, default=0.0),
        "told to wait, s": [quantile(told["waits"], share) for share in (0.0, 0.5, 1.0)],
    }


def levels(server: Serving, known: Path, plan: Plan) -> list[dict[str, Any]]:
    """Each number of clients for a while."""
    found = []
    names = ("naic_batch_images_sum", "naic_batch_images_count", 'naic_batch_images_bucket{le="16')
    for count in CLIENTS:
        before = [server.number(name) for name in names]
        told = heard(clients(server.address, known, count, plan.seconds))
        images, batches, small = (
            server.number(name) - was for name, was in zip(names, before, strict=True)
        )
        row = {"clients": count, **figures(told, plan.seconds)}
        found.append(row | {"images of a batch": images / batches, "too large": batches - small})
        print(json.dumps(found[-1]), flush=True)
    return found


def turns(server: Serving, known: Path, plan: Plan, folder: Path) -> list[dict[str, float]]:
    """`naic caption` and 64 clients of the server, one after the other, on the same files."""
    listed = folder / "photos.list"
    paths = json.loads(known.read_text(encoding="utf-8"))
    listed.write_text("".join(f"{path}\n" for path in paths), encoding="utf-8")
    found = []
    for _ in range(plan.turns):
        _, seen = command(listed, folder)
        told = heard(clients(server.address, known, AT_ONCE, plan.seconds))
        served = figures(told, plan.seconds)["captions a second"]
        found.append({"naic caption": steady(seen), "naic serve": served})
        print(json.dumps(found[-1]), flush=True)
    return found


def memory(server: Serving, known: Path, plan: Plan) -> dict[str, Any]:
    """Its memory under load, as it goes."""
    seen: list[tuple[float, float]] = []
    began = time.monotonic()
    over = threading.Event()

    def look() -> None:
        while not over.wait(EVERY):
            seen.append((time.monotonic() - began, server.resident / MIB))

    looking = threading.Thread(target=look)
    looking.start()
    told = heard(clients(server.address, known, AT_ONCE, plan.memory))
    over.set()
    looking.join()
    tenth = plan.memory / 10
    parts = [[mib for at, mib in seen if i * tenth <= at < (i + 1) * tenth] for i in range(10)]
    found = {"seconds": plan.memory, "MiB, the most of each tenth": [max(p) for p in parts]}
    found |= figures(told, plan.memory)
    print(json.dumps(found), flush=True)
    return found


def stops(known: Path, plan: Plan, temporary: Path) -> list[dict[str, Any]]:
    """SIGTERM in the middle of a load, again and again."""
    chance, found = random.Random(0), list[dict[str, Any]]()
    for number in range(plan.stops):
        count = ENDS[number % len(ENDS)]
        with serving(temporary) as server:
            asking = clients(server.address, known, count, 120.0)
            time.sleep(chance.uniform(1.5, 5.0))
            seconds, code = server.stop()
            told = heard(asking)
        row = {name: told[name] for name in ("statuses", "broken", "closed", "why")}
        row |= {"clients": count, "seconds": seconds, "code": code, "wrong": len(told["wrong"])}
        found.append(row)
        print(json.dumps(row), flush=True)
    return found


def measure(coco: Path, plan: Plan, folder: Path) -> dict[str, dict[str, Any]]:
    """All of it."""
    (folder / "photos").mkdir()
    (folder / "temporary").mkdir()
    known = captions(bring(coco, plan.photos, folder / "photos"), folder)
    options = ServeOptions()
    head: dict[str, Any] = {"naic": __version__, "machine": machine(CPU), "plan": asdict(plan)}
    limits = {"queue": options.queue, "batch": options.batch, "drain, s": options.drain}
    temporary = folder / "temporary"
    with serving(temporary) as server:
        load = {
            **(head | limits),
            "levels": levels(server, known, plan),
            "turns": turns(server, known, plan, folder),
            "memory": memory(server, known, plan),
        }
    with serving(temporary) as server:
        heard(clients(server.address, known, CLIENTS[1], WARM))  # or its memory would still grow
        faults = {
            **head,
            "mutations": mutations(server, known, plan.mutations),
            "documented": documented(server, known, plan.documented),
        }
    faults["stops"] = stops(known, plan, temporary)
    faults["temporary files"] = len([*temporary.rglob("*")])
    return {"load": load, "faults": faults}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--coco", type=Path, default=os.environ.get("NAIC_COCO"))
    parser.add_argument("--quick", action="store_true", help="a minute, to see that it runs")
    parser.add_argument("--out", type=Path, help="a folder for the figures")
    own = parser.parse_args(arguments)
    if own.coco is None:
        parser.error("--coco or NAIC_COCO has to name a folder with images-*.tar")
    with tempfile.TemporaryDirectory() as name:
        found = measure(own.coco, QUICK if own.quick else Plan(), Path(name))
    for part, run in found.items():
        run["command"] = 'python -m benchmarks.serving --coco "$NAIC_COCO"'
        if own.out:
            own.out.mkdir(parents=True, exist_ok=True)
            text = json.dumps(run, indent=1) + "\n"
            (own.out / f"{part}.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
