r"""Ways from a model to a domain's captions, on thousands of photos: chains of training stages.

python benchmarks/finetune_routes.py data/flickr8k-features --out runs/routes [--only cmal teacher]

The store is one of `naic prepare` with the backbone of the model inside naic, its split "train"
mirrored too. All routes begin with that model and are scored on the store's split "val"; several
processes may share OUT, each with an --only of its own. What is finished is not made again.
OUT/ROUTE.json gets the scores and seconds of each stage.
"""

import argparse
import gc
import json
import time
from pathlib import Path
from typing import Any

import torch

from naic.progress import SILENT
from naic.runtime.captioner import shipped_model
from naic.tasks.distil import distil
from naic.tasks.options import DistilOptions
from naic.train.config import read_settings
from naic.train.kept import Kept
from naic.train.loop import train

CONFIGS = Path(__file__).parents[1] / "configs" / "coco"
Changes = dict[str, str]
# A stage: its name, its config, its start (a stage before it, or "" for the model), and settings.
Stage = tuple[str, str, str, Changes]

CMAL = {"cmal.baseline": "loo", "cmal.samples": "20"}
TEACHER: list[Stage] = [
    ("xe", "teacher_again", "", {"epochs": "8", "batch": "64", "rate": "2e-4"}),
    ("scst", "teacher_scst", "xe", {"epochs": "8", "batch": "64", "rate": "3e-5"}),
    ("pseudo", "", "scst", {}),
]
PSEUDO = {"data.pseudo": "pseudo"}
ROUTES: dict[str, list[Stage]] = {
    "as-it-is": [
        (
            "cmal",
            "cmal",
            "",
            {**CMAL, "epochs": "1.5", "batch": "16", "rate": "3e-4", "cmal.kl": "0.02"}
            | {"optimiser.frozen": '["encoder"]'},
        )
    ],
    "cmal-decoder": [
        (
            "cmal",
            "cmal",
            "",
            {**CMAL, "epochs": "10", "batch": "64", "rate": "3e-4"}
            | {"optimiser.frozen": '["encoder"]'},
        )
    ],
    "cmal-all": [("cmal", "cmal", "", {**CMAL, "epochs": "10", "batch": "64", "rate": "2e-4"})],
    "teacher": [
        *TEACHER,
        ("kd", "student_kd", "", {**PSEUDO, "epochs": "6", "batch": "64", "rate": "2e-4"}),
        ("cmal", "cmal", "kd", {**CMAL, "epochs": "6", "batch": "64", "rate": "1e-4"}),
    ],
    "teacher-to-student": [  # the student begins with the teacher's weights
        *TEACHER,
        (
            "kd",
            "student_kd",
            "scst",
            {**PSEUDO, "epochs": "10", "batch": "64", "rate": "3e-4", "model.transitions": "32"},
        ),
        ("cmal", "cmal", "kd", {**CMAL, "epochs": "6", "batch": "64", "rate": "1e-4"}),
    ],
}


def changes_of(own: Changes, folder: Path, start: str, options: argparse.Namespace) -> Changes:
    """A stage's settings as `naic train` would be given them."""
    epochs = str(float(own["epochs"]) * options.scale)
    changes = {
        "data.features": str(options.store),
        "data.train": '["train"]',
        "start": str(folder / start / "best" if start else shipped_model()),
        "schedule.learning_rate": own["rate"],
        "schedule.warmup_steps": "50",
        "optimiser.average": "0.99",
        "validation.report": "[1]",
        "run.batch": own["batch"],
        "engine.compile": "false",
    }
    for name in ("run.epochs", "schedule.total_epochs", "run.save_every"):
        changes[name] = epochs
    changes["run.validate_every"] = str(float(epochs) / 4)
    rest = {name: value for name, value in own.items() if "." in name}
    if "data.pseudo" in rest:
        rest["data.pseudo"] = f'["{folder / rest["data.pseudo"]}"]'
    return changes | rest | dict(item.split("=", 1) for item in options.set)


def run_stage(stage: Stage, folder: Path, options: argparse.Namespace, kept: Kept) -> Any:  # noqa: ANN401 - a report
    name, config, start, own = stage
    out = folder / name
    if not config:
        asked = DistilOptions(
            folder / start / "best", out, (options.store,), splits=("train",), batch=512
        )
        distil(asked, SILENT)
        return None
    changes = changes_of(own, folder, start, options) | {"out": str(out)}
    report = train(
        read_settings(CONFIGS / f"{config}.toml", list(changes.items())), resume=True, kept=kept
    )
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    return report["scores"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", nargs="*", default=list(ROUTES))
    parser.add_argument("--scale", type=float, default=1.0, help="of all numbers of epochs")
    parser.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    with Kept() as kept:
        for route in options.only:
            rows = []
            for stage in ROUTES[route]:
                began = time.monotonic()
                scores = run_stage(stage, options.out / route, options, kept)
                seconds = time.monotonic() - began
                rows.append({"stage": stage[0], "scores": scores, "seconds": seconds})
                print(route, stage[0], scores, f"{seconds:.0f} s", flush=True)
            path = options.out / f"{route}.json"
            path.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
