"""The part of metrics.md on METEOR: ours against the program in Java."""

from typing import Any

SIDES = {
    "java": "the program, in Java",
    "python": "`naic`",
    "first": "`naic`, the first time: it reads the table of paraphrases and keeps it",
}


def meteor_part(run: dict[str, Any]) -> str:
    """What `benchmarks/meteor.py` measured, as text."""
    seconds, ratio = run["seconds"], run["ratio"]
    rows = "\n".join(
        f"| {what} | {seconds[side]['wall']:.1f} | {seconds[side]['cpu']:.1f} |"
        for side, what in SIDES.items()
    )
    return f"""## METEOR

From `meteor.json`, which is `{run["command"]}`
({run["machine"]}; {run["load"]}): {run["images"]:,} images of COCO's val, one human caption
of each with a fifth of its words replaced, against the other {run["references"]:,} captions. The
largest difference over the images and the set (METEOR {run["value"]:.4f}) is
{run["largest_difference"]:.1e}: every count is the program's, and sums are rounded otherwise.
Seconds from reading the tables to the last score, the best of {run["rounds"]} rounds:

| | seconds | CPU seconds |
|---|---|---|
{rows}

`naic` takes {ratio["wall"]:.2f} of the program's time and {ratio["cpu"]:.2f} of its CPU time. That
all counts are equal on all of val and on 100,000 made-up pairs is a test of `make check-slow`
(`tests/metrics/test_meteor_here.py`).
"""
