"""Writes docs/results/features.md from the run files beside it; `--check` tells if it is current.

python docs/results/make_pages.py [--check]
"""

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def run_file(name: str) -> dict[str, Any]:
    """One run's numbers."""
    found: dict[str, Any] = json.loads((FOLDER / name).read_text(encoding="utf-8"))
    return found


def speed(title: str, run: dict[str, Any]) -> str:
    """Extraction against the forward pass alone."""
    return f"""## {title}

`{run["command"]}` ({run["machine"]}; {run["backbone"]}, float32, batch {run["batch"]})

| | images/s |
|---|---|
| forward pass alone on ready tensors, in {len(run["forward_alone_slices"])} slices | \
{run["forward_alone_images_per_second"]:,.1f} |
| `naic prepare`, {run["images"]:,} JPEGs out of tars: decode, forward, float16, write, sync | \
{run["prepare_images_per_second"]:,.1f} |
| the same after the first thousand images | {run["prepare_after_the_first_1000"]:,.1f} |
| decoding alone, with all cores | {run["decode_alone_images_per_second"]:,.0f} |
| **ratio** of `prepare` to the forward pass alone | **{run["ratio"]:.3f}** |

The forward pass alone ran between {min(run["forward_alone_slices"]):,.0f} and
{max(run["forward_alone_slices"]):,.0f} images/s: the machine is shared, which is why the slices
are spread over the run.
"""


def memory(run: dict[str, Any]) -> str:
    """Resident memory along the run."""
    rows = "\n".join(f"| {int(n):,} | {mb:,} |" for n, mb in run["resident_megabytes"].items())
    values = list(run["resident_megabytes"].values())
    return f"""## Memory stays flat

The same run, the process's resident memory as it went:

| images done | MB |
|---|---|
{rows}

From the first to the last line: {values[-1] - values[0]:+,} MB.
"""


def kills(run: dict[str, Any]) -> str:
    """What each kill hit, and whether the stores came out right."""
    rows = "\n".join(
        f"| {number} | {kill['seconds']:.2f} | {kill['hit']} | {kill['shards']} |"
        for number, kill in enumerate(run["kills"], 1)
    )
    writing = sum("writing" in kill["hit"] for kill in run["kills"])
    return f"""## Kills

`{run["command"]}`: `naic prepare` of {run["images"]} pictures in shards of
{run["per_shard"]}, killed with SIGKILL and resumed. {len(run["kills"])} kills, {writing} of them
while a file was being written; **{run["identical"]} of {run["stores"]} stores byte-identical** to
the unbroken one. A run that ended before its kill is not in the list.

| kill | seconds into the run | what it hit | whole shards then |
|---|---|---|---|
{rows}
"""


def start(run: dict[str, Any]) -> str:
    """The command line's own weight."""
    return f"""## Start

`naic --help` takes {run["help_cpu_seconds"]:.3f} s of CPU time; neither it nor `import naic`
imports torch (`tests/cli/test_main.py`).
"""


BAD_FILES = """## Bad files

`pytest tests/tasks -k 900_good_files`: 1,000 files of which 100 are bad in ten ways (empty, cut
off, noise, a web page, a folder, a dangling link, a pipe, a decompression bomb, damaged data,
HEIC) give 900 rows, 100 named errors and exit code 3. The test runs in CI.
"""


def page() -> str:
    """The whole page."""
    features = run_file("features.json")
    parts = ["# Features: speed, memory, kills\n\nMade by `make docs` from the run files here.\n"]
    parts += [
        speed("Extraction keeps the backbone's speed", features),
        memory(features),
        kills(run_file("kills.json")),
        BAD_FILES,
    ]
    parts += [start(features)]
    if (FOLDER / "features-gpu.json").exists():
        parts += [speed("The same on a GPU", run_file("features-gpu.json"))]
    return "\n".join(parts)


if __name__ == "__main__":
    target = FOLDER / "features.md"
    if "--check" in sys.argv:
        if not target.exists() or target.read_text(encoding="utf-8") != page():
            sys.exit("docs/results/features.md does not match its run files: run `make docs`.")
    else:
        target.write_text(page(), encoding="utf-8")
