"""What it costs that processes exchange gradients: measured with two of them here, on paper for 8.

python benchmarks/nodes.py configs/shapes/teacher_xe.toml --out docs/results/scale/nodes.json

The same steps are run by one process with the whole batch, on one core and on all of them; by two
with half of it each, on half of the cores; and by these two without exchanging anything. Ways come
in turns, and a figure is the median over rounds. The learning rate is 0: every step does the work
of a step, and all of them do the same. On paper is what a ring all-reduce moves, by the numbers of
parameters and the bandwidths of data sheets, beside the steps that were measured on one H200
(docs/results/training-speed.json and cmal-speed-256.json).
"""

import argparse
import json
import os
import platform
import shlex
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch import Tensor

from naic.train.batches import Draw, Feed
from naic.train.config import read_settings
from naic.train.engine import TrainingEngine, prepare_speed
from naic.train.inputs import Inputs, find_inputs
from naic.train.kept import Kept
from naic.train.launch import launch
from naic.train.rewarding import find_rewards
from naic.train.stages import make_tools, stage_of
from naic.train.tools import Logs

RESULTS = Path(__file__).parents[1] / "docs" / "results"
WARM = 3  # steps before those that are counted
FLOAT = 4  # bytes of a gradient, also in mixed precision
# Bytes a second in one direction, of each card, by the data sheets of an H200 (NVLink 4: 900 GB/s
# both ways) and of one 400 Gb/s adapter a card (NDR).
LINKS = {"NVLink, one machine": 450e9, "InfiniBand, eight machines": 50e9}
CARDS = 8


@dataclass(frozen=True)
class Exchange:
    """A ring all-reduce of all gradients, on paper: nothing of it hidden behind the backward pass.

    Attributes:
        gradient_bytes: of all gradients.
        bytes_sent: by each card, and as many received: it passes on 1/cards of all in each of
            2 (cards - 1) steps.
        milliseconds: by the kind of link.
    """

    gradient_bytes: int
    bytes_sent: int
    milliseconds: dict[str, float]


def on_paper(parameters: int, cards: int = CARDS) -> Exchange:
    """What `cards` cards exchange in a step for so many parameters that learn."""
    size = FLOAT * parameters
    sent = 2 * (cards - 1) * size // cards
    return Exchange(size, sent, {name: 1e3 * sent / speed for name, speed in LINKS.items()})


def eight_cards() -> list[dict[str, Any]]:
    """Beside steps of one H200: of several processes no step is a CUDA graph."""
    teacher = json.loads((RESULTS / "training-speed.json").read_text(encoding="utf-8"))
    student = json.loads((RESULTS / "cmal-speed-256.json").read_text(encoding="utf-8"))
    found = [("teacher_xe", teacher["parameters"], teacher["stages"]["xe"])]
    of_student = student["batches"]["256"]
    found += [
        (name, student["parameters"], {"batch": 256, "ways": of_student[name]})
        for name in ("student_xe", "cmal")
    ]
    rows = []
    for stage, parameters, measured in found:
        exchange = on_paper(parameters)
        alone = {way: measured["ways"][way]["step_ms"] for way in ("compiled", "compiled, graph")}
        batch = measured["batch"]
        rate = {
            link: 1e3 * CARDS * batch / (alone["compiled"] + milliseconds)
            for link, milliseconds in exchange.milliseconds.items()
        }
        rows.append(
            {
                "stage": stage,
                "parameters": parameters,
                "cards": CARDS,
                "batch_of_a_card": batch,
                "step_ms_of_one_card": alone,
                "images_per_second_of_one_card": 1e3 * batch / alone["compiled, graph"],
                "images_per_second": rate,
                **asdict(exchange),
            }
        )
    return rows


class Separable(TrainingEngine):
    """An engine that can keep its gradients to itself."""

    exchanging = True

    def update(self, draws: list[Draw]) -> Logs:
        if self.exchanging:
            return super().update(draws)
        with self._accelerator.no_sync(self._model):
            return super().update(draws)


