r"""Runs of `naic train` for all backbones, several lanes at once, each lane one run after another.

python benchmarks/backbones/lanes.py STORES --out RUNS \
    --lane clip-vit-b16+dinov2-vits14:xe clip-vit-b16+dinov2-vits14:scst \
    --lane clip-vit-b16:xe dinov2-vits14:xe efficientnet-lite2:xe

While one run compiles, the run of the other lane keeps the GPU busy. The settings are those of
xe.toml and scst.toml beside this file, the same for every backbone; SCST starts from the same
backbone's best weights of xe. What stands after `--` goes to every run (for a dry run: a small
model without a graph).
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

HERE = Path(__file__).parent


def command(job: str, stores: Path, out: Path, extra: list[str]) -> list[str]:
    """One run of the trainer."""
    backbone, stage = job.split(":")
    words = [sys.executable, "-m", "naic", "train", str(HERE / f"{stage}.toml")]
    words += ["--data.features", str(stores / backbone), "--out", str(out / f"{backbone}-{stage}")]
    if stage == "scst":
        words += ["--start", str(out / f"{backbone}-xe" / "best")]
    return words + extra


def run_lane(jobs: list[str], options: argparse.Namespace) -> None:
    """One run after another; a failed one ends the lane."""
    for job in jobs:
        began = time.monotonic()
        with (options.out / f"{job.replace(':', '-')}.log").open("wb") as log:
            words = command(job, options.stores, options.out, options.extra)
            done = subprocess.run(words, stdout=log, stderr=subprocess.STDOUT, check=False)
        took = time.monotonic() - began
        print(f"{job}: exit code {done.returncode} after {took:.0f} s", flush=True)
        if done.returncode:
            return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("stores", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lane", nargs="+", action="append", required=True)
    own = sys.argv[1:]
    cut = own.index("--") if "--" in own else len(own)
    options = parser.parse_args(own[:cut])
    options.extra = own[cut + 1 :]
    options.out.mkdir(parents=True, exist_ok=True)
    os.environ["PYTHONUNBUFFERED"] = "1"
    lanes = [threading.Thread(target=run_lane, args=(jobs, options)) for jobs in options.lane]
    for lane in lanes:
        lane.start()
    for lane in lanes:
        lane.join()


if __name__ == "__main__":
    main()
