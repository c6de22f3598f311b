"""Time of METEOR on COCO's val split, here and by the reference program, and how far they differ.

    python benchmarks/meteor.py --captions dataset_coco.json.xz [--out docs/results/meteor.json]

Needs java and the extra `metrics`. The caption of each image is one of its human captions with
some words of other captions, against its other ones. Each side runs in a process of its own, in
turns: `first` is ours with an empty cache, so that it reads the table of paraphrases and keeps it,
`python` is ours from then on, `java` the program. The clocks run from before the tables are read
to the last score; CPU time is the user's and the system's, Java's included. The difference is the
largest over all images and the set.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from metrics import corrupt, cpu_seconds, read_split  # type: ignore[import-not-found]
from naic.metrics.meteor import meteor
from naic.metrics.score import Floats
from naic.text import tokenise

SIDES = ("first", "python", "java")
SHARE = 0.2  # of the words that are replaced


def read(path: Path) -> tuple[list[str], list[list[str]]]:
    images = [own for own in read_split(path, "val") if len(own) > 1]
    captions = corrupt([own[0] for own in images], share=SHARE, seed=0)
    return (
        [" ".join(tokenise(caption)) for caption in captions],
        [[" ".join(tokenise(caption)) for caption in own[1:]] for own in images],
    )


def run_side(side: str, path: Path) -> dict[str, object]:
    captions, references = read(path)
    wall, cpu = time.perf_counter(), cpu_seconds()
    found = meteor(captions, references, way="java" if side == "java" else "python")
    seconds = {"wall": time.perf_counter() - wall, "cpu": cpu_seconds() - cpu}
    return {"seconds": seconds, "scores": [*found.per_image.tolist(), found.value]}


def run_apart(side: str, path: Path, cache: Path) -> dict[str, object]:
    command = [sys.executable, __file__, "--side", side, "--captions", str(path)]
    environment = os.environ | {"NAIC_CACHE": str(cache)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    answer: dict[str, object] = json.loads(done.stdout)
    return answer


def measure(path: Path, rounds: int) -> dict[str, object]:
    seconds: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    scores: dict[str, Floats] = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as cache:
            for side in SIDES:
                answer = run_apart(side, path, Path(cache))
                seconds[side].append(answer["seconds"])  # type: ignore[arg-type]
                scores[side] = np.array(answer["scores"])
                print(side, seconds[side][-1], file=sys.stderr)
    best = {side: {k: min(one[k] for one in own) for k in own[0]} for side, own in seconds.items()}
    _, references = read(path)
    return {
        "images": len(references),
        "references": sum(map(len, references)),
        "rounds": rounds,
        "seconds": {
            side: {k: round(v, 2) for k, v in found.items()} for side, found in best.items()
        },
        "ratio": {k: round(best["python"][k] / best["java"][k], 3) for k in ("wall", "cpu")},
        "value": float(scores["java"][-1]),
        "largest_difference": max(
            float(np.abs(scores[side] - scores["java"]).max()) for side in ("first", "python")
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--captions", type=Path, required=True, help="dataset_coco.json, or .xz")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--load", default="", help="what else the machine was doing, for the page")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.side:
        print(json.dumps(run_side(given.side, given.captions)))
        return
    name = f"$NAIC_COCO/{given.captions.name}"
    run = {
        "command": f"python benchmarks/meteor.py --captions {name} --rounds {given.rounds}",
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "load": given.load,
        **measure(given.captions, given.rounds),
    }
    text = json.dumps(run, indent=2) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