def make_engine(inputs: Inputs, accelerator: Accelerator) -> Separable:
    settings = inputs.settings
    feed = Feed(
        inputs.images,
        inputs.targets,
        batch=settings.run.batch,
        captions=settings.data.captions,
        seed=settings.seed,
        rank=accelerator.process_index,
        world=accelerator.num_processes,
        device=accelerator.device,
        fill=stage_of(settings).fill(settings),
    )
    rewards = find_rewards(inputs, accelerator, Kept())
    speed = prepare_speed(inputs.model, settings.engine)
    tools = make_tools(settings, inputs.spec, inputs.model, inputs.vocabulary, rewards, speed)
    return Separable(accelerator, tools, feed)


def seconds_of(work: Callable[[int], object], steps: int) -> float:
    """Of one step, until the slowest process has done it."""
    for step in range(WARM):
        work(step)
    if dist.is_initialized():
        dist.barrier()
    began = time.perf_counter()
    for step in range(WARM, WARM + steps):
        work(step)
    seconds = torch.tensor((time.perf_counter() - began) / steps)
    if dist.is_initialized():
        dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return float(seconds)


def work(options: argparse.Namespace) -> None:
    """As one of the processes: run the steps; the first one writes what it found."""
    accelerator = Accelerator(cpu=True)
    settings = read_settings(options.config, [("engine.device", "cpu")])
    settings = replace(settings, run=replace(settings.run, batch=options.batch, accumulate=1))
    inputs = find_inputs(settings)
    engine = make_engine(inputs, accelerator)
    learn = [p for p in inputs.model.parameters() if p.requires_grad]
    found: dict[str, Any] = {
        "stage": settings.stage,
        "parameters": sum(p.numel() for p in learn),
        "threads": torch.get_num_threads(),
        "processes": accelerator.num_processes,
        "step_seconds": seconds_of(lambda step: engine.step(step, 0.0), options.steps),
    }
    if accelerator.num_processes > 1:
        engine.exchanging = False
        apart = seconds_of(lambda step: engine.step(step, 0.0), options.steps)
        gradients = torch.zeros(found["parameters"])

        def exchange(_: int) -> Tensor:
            dist.all_reduce(gradients)
            return gradients

        found |= {"apart_seconds": apart, "exchange_seconds": seconds_of(exchange, options.steps)}
    if accelerator.is_main_process:
        options.out.write_text(json.dumps(found), encoding="utf-8")
    if dist.is_initialized():
        del engine  # what exchanges gradients holds on to the group, and threads of it
        dist.barrier()  # a process that leaves first takes the connection of the other with it
        dist.destroy_process_group()


def run(options: argparse.Namespace, processes: int, threads: int) -> dict[str, Any]:
    """One way of running steps, in processes of its own."""
    os.environ["OMP_NUM_THREADS"] = str(threads)
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "found.json"
        words = [str(options.config), "--batch", str(options.batch), "--steps", str(options.steps)]
        if launch(processes, [__file__, *words, "--out", str(out), "--worker"]):
            raise SystemExit("a process failed")
        found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    print(found, flush=True)
    return found


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """All ways in turns, and what they come to."""
    cores = os.cpu_count() or 1
    ways = {"one process, one core": (1, 1), "one process": (1, cores)}
    ways["two processes"] = (2, max(1, cores // 2))
    rounds = [
        {name: run(options, *way) for name, way in ways.items()} for _ in range(options.rounds)
    ]
    each: dict[str, list[float]] = {
        name: [found[name]["step_seconds"] for found in rounds] for name in ways
    }
    both = [found["two processes"] for found in rounds]
    each["two processes, nothing exchanged"] = [found["apart_seconds"] for found in both]
    first = both[0]
    return {
        "command": f"python {shlex.join(sys.argv)}",
        "cores": cores,
        "processor": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "config": str(options.config),
        "stage": first["stage"],
        "parameters": first["parameters"],
        "gradient_bytes": FLOAT * first["parameters"],
        "batch": options.batch,
        "steps": options.steps,
        "rounds": options.rounds,
        "steps_per_second": {name: 1 / statistics.median(some) for name, some in each.items()},
        "step_seconds": each,
        "exchange_seconds": [found["exchange_seconds"] for found in both],
        "eight_cards": eight_cards(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("config", type=Path, help="settings of a run whose features are there")
    parser.add_argument("--batch", type=int, default=24, help="images in a step, of all processes")
    parser.add_argument("--steps", type=int, default=40, help="steps in a round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        work(options)
        return
    found = measure(options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
