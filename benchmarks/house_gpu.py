"""Decoding at batch 1 on a GPU, with the sources of an old and of a new commit, in turns.

python benchmarks/house_gpu.py --old OLD/src --new NEW/src --out docs/results/house-h200.json

Each turn is a process of its own: `naic benchmark` of the part `decode` (features on the device to
words on the host), as CUDA graphs in float16, for the model inside naic and for transformer-base.
OLD and NEW are folders with `src` in them, such as `git archive COMMIT src | tar -x -C OLD` makes.
On a processor it can be tried with --device cpu --runtime eager.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SIDE = Path(__file__).with_name("house_side.py")
SIZES = ("shipped", "transformer-base")
Found = dict[str, Any]


def benchmark(sources: Path, size: str, own: argparse.Namespace) -> Found:
    """What `naic benchmark` says with these sources."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "benchmark.json")
        words = ["--size", size, "--parts", "decode", "--batches", "1", "--against"]
        words += ["--runtimes", own.runtime, "--device", own.device]
        words += ["--seconds", str(own.seconds), "--out", str(out)]
        command = [sys.executable, "-P", str(SIDE), str(sources), "naic", "benchmark", *words]
        paths = [str(sources), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(paths)}
        ran = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, check=False
        )
        if ran.returncode:
            raise SystemExit(f"{sources}: naic benchmark {words}\n{ran.stdout}{ran.stderr}")
        found: Found = json.loads(out.read_text(encoding="utf-8"))
    return found


def milliseconds(found: Found) -> dict[str, float]:
    """Medians by model and decoding; NAIC's own rows and its teacher's."""
    return {
        f"{row['model']}, {row['decoding']}, {row['precision']}"
        + (f", cache {row['cache']}" if row["cache"] != "none" else ""): row["median_ms"]
        for row in found["rows"]
        if row["state"] == "timed"
    }


def measure(own: argparse.Namespace) -> Found:
    trees = {"old": own.old.resolve(), "new": own.new.resolve()}
    times: dict[str, dict[str, dict[str, list[float]]]] = {}
    machine: Found = {}
    for number in range(own.rounds):
        for side in sorted(trees, reverse=bool(number % 2)):  # who is first changes
            for size in SIZES:
                found = benchmark(trees[side], size, own)
                machine = found["machine"]
                for row, taken in milliseconds(found).items():
                    sides = times.setdefault(size, {}).setdefault(row, {"old": [], "new": []})
                    sides[side].append(taken)
        print(f"round {number + 1} of {own.rounds}", file=sys.stderr, flush=True)
    return {
        "commits": {"old": own.old_commit, "new": own.new_commit},
        "machine": machine,
        "runtime": own.runtime,
        "seconds": own.seconds,
        "times": times,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--old", type=Path, required=True, metavar="SRC")
    parser.add_argument("--new", type=Path, required=True, metavar="SRC")
    parser.add_argument("--old-commit", default="0c4671d", help="what to call it on the page")
    parser.add_argument("--new-commit", default="", help="likewise")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0, help="of each figure in each turn")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--runtime", default="graph")
    parser.add_argument("--out", type=Path, metavar="FILE")
    own = parser.parse_args()
    text = json.dumps(measure(own), indent=1) + "\n"
    print(text, end="")
    if own.out is not None:
        own.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
