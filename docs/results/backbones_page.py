"""backbones.md and its charts: teachers that see with different backbones, frozen, taught alike.

From backbones/*.json: NAME-xe.json and NAME-scst.json of benchmarks/training_run.py, timing.json,
packed.json, extract.json and (where it was run) cores.json of benchmarks/backbones, and
*-against-*.json of `naic evaluate`.
"""

import json
import tomllib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from backbones_tuned import tuned_part  # type: ignore[import-not-found]
from coco_page import CIDER_BY_IMAGES, STANDARD  # type: ignore[import-not-found]

from naic.tasks.charts import Dot, Line, lines, scatter

FOLDER = Path(__file__).parent
PAGE, RUNS = "backbones.md", "backbones"
CURVES, FRONT = f"{RUNS}/curves.svg", f"{RUNS}/front.svg"
ORDER = ("efficientnet-lite2", "dinov2-vits14", "clip-vit-b16", "clip-vit-b16+dinov2-vits14")
XE, SCST = 117.0, 126.0  # CIDEr on val at beam 3, which we set ourselves before the runs
BITS = 5  # of a vision transformer's weights in the table; an EfficientNet has more (`naic pack`)
EFFICIENTNET_BITS = 10
METRICS = {"Bleu_1": "B1", "Bleu_4": "B4", "METEOR": "M", "ROUGE_L": "R", "CIDEr": "C"}
Run = dict[str, Any]


def backbones_pages(results: Path = FOLDER) -> dict[str, Callable[[], str]]:
    """What there is to write, by its name; nothing where there are no runs."""
    if not (results / RUNS / "timing.json").exists():
        return {}
    return {
        PAGE: partial(_page, results / RUNS),
        CURVES: partial(_curves, results / RUNS),
        FRONT: partial(_front, results / RUNS),
    }


def _read(path: Path) -> Run:
    found: Run = json.loads(path.read_text(encoding="utf-8"))
    return found


def _runs(folder: Path, stage: str) -> dict[str, Run]:
    paths = {name: folder / f"{name}-{stage}.json" for name in ORDER}
    return {name: _read(path) for name, path in paths.items() if path.exists()}


def _by_name(file: Run) -> dict[str, Run]:
    return {row["backbone"]: row for row in file["rows"]}


def _cider(run: Run, beam: int) -> float:
    return 100 * float(run["evaluate"][str(beam)]["scores"]["CIDEr"])


def _interval(run: Run, beam: int, metric: str = "CIDEr") -> str:
    low, high = (100 * value for value in run["evaluate"][str(beam)]["intervals"][metric])
    return f"{low:.1f} to {high:.1f}"


def _points(run: Run) -> tuple[tuple[float, float], ...]:
    """CIDEr at beam 1 by epoch; a last validation one step after another one is the same."""
    found = {round(line["epoch"], 1): 100 * line["cider"] for line in run["validations"]}
    return tuple(sorted(found.items()))


def _curves(folder: Path) -> str:
    curves = [Line(name, _points(run)) for name, run in _runs(folder, "xe").items()]
    curves += [Line(f"{n}, SCST", _points(run)) for n, run in _runs(folder, "scst").items()]
    # The longest name does not fit beside the chart.
    short = [Line(c.label.replace(ORDER[3], "CLIP + DINOv2"), c.points) for c in curves]
    return lines(
        "CIDEr on val as the teachers learn", "epochs of the stage", "CIDEr at beam 1", short
    )


def _front(folder: Path) -> str:
    timing = _by_name(_read(folder / "timing.json"))
    dots = []
    for name, run in _runs(folder, "xe").items():
        label = name.replace(ORDER[3], "CLIP + DINOv2")
        label += " (front)" if name in _best(folder) else ""
        dots.append(Dot(label, timing[name]["one_image"]["milliseconds"], _cider(run, 3)))
    title = "CIDEr on val against the backbone's time"
    return scatter(title, "milliseconds for one image on an H200", "CIDEr, XE, beam 3", dots)


