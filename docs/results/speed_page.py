"""speed.md and its charts, from speed/*.json, each of them a file of `naic benchmark`."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from naic.tasks.benchmark_charts import charts
from naic.tasks.benchmark_rows import Row

FOLDER = Path(__file__).parent
PAGE, RUNS = "speed.md", "speed"
BEAM = "teacher, beam 3"
# What we set ourselves, for one picture: milliseconds on a GPU, and times as long as NAIC.
DECODE, WHOLE, BLIP, TEACHER, INT8 = 0.5, 2.0, 60.0, 13.9, 2.5


def speed_pages(results: Path = FOLDER) -> dict[str, Callable[[], str]]:
    """What there is to write, by its name; nothing where there are no runs."""
    runs = sorted((results / RUNS).glob("*.json"))
    if not runs:
        return {}
    pages: dict[str, Callable[[], str]] = {PAGE: partial(_page, runs)}
    for path in runs:
        for ending in charts(_rows(_read(path))):
            pages[f"{RUNS}/{path.stem}{ending}.svg"] = partial(_chart, path, ending)
    return pages


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _rows(run: dict[str, Any]) -> list[Row]:
    return [Row(**row) for row in run["rows"]]


def _chart(path: Path, ending: str) -> str:
    return charts(_rows(_read(path)))[ending]


def _page(runs: list[Path]) -> str:
    head = """# Speed

Made by `make docs` from the files of `naic benchmark` in `speed`; what is timed, and how, is in
[benchmark.md](../benchmark.md). A ratio is how many times as long as NAIC a model takes, in the
same runtime and precision and at the same batch.
"""
    return "\n".join([head, *(_run(path) for path in runs)])


def _run(path: Path) -> str:
    run = _read(path)
    rows = _rows(run)
    about, model = run["machine"], run["model"]
    gpu = f"; driver {about['driver']}, CUDA {about['cuda']}" if "driver" in about else ""
    packages = ", ".join(f"{name} {version}" for name, version in about["packages"].items())
    cut = "" if run["finished"] else "\n\n**The run was cut off**: some rows are missing."
    notes = "\n".join(f"- {note}" for note in run["notes"])
    parts = [
        f"""## {model["name"]} on {about["device"]}

`{run["command"]}` (naic {run["naic"]}; {about["processor"]}, {about["cores"]} cores,
{about["threads"]} threads{gpu}; {packages}, Python {about["python"]}): {model["weights"]:,}
weights, {model["encoder_layers"]} + {model["decoder_layers"]} layers of {model["width"]},
{model["agents"]} agents, {model["words"]:,} words, {model["sight"]} at {model["pixels"]} pixels,
features {model["features"]}.{cut}

{notes}
""",
        _asked(rows, gpu=bool(gpu)),
        *(_part(path.stem, part, rows) for part in ("decode", "whole")),
    ]
    return "\n".join(part for part in parts if part)


def _asked(rows: list[Row], *, gpu: bool) -> str:
    """What was asked for, beside what was found."""
    one = [row for row in rows if row.batch == 1 and row.median_ms is not None]
    claims = _gpu_claims(one) if gpu else _cpu_claims(one)
    if not claims:
        return ""
    lines = "\n".join(f"| {what} | {found} | {held} |" for what, found, held in claims)
    return f"| one picture, asked for | found | |\n|---|---|---|\n{lines}\n"


def _gpu_claims(rows: list[Row]) -> list[tuple[str, str, str]]:
    claims = []
    for part, most, what in (("decode", DECODE, "decoding"), ("whole", WHOLE, "image to caption")):
        own = [row for row in rows if row.part == part and row.name == "NAIC"]
        if own:
            best = min(own, key=lambda row: row.median_ms or 0.0)
            taken = best.median_ms or 0.0
            found = f"{taken:.3f} ms ({best.runtime}, {best.precision})"
            claims.append((f"{what} in at most {most:g} ms", found, _held(taken <= most)))
    for row in rows:
        if row.runtime == "graph" and row.name == BEAM and row.ratio is not None:
            what = f"{TEACHER:g}× faster than the cached beam-3 teacher, graph against graph"
            claims.append((f"{what}, {row.part}", _times(row.ratio), _held(row.ratio >= TEACHER)))
        if row.model == "BLIP-base" and row.ratio_as_used is not None:
            what = f"{BLIP:g}× faster than BLIP-base, {row.decoding}, each as used"
            claims.append((what, _times(row.ratio_as_used), _held(row.ratio_as_used >= BLIP)))
    return claims


def _cpu_claims(rows: list[Row]) -> list[tuple[str, str, str]]:
    own = {
        (row.runtime, row.precision): row.median_ms
        for row in rows
        if row.part == "whole" and row.name == "NAIC"
    }
    eager, int8 = own.get(("eager", "float32")), own.get(("onnx", "int8"))
    if not eager or not int8:
        return []
    what = f"int8 in ONNX Runtime {INT8:g}× faster than eager float32"
    return [(what, _times(eager / int8), _held(eager / int8 >= INT8))]


def _part(stem: str, part: str, rows: list[Row]) -> str:
    own = [row for row in rows if row.part == part]
    if not own:
        return ""
    title = {"decode": "Features to words", "whole": "Pixels to words"}[part]
    batches = sorted({row.batch for row in own})
    head = " | ".join(f"batch {batch}, ms" for batch in batches)
    lines = [f"| runtime | | {head} |", "|---" * (len(batches) + 2) + "|"]
    by_place = {(row.runtime, row.precision, row.name, row.batch): row for row in own}
    for runtime, precision, name in dict.fromkeys(key[:3] for key in by_place):
        found = [by_place.get((runtime, precision, name, batch)) for batch in batches]
        lines.append(f"| {runtime}, {precision} | {name} | {' | '.join(map(_cell, found))} |")
    reasons = dict.fromkeys(f"{row.runtime}, {row.name}: {row.why}." for row in own if row.why)
    images = [
        f"![{title}]({RUNS}/{stem}{ending}.svg)"
        for ending in charts(own)
        if ending.startswith(f"-{part}")
    ]
    what = "Median, 99th percentile in brackets, and the ratio to NAIC."
    paragraphs = [f"### {title}", what, "\n".join(lines), "\n".join(reasons), "\n".join(images)]
    return "\n\n".join(text for text in paragraphs if text) + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.median_ms is None or row.p99_ms is None:
        return row.state
    ratio = "" if row.ratio is None else f" {_times(row.ratio)}"
    return f"{row.median_ms:,.3f} ({row.p99_ms:,.3f}){ratio}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}×"


def _held(holds: bool) -> str:
    return "reached" if holds else "**missed**"
