"""What a CMAL step costs beside a student's XE step, the reward's share, and the whole schedule.

python benchmarks/cmal.py --features data/coco-features --out docs/results/cmal-speed.json

Transformer-base in mixed precision, as in benchmarks/training.py, whose parts are used here. The
student's XE has one caption an image, the teacher's. Where there is no GPU, only eager steps are
run: to try the script, with `--small`.
"""

import argparse
import json
import platform
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from naic.config import structure
from naic.learn.cider.rewards import make_rewards
from naic.train.inputs import Inputs, find_inputs
from naic.train.settings import Settings
from training import (  # type: ignore[import-not-found]
    WAYS,
    Bench,
    graph_seconds,
    median_seconds,
)

IMAGES, BATCH = 113_287, 50  # the paper's
EPOCHS = {"teacher_xe": 15, "scst": 25, "student_xe": 30, "cmal": 70}
FASTEST = "compiled, graph"
SMALL = {"width": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "hidden": 32}


def settings_of(stage: str, options: argparse.Namespace) -> Settings:
    """A stage as the paper has it; what is not said here makes no step slower."""
    teacher = stage in ("teacher_xe", "scst")
    data = {
        "features": str(options.features),
        "train": options.train,
        "validation": options.validation,
        "captions": 5 if stage == "teacher_xe" else 1,
    }
    if options.vocabulary is not None:
        data["vocabulary"] = str(options.vocabulary)
    values = {
        "stage": stage,
        "out": "nowhere",
        "captioner": "causal" if teacher else "parallel",
        "data": data,
        "model": SMALL if options.small else {},
        "optimiser": {"average": 0.0},  # the paper keeps no average of the weights
    }
    return structure(values, Settings, "benchmark")


def sized(settings: Settings, batch: int) -> Settings:
    return replace(settings, run=replace(settings.run, batch=batch))


def reward_seconds(bench: Any) -> dict[str, float]:  # noqa: ANN401
    """Judging sampled sentences and their counterfactuals by themselves, in each way."""
    settings, device = bench.settings, bench.accelerator.device
    batch = bench.feed.fetch(bench.feed.draw(0)[0])
    shape = (len(batch.rows), bench.inputs.model.length)
    words = batch.words[:, 0]  # captions people wrote: the time depends on the shapes alone
    others = torch.randint(4, bench.inputs.model.words, (*shape, settings.cmal.topk))
    given = (words, others.to(device), batch.rows)
    cuda = device.type == "cuda"
    found = {}
    for way, (compiled, graph) in WAYS.items():
        if way == "eager" or cuda:
            rewards = make_rewards(bench.references, device, compiled=compiled)
            rewards.judge(*given)
            measured = graph_seconds if graph else median_seconds
            found[way] = measured(lambda rewards=rewards: rewards.judge(*given))
    return found


def measure(bench: Any, ways: list[str]) -> dict[str, dict[str, float]]:  # noqa: ANN401
    """Milliseconds of a step in each way."""
    found = {}
    for way in ways:
        seconds, first, memory = bench.seconds(way)
        found[way] = {
            "step_ms": 1e3 * seconds,
            "images_per_second": bench.settings.run.batch / seconds,
            "first_step_seconds": first,
            "gigabytes": memory,
        }
        print(bench.settings.stage, bench.settings.run.batch, way, found[way], flush=True)
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    return found


def compare(inputs: Inputs, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    """The student's two stages on batches of the same size."""
    ways = list(WAYS) if torch.cuda.is_available() else ["eager"]
    found: dict[str, Any] = {}
    for stage in ("student_xe", "cmal"):
        bench = Bench(sized(settings_of(stage, options), batch), inputs)
        found[stage] = measure(bench, ways)
        if stage == "cmal":
            found["reward_ms"] = {w: 1e3 * s for w, s in reward_seconds(bench).items()}
    steps = {
        way: (found["cmal"][way]["step_ms"], found["student_xe"][way]["step_ms"]) for way in ways
    }
    return found | {
        "ratio": {way: cmal / xe for way, (cmal, xe) in steps.items()},
        "reward_share": {way: found["reward_ms"][way] / steps[way][0] for way in ways},
    }


def project(student: dict[str, Any], inputs: Inputs, options: argparse.Namespace) -> dict[str, Any]:
    """Hours of the paper's whole schedule, from a step of each stage at its batch size.

    Steps alone: validations, checkpoints and the teacher's captions come on top.
    """
    way = FASTEST if torch.cuda.is_available() else "eager"
    steps = {stage: student[stage][way]["step_ms"] for stage in ("student_xe", "cmal")}
    for stage in ("teacher_xe", "scst"):
        bench = Bench(sized(settings_of(stage, options), BATCH), inputs)
        steps[stage] = measure(bench, [way])[way]["step_ms"]
    hours = {
        stage: epochs * IMAGES / BATCH * steps[stage] / 3.6e6 for stage, epochs in EPOCHS.items()
    }
    return {
        "way": way,
        "images": IMAGES,
        "batch": BATCH,
        "epochs": EPOCHS,
        "step_ms": {stage: steps[stage] for stage in EPOCHS},
        "hours": hours,
        "total_hours": sum(hours.values()),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--vocabulary", type=Path, help="a vocab.json; else from the captions")
    parser.add_argument("--train", nargs="+", default=["train", "restval"], help="splits")
    parser.add_argument("--validation", nargs="+", default=["val"], help="splits")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--batches", nargs="+", type=int, default=[BATCH, 256])
    parser.add_argument("--small", action="store_true", help="a tiny model, to try the script")
    options = parser.parse_args()
    student = find_inputs(settings_of("student_xe", options))
    batches = {str(batch): compare(student, batch, options) for batch in options.batches}
    schedule = None
    if BATCH in options.batches:
        teacher = find_inputs(settings_of("teacher_xe", options))
        schedule = project(batches[str(BATCH)], teacher, options)
    cuda = torch.cuda.is_available()
    report = {
        "command": f"python {shlex.join(sys.argv)}",
        "machine": torch.cuda.get_device_name() if cuda else platform.machine(),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "parameters": sum(p.numel() for p in student.model.parameters()),
        "words": len(student.vocabulary),
        "images": len(student.targets),
        "regions": len(student.store[0]),
        "features": student.store.dim,
        "batches": batches,
        "schedule": schedule,
    }
    options.out.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