def _best(folder: Path) -> list[str]:
    """The backbones that no other one beats in both time and CIDEr."""
    timing = _by_name(_read(folder / "timing.json"))
    points = {
        name: (timing[name]["one_image"]["milliseconds"], _cider(run, 3))
        for name, run in _runs(folder, "xe").items()
    }
    return [
        name
        for name, (time, cider) in points.items()
        if not any(t <= time and c > cider for n, (t, c) in points.items() if n != name)
    ]


def _epochs(run: Run) -> float:
    return float(tomllib.loads(run["report"]["config"])["run"]["epochs"])


def _page(folder: Path) -> str:
    xe, scst = _runs(folder, "xe"), _runs(folder, "scst")
    parts = [_head(xe), _table(folder, xe), _learnt(folder, xe, scst)]
    parts += [tuned_part(folder, ORDER[-1]), _pairs(folder), _scores(xe, scst)]
    parts += [_front_text(folder), _packed(folder)]
    return "\n".join(part for part in (*parts, _made(folder, xe)) if part)


def _head(xe: dict[str, Run]) -> str:
    one = next(iter(xe.values()))
    report, settings = one["report"], tomllib.loads(one["report"]["config"])
    data = report["data"]
    last = sum(run["report"]["best_step"] == run["report"]["steps"] for run in xe.values())
    over = CIDER_BY_IMAGES[4392] - CIDER_BY_IMAGES[STANDARD]
    return f"""# Backbones: what a teacher says with each

The model inside naic sees with the last of them, trained further. The figures are of `val` and of
teachers: they cannot be compared with the README's, which are of `test`.

Made by `make docs` from the run files in `{RUNS}`. Four backbones, frozen, each giving an 8×8 grid
of features at 256 pixels; a causal teacher (Transformer-base) learns from each by the same
schedule: {settings["run"]["epochs"]:.0f} epochs of cross-entropy in batches of
{settings["run"]["batch"]} images with five captions each, dropout {settings["model"]["dropout"]},
average {settings["optimiser"]["average"]}, one seed
([xe.toml](../../benchmarks/backbones/xe.toml)). Nothing was tuned, mirrored or cropped,
but for [one section](#trained-further-inside-the-captioner).

- **Learnt from**: {data["images"]:,} images and {data["captions"]:,} captions of COCO's
  {" and ".join(data["splits"])}.
- **Scored on**: `val`, {report["validation_images"]:,} images: Karpathy's val split less the images
  of val2017. CIDEr depends on how many images df is counted over: with 4,392 it was
  {over:.1f} above 5,000, for captions of another model, measured outside this repository. `test`
  was not looked at. The weights are those of the best validation, on these same images; in
  {last} of the {len(xe)} runs that was the last one.
- **Images**: squashed to 256×256 by their source, so there is no finer image to be had.
- **Machine**: {report["device"]}, torch {report["versions"]["torch"]}; two runs at a time.
"""


def _cores(folder: Path) -> Run | None:
    """The times on a CPU, where they were measured."""
    path = folder / "cores.json"
    return _read(path) if path.exists() else None


def _cores_text(cores: Run | None) -> str:
    if cores is None:
        return " The speed on\na CPU is not in the table: it was not measured yet.\n"
    alike = ", ".join(f"{row['backbone']} {row['int8_cosine']:.3f}" for row in cores["rows"])
    return f"""

On {cores["threads"]} cores of a CPU ({cores["processor"]}, ONNX Runtime {cores["onnxruntime"]}) it
is the backbone's alone as well, as a graph of `naic export`, an image on each core. int8 rounds
matrix products, of which an EfficientNet has none: its two figures differ by chance. How like the
features by int8 are to those by float32 (mean cosine over the cells of sample photos):
{alike}.

`{cores["command"]}`
"""


