r"""Two torchrun nodes beside one process: the loss of each step; one is killed, the other goes on.

naic prepare shapes 2000 --backbone blobs --out runs/shapes
python benchmarks/two_nodes.py configs/shapes/teacher_xe.toml \
    --out docs/results/scale/two-nodes.json

Both nodes are on this machine, each a torchrun of its own with one worker. When enough steps are
logged the second is killed with SIGKILL, workers and all; the first has to end by itself. The run
then goes on in one process. It is compared with unbroken runs of one process that takes its steps
in two parts, which adds up the same, and in one part, which adds up in another order. The settings
should have no dropout: processes have noise of their own.
"""

import argparse
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from naic.resume import checkpoints
from naic.train.logs import Metrics, read_metrics

PATIENCE = 600.0  # seconds, of this script
POINTS = 50  # of the curves that are kept


def words_of(options: argparse.Namespace, out: Path, parts: int = 1) -> list[str]:
    """The run, as `python` is told of it."""
    own = {"out": out, "run.epochs": options.epochs, "run.batch": options.batch}
    own |= {
        "run.log_every": 1,
        "run.save_every": options.epochs / 8,
        "data.spread": 2,
        "run.accumulate": parts,
    }
    own |= {"run.validate_every": options.epochs, "engine.device": "cpu"}
    given = [word for name, value in own.items() for word in (f"--{name}", str(value))]
    return ["-m", "naic", "train", str(options.config), *given, "--resume", "auto"]


def logged(run: Path) -> list[Metrics]:
    return [line for line in read_metrics(run) if "loss" in line]


def alone(options: argparse.Namespace, out: Path, parts: int = 1) -> None:
    """One process, to the end."""
    subprocess.run([sys.executable, *words_of(options, out, parts)], check=True)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def start_node(options: argparse.Namespace, out: Path, node: int, port: int) -> Any:  # noqa: ANN401
    """A torchrun in a group of processes of its own, so that it can be killed as a whole."""
    meeting = ["--master-addr", "127.0.0.1", "--master-port", str(port), "--node-rank", str(node)]
    words = ["-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1", *meeting]
    program = [sys.executable, *words, *words_of(options, out)]
    return subprocess.Popen(program, stderr=subprocess.PIPE, text=True, start_new_session=True)


def broken_off(options: argparse.Namespace, out: Path) -> dict[str, Any]:
    """Two nodes, one of which is killed on the way."""
    port = free_port()
    first, second = (start_node(options, out, node, port) for node in (0, 1))
    try:
        began = time.monotonic()
        while not (checkpoints(out) and len(logged(out)) >= options.kill_after):
            if first.poll() is not None or time.monotonic() - began > PATIENCE:
                raise SystemExit(f"the nodes came to nothing: {first.communicate()[1]}")
            time.sleep(0.01)
        os.killpg(second.pid, signal.SIGKILL)
        began = time.monotonic()
        told = first.communicate(timeout=PATIENCE)[1]
    finally:
        for node in (first, second):
            if node.poll() is None:
                os.killpg(node.pid, signal.SIGKILL)
        second.communicate()
    lines = [line for line in told.splitlines() if line.startswith("naic train: ")]
    return {
        "steps_of_two": len(logged(out)),
        "resumed_from_step": int(max(checkpoints(out))),
        "seconds_until_the_other_ended": round(time.monotonic() - began, 2),
        "exit_code": first.returncode,
        "it_said": lines,
    }


def weights(run: Path) -> bytes:
    """Of the last checkpoint."""
    folder = checkpoints(run)[max(checkpoints(run))]
    return (folder / "model.safetensors").read_bytes()


def compare(run: Path, other: Path) -> dict[str, Any]:
    """How far two runs are from each other: the largest deviations of all steps, relative."""
    found: dict[str, Any] = {"weights_identical": weights(run) == weights(other)}
    for name in ("loss", "gradient"):
        pairs = [
            (float(a[name]), float(b[name]))
            for a, b in zip(logged(run), logged(other), strict=True)
        ]
        found[name] = max(abs(a - b) / abs(a) for a, b in pairs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path, help="settings of a run whose features are there")
    parser.add_argument("--batch", type=int, default=24)
    parser.add_argument("--epochs", type=float, default=4.0)
    parser.add_argument("--kill-after", type=int, default=150, help="steps that two nodes make")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        broken, halves, whole = (Path(folder) / name for name in ("broken", "halves", "whole"))
        killed = broken_off(options, broken)
        alone(options, broken)
        alone(options, halves, parts=2)
        alone(options, whole)
        two, one = logged(broken), logged(halves)
        compared = {
            "two nodes, and one process in two parts": compare(halves, broken),
            "one process in two parts, and in one": compare(whole, halves),
        }
        reports = [json.loads((run / "report.json").read_text()) for run in (halves, broken)]
    every = max(1, len(one) // POINTS)
    result = {
        "command": f"python {shlex.join(sys.argv)}",
        "config": str(options.config),
        "stage": reports[0]["stage"],
        "parameters": reports[0]["parameters"],
        "images": reports[0]["data"]["images"],
        "batch": options.batch,
        "steps": len(one),
        **killed,
        "deviation": compared,
        "cider": [report["scores"][0]["cider"] for report in reports],
        "curve": [
            [a["step"], a["loss"], b["loss"]] for a, b in list(zip(one, two, strict=True))[::every]
        ],
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
