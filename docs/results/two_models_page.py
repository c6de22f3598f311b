"""The part of speed.md on the model that ships beside one without transitions.

From speed/models/*.json, each of them a file of benchmarks/two_models.py.
"""

import json
from pathlib import Path
from typing import Any

FIGURES = "speed/models"
MOST_MS, LEAST_IMAGES = 2.0, 5.0  # what was asked of the new one: one image on a GPU, a folder
HEAD = """## The model that ships, and one without transitions

New is the model inside naic ([student.md](student.md)); old is the second model that shipped: the
same backbones and sizes, but no transitions between neighbouring agents.

By `python -m benchmarks.two_models`: both in one run, in turns. Milliseconds are of one pass over
the whole batch, from pixels on the host to words on the host, median and 99th percentile; as text:
the words are also written as a sentence, as `naic caption` does. With transitions the words are
what the agents propose, and which of them are said is found on the host, in `as text` only.
"""


def two_models(results: Path) -> str:
    """Nothing where nothing was timed; the GPU first."""
    paths = sorted((results / FIGURES).glob("*.json"), key=lambda path: "cpu" in path.stem)
    runs = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    return "\n".join([HEAD, _models(runs[0]), *map(_run, runs)]) if runs else ""


def _models(run: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {who} | {own['sight']} at {own['pixels']} pixels | {own['weights']:,} "
        f"| {own['bytes'] / 1e6:.1f} MB |"
        for who, own in run["models"].items()
    )
    return f"| model | sees with | weights | on disk |\n|---|---|---|---|\n{rows}\n"


def _run(run: dict[str, Any]) -> str:
    about = run["machine"]
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    lines = "\n".join(
        f"| {row['runtime']}, {row['precision']}{', as text' if row['text'] else ''} "
        f"| {row['batch']} | {_ms(row['old'])} | {_ms(row['new'])} |"
        for row in run["rows"]
    )
    parts = [
        f"""### On {about["device"]}

naic {run["naic"]}; {about["processor"]}, {about["cores"]} cores, {about["threads"]} threads;
{packages}, Python {about["python"]}.{f" {run['note']}" if "note" in run else ""}

| pixels to words | batch | old, ms | new, ms |
|---|---|---|---|
{lines}
""",
        _folder(run["folder"]) if "folder" in run else "",
        _asked(run),
    ]
    return "\n".join(part for part in parts if part)


def _ms(found: dict[str, Any]) -> str:
    if "why" in found:
        return f"failed: {found['why'].splitlines()[0]}"
    return f"{found['median_ms']:,.3f} ({found['p99_ms']:,.3f})"


def _folder(found: dict[str, Any]) -> str:
    rates: dict[str, dict[str, dict[str, float]]] = {}
    for own in found["rates"]:
        rates.setdefault(own["precision"], {})[own["model"]] = own
    lines = [
        f"| {precision}, {what} | {own['old'][key]:.1f} | {own['new'][key]:.1f} |"
        for precision, own in rates.items()
        for what, key in (
            ("once it is at work", "a second"),
            ("from its start to its end", "with its start, a second"),
        )
    ]
    head = "| images a second | old | new |\n|---|---|---|\n"
    return f"""`naic caption` on {found["images"]:,} JPEGs, median of {found["rounds"]} turns:

{head}{chr(10).join(lines)}
"""


def _asked(run: dict[str, Any]) -> str:
    """What was set for the new model beforehand."""
    claims = []
    if "driver" in run["machine"]:
        own = [row for row in run["rows"] if row["batch"] == 1 and row["text"]]
        taken = min(row["new"]["median_ms"] for row in own if "why" not in row["new"])
        what = f"pixels to text in at most {MOST_MS:g} ms"
        claims.append((what, f"{taken:.3f} ms", taken <= MOST_MS))
    for own in run.get("folder", {"rates": []})["rates"]:
        if (own["model"], own["precision"]) == ("new", "int8"):
            what = f"a folder in int8: at least {LEAST_IMAGES:g} images a second"
            claims.append((what, f"{own['a second']:.1f}", own["a second"] >= LEAST_IMAGES))
    rows = "\n".join(
        f"| {what} | {found} | {'reached' if held else '**missed**'} |"
        for what, found, held in claims
    )
    return f"| asked of the new model | found | |\n|---|---|---|\n{rows}\n" if claims else ""
