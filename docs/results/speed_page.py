"""speed.md and its charts.

From speed/*.json, each of them a file of `naic benchmark`; speed/models/*.json of
benchmarks/two_models.py; speed/text/*.json of benchmarks/text.py; runtimes/*.json of
benchmarks/runtimes.py; caption-folder.json of benchmarks/caption_folder.py; and caption-kills.json.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from host_text_page import host_texts  # type: ignore[import-not-found]
from two_models_page import two_models  # type: ignore[import-not-found]

from naic.tasks.benchmark.report import charts
from naic.tasks.benchmark.rows import Row

FOLDER = Path(__file__).parent
PAGE, RUNS, RUNTIMES = "speed.md", "speed", "runtimes"
FOLDER_RUN, KILLS = "caption-folder.json", "caption-kills.json"
BEAM = "teacher, beam 3"
# What we set ourselves, for one image: milliseconds on a GPU, and times as long as NAIC.
DECODE, WHOLE, BLIP, TEACHER, INT8, SHARE = 0.5, 2.0, 60.0, 13.9, 2.5, 0.8


def speed_pages(results: Path = FOLDER) -> dict[str, Callable[[], str]]:
    """What there is to write, by its name; nothing where there are no runs."""
    runs = sorted((results / RUNS).glob("*.json"), key=lambda path: _order(path.stem))
    if not runs:
        return {}
    pages: dict[str, Callable[[], str]] = {PAGE: partial(_page, runs, results)}
    for path in runs:
        for ending in charts(_rows(_read(path))):
            pages[f"{RUNS}/{path.stem}{ending}.svg"] = partial(_chart, path, ending)
    return pages


def _order(name: str) -> tuple[bool, bool, str]:
    """The GPU first, and there the model that shipped."""
    return ("cpu" in name, "base" in name, name)


def _read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def _rows(run: dict[str, Any]) -> list[Row]:
    return [Row(**row) for row in run["rows"]]


def _chart(path: Path, ending: str) -> str:
    return charts(_rows(_read(path)))[ending]


def _page(runs: list[Path], results: Path) -> str:
    head = """# Speed

Made by `make docs` from the files of `naic benchmark` in `speed`; what is timed, and how, is in
[benchmark.md](../benchmark.md). A ratio is how many times as long as NAIC a model takes, in the
same runtime and precision and at the same batch. All but the first part was measured with the model
that shipped before, or with random weights: backbones apart, the models are of the same shape.
"""
    parts = [head, two_models(results), host_texts(results), *map(_run, runs)]
    parts.append(_runtimes(results / RUNTIMES))
    if (results / FOLDER_RUN).exists():
        parts.append(_folder(_read(results / FOLDER_RUN)))
    if (results / KILLS).exists():
        parts.append(_kills(_read(results / KILLS)))
    return "\n".join(part for part in parts if part)


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
    missed = any(held == _held(False) for _, _, held in claims)
    why = _why(rows) if gpu and missed else ""
    return f"| one image, asked for | found | |\n|---|---|---|\n{lines}\n{why}"


def _why(rows: list[Row]) -> str:
    """What stands between the figures and what was asked for, from the figures."""
    found = {
        row.name: row.median_ms
        for row in rows
        if (row.runtime, row.part, row.batch) == ("graph", "decode", 1) and row.median_ms
    }
    own, greedy = found.get("NAIC"), found.get("teacher, greedy")
    beam, again = found.get(BEAM), found.get(f"{BEAM}, no cache")
    if own is None or greedy is None or beam is None or again is None:
        return ""
    return f"""
