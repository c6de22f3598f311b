"""What is left of a run over shards when workers, a cluster, a shard or the run itself are broken?

    python -m benchmarks.scale_faults --out docs/results/scale/faults.json

Drawn scenes in tars, captioned by a model of random weights: what it says makes no sense, and must
be the same whoever says it. Ray with two workers; with workers that are killed by SIGKILL; with a
cluster whose head is killed, after which the command is given again on a new one; with a tar that
is cut off; and, without Ray, runs from one bucket of an S3 server on this machine to another, which
are killed. Each time all outputs are compared with those of one process that nobody disturbed.
"""

import argparse
import json
import os
import tempfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from tests.s3 import reach, serving_s3
from tests.tasks.shards import faults

from naic.device import CPU
from naic.tasks.benchmark.timing import machine

SHARDS, PER_SHARD, WORKER_KILLS, HEAD_AFTER, STORE_KILLS = 12, 100, 3, 3, 10


def main() -> None:
    """Run the trials, keep what came of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--shards", type=int, default=SHARDS)
    parser.add_argument("--per-shard", type=int, default=PER_SHARD)
    parser.add_argument("--store-kills", type=int, default=STORE_KILLS)
    chosen = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    found: dict[str, Any] = {
        "command": f"python -m benchmarks.scale_faults --out {chosen.out}",
        "machine": machine(CPU),
        "versions": {name: version(name) for name in ("ray", "s3fs", "moto", "pyarrow")},
        "shards": chosen.shards,
        "images": chosen.shards * chosen.per_shard,
    }
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        home = faults.make_home(Path(folder) / "trials", chosen.shards, chosen.per_shard)
        found["two workers"] = told(faults.two_workers(home))
        found["workers killed"] = told(faults.workers_killed(home, WORKER_KILLS))
        found["head killed"] = told(faults.head_killed(home, HEAD_AFTER))
        found["shard damaged"] = told(faults.shard_damaged(home))
        with serving_s3() as environment:
            reach(environment, patch)
            found["runs to a bucket killed"] = told(
                faults.store_kills(home, environment, chosen.store_kills)
            )
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def told(result: dict[str, Any]) -> dict[str, Any]:
    """Say what came of a trial as soon as it is known."""
    print(json.dumps(result), flush=True)
    return result


if __name__ == "__main__":
    main()
