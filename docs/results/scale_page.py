"""scale.md: many shards, what they take and whether time and memory grow with their number."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Run = dict[str, Any]
FILE = Path(__file__).parent / "scale" / "shards.json"
MILLION, HOUR = 1_000_000, 3600
# What is to be run, by the name of the run, and what it shows.
RUNS = {
    "tiny": (
        "The smallest model, on a million images",
        "python benchmarks/scale.py --images train2017 --precision float32 "
        "--out docs/results/scale/shards.json",
    ),
    "shipped": (
        "The model inside naic, on a sample",
        "python benchmarks/scale.py --images train2017 --model shipped --shards 4 "
        "--out docs/results/scale/shards.json",
    ),
}


def scale_pages() -> dict[str, Callable[[], str]]:
    """The page, by its name."""
    from scale_faults_page import faults_part  # type: ignore[import-not-found]
    from scale_nodes_page import nodes_part  # type: ignore[import-not-found]

    return {"scale.md": lambda: scale(_runs()) + faults_part() + nodes_part()}


def _runs() -> dict[str, Run]:
    if not FILE.exists():
        return {}
    found: dict[str, Run] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def scale(runs: dict[str, Run]) -> str:
    """scale.md; a run that is not there yet is named with its command."""
    others = {name: (f"Another run: {name}", "") for name in runs if name not in RUNS}
    parts = [
        _run(title, runs[name]) if name in runs else _missing(title, command)
        for name, (title, command) in (RUNS | others).items()
    ]
    return (
        f"""# Many shards

Made by `make docs` from the files in `scale`. How `naic shards` is used: [scale.md](../scale.md);
why it is built so: decision [056](../decisions/056-shards.md).

{_cost(runs)}{"".join(parts)}""".rstrip()
        + "\n"
    )


def _cost(runs: dict[str, Run]) -> str:
    """What a million images take."""
    if not runs:
        return ""
    rows = "\n".join(
        f"| {name} | {_place(run)} | {run['images a second']:,.0f} "
        f"| **{MILLION / run['images a second'] / HOUR:,.2f}** "
        f"| {MILLION * run['seconds of processors'] / run['images'] / HOUR:,.2f} |"
        for name, run in runs.items()
    )
    gpu = any(run["machine"]["device"] != "cpu" for run in runs.values())
    missing = "" if gpu else " No GPU was measured: `--device cuda --name h200`."
    return f"""## A million images

| model | machine | images a second | hours for a million | hours of a core for a million |
|---|---|---|---|---|
{rows}

`tiny` is EfficientNet-Lite0 at 64 pixels with a layer that looks and one that speaks. Its decoder
was never trained: what it says makes no sense, and it takes what so small a model takes.{missing}

"""


def _place(run: Run) -> str:
    place = run["machine"]
    device = "" if place["device"] == "cpu" else f"{place['device']}, "
    return f"{device}{place['cores']} cores of {place['processor']}"


def _run(title: str, run: Run) -> str:
    """Start, time and memory along one run."""
    rows = "\n".join(
        f"| {number} | {part['seconds']:,.1f} | {part['peak MiB']:,} |"
        for number, part in enumerate(run["parts"], 1)
    )
    short = run["images"] < MILLION and "million" in title
    warning = "**A short run, which proves only that the benchmark runs.**\n\n" if short else ""
    return f"""## {title}

{warning}`{run["command"]}`
({_place(run)}; {run["workers"] or "as many as cores"} workers): {run["shards"]:,} shards, which are
hard links to a few tars, with {run["images"]:,} images of {run["bytes of an image"] / 1000:,.0f} kB
on average.

- {run["seconds until a shard is read"]:.1f} s from the start of the command until a shard was read
- {run["seconds"] / 60:,.1f} minutes in all, {run["images a second"]:,.1f} images a second
- {1000 * run["seconds of processors"] / run["images"]:,.2f} ms of a core for an image

| part of the shards | seconds | most memory of all processes, MiB |
|---|---|---|
{rows}

In the first part the models are loaded. Memory that processes share is counted for each.

"""


def _missing(title: str, command: str) -> str:
    return f"""## {title}

This has not been run yet: `{command}`

"""
