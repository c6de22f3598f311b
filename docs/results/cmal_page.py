"""cmal.md: what a CMAL step costs, and the paper's whole schedule, from cmal-speed*.json."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
FILES = ("cmal-speed-50.json", "cmal-speed-256.json")
MOST, MOST_REWARD, MOST_HOURS = 1.5, 0.05, 4.0  # what we set ourselves
FASTEST = "compiled, graph"
NAMES = {"teacher_xe": "teacher, XE", "scst": "teacher, SCST", "student_xe": "student, XE"}


def cmal() -> str:
    """The whole page."""
    runs = [json.loads((FOLDER / name).read_text(encoding="utf-8")) for name in FILES]
    return "\n".join([_head(runs), *(_batches(run) for run in runs), _schedule(runs)])


def _head(runs: list[dict[str, Any]]) -> str:
    run = runs[0]
    commands = "\n".join(f"- `{own['command']}`" for own in runs)
    return f"""# CMAL: the price of a step

Made by `make docs` from the run files here ({run["machine"]}, torch {run["torch"]}, Python
{run["python"]}):

{commands}

Transformer-base ({run["parameters"]:,} parameters, {run["words"]:,} words), mixed precision,
features of {run["regions"]} × {run["features"]} of {run["images"]:,} images kept on the device. The
student's cross-entropy has one caption an image, its teacher's. CMAL has k = 2 and one sentence an
image. Milliseconds are medians of whole steps: forward, backward and optimiser. All batches have
the same shape, so the number of images does not matter.
"""


def _batches(run: dict[str, Any]) -> str:
    parts = []
    for batch, found in run["batches"].items():
        rows = "\n".join(
            f"| {way} | {found['student_xe'][way]['step_ms']:.2f} "
            f"| {found['cmal'][way]['step_ms']:.2f} | {ratio:.2f} | {found['reward_ms'][way]:.3f} "
            f"| {100 * found['reward_share'][way]:.1f} |"
            for way, ratio in found["ratio"].items()
        )
        ratio, share = found["ratio"][FASTEST], found["reward_share"][FASTEST]
        verdict = (
            f"At most {MOST} was asked for, and it is {ratio:.2f}: {_held(ratio <= MOST)}. The "
            f"reward was to take at most {100 * MOST_REWARD:.0f} % of the step, and takes "
            f"{100 * share:.1f} %: {_held(share <= MOST_REWARD)}."
        )
        parts.append(f"""## Batches of {batch} images

| | student XE, ms | CMAL, ms | ratio | the reward alone, ms | its share, % |
|---|---|---|---|---|---|
{rows}

{verdict} (Both compiled, in a graph.)
""")
    return "\n".join(parts)


def _held(holds: bool) -> str:
    return "reached" if holds else "**missed**"


def _schedule(runs: list[dict[str, Any]]) -> str:
    found = next(run["schedule"] for run in runs if run["schedule"] is not None)
    rows = "\n".join(
        f"| {NAMES.get(stage, 'student, CMAL')} | {epochs} | {found['step_ms'][stage]:.2f} "
        f"| {found['hours'][stage]:.2f} |"
        for stage, epochs in found["epochs"].items()
    )
    total = found["total_hours"]
    return f"""## The paper's whole schedule on one card

Projected from measured steps ({found["way"]}) of {found["batch"]} images, with {found["images"]:,}
images an epoch; validations, checkpoints and the teacher's captions come on top. SCST has five
sentences an image against their leave-one-out baseline, which is dearer than the one of the paper.

| stage | epochs | a step, ms | hours |
|---|---|---|---|
{rows}
| **all** | | | **{total:.2f}** |

At most {MOST_HOURS:.0f} hours were asked for: {_held(total <= MOST_HOURS)}.
"""