def _table(folder: Path, xe: dict[str, Run]) -> str:
    timing = _by_name(_read(folder / "timing.json"))
    cores = _cores(folder)
    rates = {n: row["images_per_second"] for n, row in _by_name(cores).items()} if cores else {}
    sizes = _by_name(_read(folder / "packed.json"))
    rows = []
    for name, run in xe.items():
        time, own = timing[name], sizes[name]
        bits = EFFICIENTNET_BITS if name.startswith("efficientnet") else BITS
        size = next(row["bytes"] for row in own["packed"] if row["bits"] == bits) / 1e6
        own_rates = [f"{rates[name][p]:.1f} | " for p in ("float32", "int8") if rates]
        rows.append(
            f"| {name} | {time['regions']} × {time['dim']} | {own['weights'] / 1e6:.1f} | "
            f"{size:.1f} ({bits} bits) | {time['one_image']['milliseconds']:.2f} | "
            f"{time['images_per_second']:,.0f} | {''.join(own_rates)}"
            f"{_cider(run, 1):.1f} | **{_cider(run, 3):.1f}** | {_interval(run, 3)} |"
        )
    table = "\n".join(rows)
    heads = f"{cores['threads']} cores, images/s, float32 | int8 | " if cores else ""
    return f"""## Cross-entropy

| backbone | features | million weights | packed, MB | ms, one image | images/s, batches of \
{next(iter(timing.values()))["batch"]} | {heads}CIDEr, beam 1 | beam 3 | 95 % |
|---|---|---|---|---|---|---|---|---|{"---|---|" if cores else ""}
{table}

Milliseconds and images/s are the backbone's alone on an H200 in float16, from pixels on the device
to features there: one image as a recorded CUDA graph, many in eager batches. They were timed just
before DINOv2's images came to be shrunk by a matrix instead of by torch's own kernel.\
{_cores_text(cores)}"""


def _learnt(folder: Path, xe: dict[str, Run], scst: dict[str, Run]) -> str:
    rows = "\n".join(
        f"| {name} | {label} | "
        + ", ".join(f"{epoch:.0f}: {cider:.1f}" for epoch, cider in _points(run))
        + f" | {_points(run)[-1][1] - _points(run)[-2][1]:+.1f} |"
        for label, runs in (("XE", xe), ("SCST", scst))
        for name, run in runs.items()
    )
    return f"""## As they learn

![CIDEr on val by epoch]({CURVES})

CIDEr at beam 1 of the averaged weights. SCST begins with the weights that cross-entropy ended with.

| backbone | stage | epoch: CIDEr | last two epochs |
|---|---|---|---|
{rows}

{_targets(xe, scst)}"""


def _targets(xe: dict[str, Run], scst: dict[str, Run]) -> str:
    best = max(xe, key=lambda name: _cider(xe[name], 3))
    reached = _cider(xe[best], 3)
    verdict = "met" if reached >= XE else "missed"
    points = _points(xe[best])
    text = f"""We had asked for {XE:.0f} by cross-entropy at beam 3: **{verdict}**,
{reached:.1f} with {best}."""
    if reached < XE:
        rise = points[-1][1] - points[-2][1]
        text += f""" What holds it back is, as far as the curve tells, the length of the run: it
had {_epochs(xe[best]):.0f} epochs, so that four backbones could be taught in one stretch, and still
rose by {rise:.1f} over the last two, while the learning rate fell to zero. Part of that is the
average of the weights, which lags behind. A longer schedule is the next thing to try."""
    for name, run in scst.items():
        own = _cider(run, 3)
        verdict = "met" if own >= SCST else "missed"
        steps = _points(run)
        text += f"""

And for {SCST:.0f} by SCST: **{verdict}**, {own:.1f} ({_interval(run, 3)}) with {name} after
{_epochs(run):.0f} epochs; the last two brought {steps[-1][1] - steps[-2][1]:.1f}, at the end of a
cosine. Each image counts once in the document frequencies and once in an epoch."""
    return text + "\n\n" + _earlier(xe) + "\n"


def _earlier(xe: dict[str, Run]) -> str:
    """The one earlier run of ours with a frozen backbone."""
    run = _read(FOLDER / "coco-teacher-xe.json")
    name = run["report"]["data"]["backbone"].split()[0]
    return f"""An earlier run of ours ([training.md](training.md)), {name} for
{_epochs(run):.0f} epochs, reached {_cider(run, 3):.1f} at beam 3 where the {_epochs(xe[name]):.0f}
epochs here give {_cider(xe[name], 3):.1f}: far less lies in the schedule than in the backbone.
A trial before these runs, of ten epochs and by other code, had the same order of backbones."""


