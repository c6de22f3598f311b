"""The part of speed.md on what the host does, from proposals to texts.

From speed/text/*.json, each of them a file of benchmarks/text.py.
"""

import json
from pathlib import Path
from typing import Any

FIGURES = "speed/text"
MOST, AT = 8.0, 256  # microseconds an image at this batch: what was asked of texts
HEAD = """## From proposals to text

A network proposes words; the sentence that they make, of a model with transitions the likeliest of
all, and its text are found on the host (`naic.runtime.sentences`,
[decision 041](../decisions/041-text-as-fast-as-words.md)). By `python -m benchmarks.text`, in
microseconds of processor time an image, the least of several rounds in turns: the search for the
sentence; texts, search included; captions with the confidence of each word and its alternatives;
and texts as they were had before, by way of such captions. The texts are the same, compared before
they are timed; none is kept from one call to the next. What stands under NVIDIA H200 in this page
was measured before, and not again: its `as text` is the way before.
"""


def host_texts(results: Path) -> str:
    """Nothing where nothing was timed."""
    paths = sorted((results / FIGURES).glob("*.json"))
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return "\n".join([HEAD, *map(_run, runs)]) if runs else ""


def _run(run: dict[str, Any]) -> str:
    about, rows = run["machine"], run["rows"]
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    most = max(row["batch"] for row in rows)
    what = "of chance" if run["made_up"] else "of the model inside naic for parts of photos"
    lines = "\n".join(_line(row) for row in rows)
    claims = "\n".join(_claim(row) for row in rows if row["batch"] == AT)
    asked = f"\n| asked for | found | |\n|---|---|---|\n{claims}\n" if claims else ""
    note = f" {run['note']}" if "note" in run else ""
    return f"""{about["processor"]}, {about["cores"]} cores, load {about["load"]:g}; {packages},
Python {about["python"]}; {most} proposals {what}, with {run["texts"]} texts.{note}

| proposals | batch | search | texts | captions | texts before | times as fast |
|---|---|---|---|---|---|---|
{lines}
{asked}"""


def _line(row: dict[str, Any]) -> str:
    found = row["microseconds"]
    columns = " | ".join(f"{found[way]:.2f}" for way in ("search", "text", "captions", "before"))
    faster = found["before"] / found["text"]
    return f"| {row['model']} | {row['batch']} | {columns} | {faster:.1f} |"


def _claim(row: dict[str, Any]) -> str:
    found = row["microseconds"]["text"]
    held = "reached" if found <= MOST else "**missed**"
    what = f"text {row['model']}: at most {MOST:g} µs an image over words"
    return f"| {what} | {found:.2f} µs | {held} |"
