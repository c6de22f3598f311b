"""The part of scale.md on training on two nodes: one run, its cost, a node that is killed."""

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "scale"
EVERY = 5  # of the points of the curve
CONFIG = "configs/shapes/teacher_xe.toml"
Run = dict[str, Any]


def nodes_part() -> str:
    """The part, of the results that are there."""
    killed, cost = (_read(name) for name in ("two-nodes", "nodes"))
    return f"\n## Training on two nodes\n\n{two_nodes(killed)}\n{exchange(cost)}"


def _read(name: str) -> Run | None:
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return None
    found: Run = json.loads(path.read_text(encoding="utf-8"))
    return found


def two_nodes(found: Run | None) -> str:
    """Two nodes beside one process, and what came of it that one was killed."""
    if found is None:
        return _missing("two_nodes", "two-nodes")
    rows = "\n".join(
        f"| {name} | {'yes' if own['weights_identical'] else 'no'} | {own['loss']:.1e} "
        f"| {own['gradient']:.1e} |"
        for name, own in found["deviation"].items()
    )
    points = found["curve"][::EVERY]
    curve = "\n".join(f"| {step:,} | {one:.6f} | {two:.6f} |" for step, one, two in points)
    one, two = (100 * value for value in found["cider"])
    return f"""`{found["command"]}`:
`{found["stage"]}` on {found["images"]:,} drawn scenes, two `torchrun` nodes of one
process each, {found["steps"]:,} steps of {found["batch"]} images, without dropout or
other chance. After {found["steps_of_two"]:,} steps one node was killed by SIGKILL. The other ended
{found["seconds_until_the_other_ended"]:.1f} s later with exit code {found["exit_code"]}. It said:

{_quoted(found["it_said"])}

The same command with `--resume auto`, on one node, went on from step
{found["resumed_from_step"]:,}.

| compared | same weights, to the bit | largest deviation of a loss | of a gradient's norm |
|---|---|---|---|
{rows}

Deviations are relative, over all steps. Sums of another order round otherwise, and Adam enlarges
that; one process whose steps are in two parts adds as two nodes do. CIDEr on the validation
scenes: {one:.2f} of one process, {two:.2f} of the broken run.

| step | loss of one process | of two nodes, then one |
|---|---|---|
{curve}
"""


def _quoted(lines: list[str]) -> str:
    return "\n".join(f"> {line}" for line in lines)


def exchange(found: Run | None) -> str:
    """What exchanging gradients costs here, and would cost on eight cards."""
    if found is None:
        return _missing("nodes", "nodes")
    alone = found["steps_per_second"]["one process"]
    rows = "\n".join(
        f"| {name} | {rate:.2f} | {rate / alone:.2f} |"
        for name, rate in found["steps_per_second"].items()
    )
    cards = "\n".join(
        _card(row, link) for row in found["eight_cards"] for link in row["milliseconds"]
    )
    return f"""### What it costs

`{found["command"]}` ({found["cores"]} cores, torch {found["torch"]}): `{found["stage"]}` with
{found["parameters"] / 1e6:.1f} million parameters, so {found["gradient_bytes"] / 1e6:.1f} MB of
gradients in a step of {found["batch"]} images.

| | steps a second | beside one process |
|---|---|---|
{rows}

On paper, not measured: eight H200 in a ring, each of which sends 7/4 of its gradients in a step,
at the data sheets' 450 GB/s (NVLink) and 50 GB/s (400 Gb/s InfiniBand), nothing of it hidden behind
the backward pass.
One card's steps are those that were measured ([training.md](training.md)); several processes have
no CUDA graph of a step.

{_CARDS}
{cards}
"""


_CARDS = (
    "| stage | link | gradients, MB | sent by a card, MB | exchange, ms | one card's step, ms "
    "| of eight cards, images/s | one card with a graph, images/s |\n"
    "|---|---|---|---|---|---|---|---|"
)


def _card(row: Run, link: str) -> str:
    return (
        f"| {row['stage']} | {link} | {row['gradient_bytes'] / 1e6:.0f} "
        f"| {row['bytes_sent'] / 1e6:.0f} | {row['milliseconds'][link]:.2f} "
        f"| {row['step_ms_of_one_card']['compiled']:.1f} | {row['images_per_second'][link]:,.0f} "
        f"| {row['images_per_second_of_one_card']:,.0f} |"
    )


def _missing(script: str, name: str) -> str:
    command = f"python benchmarks/{script}.py {CONFIG} --out docs/results/scale/{name}.json"
    return f"Not run yet: `{command}`\n"
