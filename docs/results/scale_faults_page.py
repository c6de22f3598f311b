"""The part of scale.md on runs that were broken: what was killed or damaged, and what was left."""

import json
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "scale" / "faults.json"
COMMAND = "python -m benchmarks.scale_faults --out docs/results/scale/faults.json"


def faults_part() -> str:
    """The part, of the results that are there."""
    return faults(json.loads(FILE.read_text(encoding="utf-8")) if FILE.exists() else None)


def faults(found: dict[str, Any] | None) -> str:
    """What came of each trial; or the command that makes them."""
    if found is None:
        return f"\n## Workers, clusters and runs that are killed\n\nNot run yet: `{COMMAND}`\n"
    place, versions = found["machine"], found["versions"]
    own = ", ".join(f"{name} {number}" for name, number in versions.items())
    rows = "\n".join(f"| {what} | {end} | {_same(same)} |" for what, end, same in _rows(found))
    head = found["head killed"]
    return f"""
## Workers, clusters and runs that are killed

`{found["command"]}`
({place["cores"]} cores of {place["processor"]}; {own}): {found["shards"]} tars with
{found["images"]:,} drawn scenes. What is killed is killed by SIGKILL. *Identical*: all outputs,
byte for byte, are those of one process that nobody disturbed.

| trial | how it ended | identical |
|---|---|---|
{rows}

Of the damaged shard the command said: "{found["shard damaged"]["named"]}" When the head was gone it
said so after {head["seconds until it was said"]:.0f} seconds. A half-written file was left in
{_left(found)} of these folders.
"""


def _rows(found: dict[str, Any]) -> list[tuple[str, str, bool]]:
    """What was done, how it ended, and whether the outputs are the same."""
    workers, head = found["workers killed"], found["head killed"]
    bad, store = found["shard damaged"], found["runs to a bucket killed"]
    several = "with two workers"
    return [
        (f"Ray {several}", "all shards", found["two workers"]["identical"]),
        (
            f"the same, a worker at work killed {workers['kills']} times",
            "all shards; Ray started others",
            workers["identical"],
        ),
        (
            f"Ray {several} on a cluster whose head is killed after {head['shards before']} shards",
            f"exit code {head['exit code']}; the same command on a new cluster: all shards",
            head["identical"],
        ),
        (
            f"Ray {several}, a tar that is cut off",
            f"exit code {bad['exit code']}, {bad['shards']} shards",
            bad["identical"],
        ),
        (
            f"from one bucket of an S3 server to another, killed {store['kills']} times "
            f"with all its processes ({store['buckets']} buckets)",
            "after each kill only whole objects; the same command in the end: all shards",
            store["identical"],
        ),
    ]


def _left(found: dict[str, Any]) -> str:
    count = sum(bool(found[name].get("halves")) for name in found if isinstance(found[name], dict))
    return str(count) if count else "none"


def _same(same: bool) -> str:
    return "yes" if same else "**no**"