def _pairs(folder: Path) -> str:
    rows = []
    for path in sorted(folder.glob("*-against-*.json")):
        found = _read(path)
        gap = found["against"]["differences"]["CIDEr"]
        names = [part.split("/")[0] for part in (found["results"], found["against"]["results"])]
        rows.append(
            f"| {names[0].removesuffix('-xe')} | {names[1].removesuffix('-xe')} | "
            f"{100 * gap['value']:+.1f} | {100 * gap['low']:+.1f} to {100 * gap['high']:+.1f} | "
            f"{gap['p']:.3f} |"
        )
    table = "\n".join(rows)
    return f"""## Is the difference sure?

The same images captioned by two teachers, in pairs (cross-entropy, beam 3).

| | against | CIDEr | 95 % | p |
|---|---|---|---|---|
{table}

The intervals are over the images. One seed each: what another seed changes is not in them.
"""


def _scores(xe: dict[str, Run], scst: dict[str, Run]) -> str:
    rows = []
    for label, runs in (("XE", xe), ("SCST", scst)):
        for name, run in runs.items():
            for beam, found in run["evaluate"].items():
                values = " | ".join(f"{100 * found['scores'][key]:.1f}" for key in METRICS)
                habits = found["habits"]["captions"]
                rows.append(
                    f"| {name} | {label} | {beam} | {values} | {_interval(run, int(beam))} | "
                    f"{habits['vocabulary']:,} | {100 * habits['repeats']:.2f} | "
                    f"{100 * habits['bad_endings']:.2f} |"
                )
    people = next(iter(xe.values()))["evaluate"]["3"]["habits"]["references"]
    table = "\n".join(rows)
    return f"""## All scores

METEOR 1.5 is the reference program, the others are exact ones of our own. Repeats are captions with
a word twice in a row. People have {100 * people["repeats"]:.2f} % repeats,
{100 * people["bad_endings"]:.2f} % bad endings and {people["vocabulary"]:,} different words.

| backbone | stage | beam | {" | ".join(METRICS.values())} | CIDEr, 95 % | different words | \
repeats, % | bad endings, % |
|---|---|---|{"---|" * len(METRICS)}---|---|---|---|
{table}
"""


def _front_text(folder: Path) -> str:
    return f"""## CIDEr against time

![CIDEr against milliseconds]({FRONT})

On the front, where no other backbone is both faster and better: {", ".join(_best(folder))}.
"""


def _packed(folder: Path) -> str:
    file = _read(folder / "packed.json")
    bits = [row["bits"] for row in file["rows"][0]["packed"]]
    rows = "\n".join(
        f"| {row['backbone']} | {row['float32_bytes'] / 1e6:.1f} | "
        + " | ".join(f"{p['bytes'] / 1e6:.1f} ({p['cosine']:.3f})" for p in row["packed"])
        + " |"
        for row in file["rows"]
    )
    return f"""## Packed

Megabytes of the weights at several bits, and in brackets how like the features of
{file["photos"]} sample photos are to those of the exact weights (mean cosine over the cells).

`{file["command"]}`

| backbone | float32 | {" | ".join(f"{b} bits" for b in bits)} |
|---|---|{"---|" * len(bits)}
{rows}

What it costs in CIDEr is above, for the two joined at 4 bits, and in [pack.md](../pack.md). CLIP's
matrices come with 8 bits a weight: the exact weights here are those.
"""


def _made(folder: Path, xe: dict[str, Run]) -> str:
    took = _read(folder / "extract.json")
    calls = "\n".join(
        f"| `{run['report']['command']}` | {run['report']['seconds']:.0f} |"
        for run in [*xe.values(), *_runs(folder, "scst").values()]
    )
    timing = _read(folder / "timing.json")
    return f"""## How it was made

Features of {took["images"]:,} images by {len(took["backbones"])} networks at once, in float16 on
the GPU: {took["seconds"]:.0f} s, most of it waiting for the images to be copied there
([extract.py](../../benchmarks/backbones/extract.py)). Two teachers were trained at a time
([lanes.py](../../benchmarks/backbones/lanes.py)), so the seconds are those of a shared GPU.

| call | seconds |
|---|---|
{calls}

`{timing["command"]}` ({timing["device"]}, torch {timing["torch"]})
"""
