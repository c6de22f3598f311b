"""The part of backbones.md about backbones that learn inside the captioner, and are then packed.

From backbones/NAME-tuned-xe.json (from pixels, the backbone learns too), NAME-tuned-packed-xe.json
(on features of the packed backbone) and NAME-tuned-scst.json, all of benchmarks/training_run.py.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

STAGES = {
    "xe": "XE, frozen",
    "tuned-xe": "XE, the backbone learns too",
    "tuned-packed-xe": "XE, on features of that backbone, packed",
    "scst": "SCST, frozen",
    "tuned-scst": "SCST, on features of that backbone, packed",
}
Run = dict[str, Any]


def tuned_part(folder: Path, name: str) -> str:
    """The section of the page; nothing where there are no runs."""
    paths = {stage: folder / f"{name}-{stage}.json" for stage in STAGES}
    if not all(path.exists() for path in paths.values()):
        return ""
    runs: dict[str, Run] = {stage: json.loads(path.read_text()) for stage, path in paths.items()}
    rows = "\n".join(f"| {STAGES[stage]} | {_row(run)} |" for stage, run in runs.items())
    told = tomllib.loads(runs["tuned-xe"]["report"]["config"])
    rates, schedule, model = told["optimiser"], told["schedule"], told["model"]
    before = 100 * runs["tuned-xe"]["validations"][-1]["cider"]
    after = 100 * runs["tuned-packed-xe"]["validations"][0]["cider"]
    return f"""## Trained further, inside the captioner

{name} inside the teacher of cross-entropy above, from pixels, for
{told["run"]["epochs"]:g} epochs ([backbone.toml](../../configs/coco/backbone.toml)): a rate of
{schedule["learning_rate"]:g} for the captioner, {rates["backbone_rate"]:g} of that for the last
blocks of both networks and {rates["block_rate"]:g} of the next one's for each block before; frozen
for {rates["frozen_steps"]} steps; crops of at least {model["crop"]:g} of a side, mirrors. Then
packed to 4 bits a weight (`naic pack --calibrate`), and frozen: SCST learns on its features, with
each training image mirrored too.

| | epoch: CIDEr, beam 1 | CIDEr, beam 3 | 95 % | seconds |
|---|---|---|---|---|
{rows}

Packing itself cost nothing that could be measured: {before:.1f} at beam 1 before it, {after:.1f}
after it, by the same captioner, before that learnt anything on the new features. The captioner's
own weights are packed in the end only ([coco.md](coco.md) has the model that ships).

Not run: dinov2-vits14 alone, trained further and by SCST; a grid of 16x16.
"""


def _row(run: Run) -> str:
    """Validations, the score at beam 3 with its interval, and how long it took."""
    seen = {f"{one['epoch']:.0f}": 100 * one["cider"] for one in run["validations"]}
    points = ", ".join(f"{epoch}: {cider:.1f}" for epoch, cider in seen.items())
    found = run["evaluate"]["3"]
    low, high = (100 * value for value in found["intervals"]["CIDEr"])
    return (
        f"{points} | **{100 * found['scores']['CIDEr']:.1f}** | {low:.1f} to {high:.1f} | "
        f"{run['report']['seconds']:.0f}"
    )
