"""How soon the page of `naic evaluate --html` is there and answers a key, with 5,000 images.

    python -m benchmarks.evaluate_page --playwright node_modules/playwright-core \
        --out docs/results/serving/evaluate-html.json

5,000 drawn scenes with five references each and the captions of two systems: without pictures,
with links to PNG files, and with small copies of them in the page. Chromium runs without a screen,
loads each page several times as a new one, and types words into its search. Times are from the
start of the load, and from each key, until what follows is painted. To be run alone on the
machine: the load average of the minute before is noted.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from naic.data.shapes import dataset
from naic.files import write_atomically
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.report import write_reports
from naic.tasks.evaluate.run import evaluate

DRIVER = Path(__file__).parents[1] / "tests" / "tasks" / "evaluate" / "page.mjs"
IMAGES = 5000
TYPED = 'red circle "left of"'  # many rows fit at first, then fewer


def captions(folder: Path, count: int) -> tuple[Path, Path]:
    """Two files of results: a reference of each scene, and that of the next one with a stutter."""
    said = [(record.id, record.captions[0]) for record in dataset.records(count)]
    other = [
        (id_, f"{text.split()[0]} {text}" if place % 9 == 0 else text)
        for place, ((id_, _), (_, text)) in enumerate(zip(said, said[1:] + said[:1], strict=True))
    ]
    paths = (folder / "one.json", folder / "other.json")
    for path, rows in zip(paths, (said, other), strict=True):
        path.write_text(json.dumps([{"image_id": id_, "caption": text} for id_, text in rows]))
    return paths


def in_browser(page: Path, given: argparse.Namespace) -> dict[str, Any]:
    """What tests/tasks/evaluate/page.mjs tells of several loads."""
    spec = {
        "playwright": str(given.playwright.absolute()),
        "chromium": given.chromium,
        "page": str(page),
        "loads": given.loads,
        "typed": TYPED,
    }
    told = subprocess.run(["node", DRIVER, json.dumps(spec)], check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(told.stdout)
    assert not found["console"], found["console"]
    return found


def measured(page: Path, seconds: float, given: argparse.Namespace) -> dict[str, Any]:
    """One page: its size, how long it took to write, and what the browser took."""
    found = in_browser(page, given)
    loads = found["loads"]
    keys = sorted(key for load in loads for key in load["keys"])
    return {
        "megabytes": round(page.stat().st_size / 1e6, 1),
        "seconds_to_write": round(seconds, 1),
        "first_paint_ms": round(median(load["first"] for load in loads)),
        "first_rows_ms": round(median(load["rows"] for load in loads)),
        "first_rows_ms_of_each_load": [round(load["rows"]) for load in loads],
        "keys": len(keys),
        "key_ms": round(median(keys), 1),
        "key_ms_worst": round(keys[-1], 1),
        "elements": max(load["elements"] for load in loads),
        "outside_requests": sum(
            not asked.startswith(("file:", "data:")) for asked in found["requests"]
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--playwright", type=Path, required=True)
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--images", type=int, default=IMAGES)
    parser.add_argument("--loads", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    given.out.parent.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([given.chromium, "--version"], capture_output=True, check=True)
    result: dict[str, Any] = {
        "command": "python -m benchmarks.evaluate_page",
        "chromium": version.stdout.decode().strip(),
        "cores": os.cpu_count(),
        "load_before": round(os.getloadavg()[0], 2),
        "images": given.images,
        "references": 5 * given.images,
        "systems": 2,
        "loads": given.loads,
        "typed": TYPED,
    }
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        one, other = captions(folder, given.images)
        dataset.write(given.images, 0, folder / "scenes")
        for kind in ("without", "linked", "embedded"):
            options = EvaluateOptions(
                one,
                str(given.images),
                fast=True,
                against=other,
                html=folder / f"{kind}.html",
                images=() if kind == "without" else (folder / "scenes",),
                embed=kind == "embedded",
            )
            evaluation = evaluate(options)
            start = time.perf_counter()
            write_reports(evaluation, options)
            seconds = time.perf_counter() - start
            result[kind] = measured(folder / f"{kind}.html", seconds, given)
            print(kind, result[kind], flush=True)
    write_atomically(given.out, (json.dumps(result, indent=2) + "\n").encode())


if __name__ == "__main__":
    main()