Why not more: NAIC's pass is the encoder and the decoder, once; the teacher's is the encoder once
and the decoder once for each word. As graphs neither waits for the host, so the ratio cannot be
much above the number of words, and the encoder, which both run, takes its share of that:
{greedy / own:.1f}× greedy, {beam / own:.1f}× with a beam ({beam:.2f} ms; without its cache
{again:.2f} ms). What NAIC's own {own:.2f} ms are made of, and what was tried, is in
[decision 018](../decisions/018-fast-on-a-gpu.md).
"""


def _gpu_claims(rows: list[Row]) -> list[tuple[str, str, str]]:
    claims = []
    for part, most, what in (("decode", DECODE, "decoding"), ("whole", WHOLE, "image to words")):
        own = [row for row in rows if row.part == part and row.name == "NAIC"]
        if own:
            best = min(own, key=lambda row: row.median_ms or 0.0)
            taken = best.median_ms or 0.0
            found = f"{taken:.3f} ms ({best.runtime}, {best.precision}){_as_text(rows, best)}"
            claims.append((f"{what} in at most {most:g} ms", found, _held(taken <= most)))
    for row in rows:
        if row.runtime == "graph" and row.name == BEAM and row.ratio is not None:
            what = f"{TEACHER:g}× faster than the cached beam-3 teacher, graph against graph"
            claims.append((f"{what}, {row.part}", _times(row.ratio), _held(row.ratio >= TEACHER)))
        if row.model == "BLIP-base" and row.ratio_as_used is not None:
            what = f"{BLIP:g}× faster than BLIP-base, {row.decoding}, each as used"
            same = f"; {_times(row.ratio)} eager against eager" if row.ratio else ""
            found = f"{_times(row.ratio_as_used)} (BLIP-base: median of {row.repeats} passes){same}"
            claims.append((what, found, _held(row.ratio_as_used >= BLIP)))
    return claims


def _as_text(rows: list[Row], best: Row) -> str:
    """What it takes to write the words as a sentence, too."""
    for row in rows:
        if row.group == best.group and row.name == "NAIC, as text" and row.median_ms:
            return f"; {row.median_ms:.3f} ms as text"
    return ""


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
    what = (
        "Median, 99th percentile in brackets, and the ratio to NAIC; as used: to NAIC in its "
        "fastest runtime, which was timed in another turn."
    )
    paragraphs = [f"### {title}", what, "\n".join(lines), "\n".join(reasons), "\n".join(images)]
    return "\n\n".join(text for text in paragraphs if text) + "\n"


def _cell(row: Row | None) -> str:
    if row is None:
        return ""
    if row.median_ms is None or row.p99_ms is None:
        return row.state
    ratio = "" if row.ratio is None else f" {_times(row.ratio)}"
    used = "" if row.ratio_as_used is None else f", as used {_times(row.ratio_as_used)}"
    return f"{row.median_ms:,.3f} ({row.p99_ms:,.3f}){ratio}{used}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f}×"


def _held(holds: bool) -> str:
    return "reached" if holds else "**missed**"


def _runtimes(folder: Path) -> str:
    """How many captions a runtime changes, and what CIDEr-D does."""
    runs = [_read(path) for path in sorted(folder.glob("*.json"), key=lambda p: _order(p.stem))]
    if not runs:
        return ""
    head = """## Which runtimes say the same

With the model that shipped before. By `benchmarks/runtimes.py`, on the first images of `val`: each
agent's likeliest word. Equal means the whole caption, word for word; CIDEr-D is by naic's own
scorer, with the df of these references. Milliseconds are for the whole batch, pixels to words.
"""
    return "\n".join([head, *map(_compared, runs)])


def _compared(run: dict[str, Any]) -> str:
    batches = run["batches"]
    head = " | ".join(f"batch {batch}, ms" for batch in batches)
    lines = [
        f"| on {run['machine']['device']} | equal of {run['images']:,} | CIDEr-D | furthest "
        f"confidence | size, bytes | {head} |",
        "|---" * (5 + len(batches)) + "|",
    ]
    for row in run["rows"]:
        times = " | ".join(
            f"{row[f'ms, batch {batch}']:.2f} ({_times(row[f'times faster, batch {batch}'])})"
            for batch in batches
        )
        size = f"{row['bytes']:,}" if row["bytes"] else ""
        lines.append(
            f"| {row['engine'].replace(':', ', ')} | {row['equal']:,} | {row['cider']:.2f} | "
            f"{row['furthest']:.4f} | {size} | {times} |"
        )
    engines = " ".join(row["engine"] for row in run["rows"])
    command = (
        "\n`python benchmarks/runtimes.py --captions dataset_coco.json.xz --images train2017 "
        f"--engines {engines} --batches {' '.join(map(str, batches))}`\n"
    )
    note = f"\n{run['note']}\n" if "note" in run else ""
    return "\n".join(lines) + f"\n{command}{note}"


def _folder(run: dict[str, Any]) -> str:
    share, peaks = run["share"], run["memory"]["peak so far, MiB"]
    started = run["naic caption with its start, a second"]
    sizes = " | ".join(f"{size:,.0f} MiB" for size in peaks.values())
    marks = " | ".join(f"{int(mark):,}" for mark in peaks)
    columns = "|---" * (1 + len(peaks)) + "|"
    return f"""## A folder of photos

With the model that shipped before; the first part has both models' rates.

`python benchmarks/caption_folder.py --images train2017 --count {run["images"]} --rounds
{run["rounds"]} --long {run["memory"]["images"]}` on {run["machine"]["cores"]} cores; JPEGs, the
two in turns, medians.

| | a second | share |
|---|---|---|
| the model alone, on ready tensors | {run["model alone, a second"]:.1f} | |
| `naic caption`, once it is at work | {run["naic caption, a second"]:.1f} | {share:.2f} |
| `naic caption`, from its start to its end | {started:.1f} | {run["share with its start"]:.2f} |

Asked for: {SHARE:g} of the model alone: {_held(share >= SHARE)}. Its start is the import of PyTorch
and the unpacking of the weights.

| captions | {marks} |
{columns}
| most memory so far | {sizes} |
"""


def _kills(run: dict[str, Any]) -> str:
    by_format: dict[str, int] = {}
    for kill in run["kills"]:
        by_format[kill["format"]] = by_format.get(kill["format"], 0) + 1
    counts = ", ".join(f"{count} of {name}" for name, count in by_format.items())
    return f"""## Killed and resumed

`{run["command"]}`: {run["images"]} images, {len(run["kills"])} kills with SIGKILL
({counts}). After each kill every file with a final name was whole; at the end all captions were
those of a run that nobody killed, byte for byte: none missing, doubled or half-written.
"""
