"""tiny.md and its like: the paper's ladder, from the files that `naic reproduce` left.

Its run files are in a folder beside this one, put there by benchmarks/ladder_files.py;
gradient-variance.json, where it is there, was written by benchmarks/gradient_variance.py. On
MSCOCO there is more to tell: coco_page.py, and coco_val_page.py where `val` was reported too.
"""

import json
import statistics
from pathlib import Path
from typing import Any

from claims import (  # type: ignore[import-not-found]
    Claim,
    baseline_claims,
    by_system,
    ladder_claims,
)
from coco_parts import FIRST, CocoParts  # type: ignore[import-not-found]

from naic.tasks.charts import Bar, bars
from naic.tasks.reproduce.gallery import mark
from naic.tasks.reproduce.tables import TITLES, markdown

FOLDER = Path(__file__).parent
FILES = {
    "ladder": "table1",
    "baselines": "table3",
    "topk": "table4",
    "unlabelled": "table5",
    "fill": "table_fill",
}
VARIANCE = "gradient-variance.json"
FIGURES = {
    "ladder": ("ladder", "latency"),
    "baselines": ("baselines-scratch", "baselines-weight-init"),
}
COCO = "coco"  # the preset
TITLE = {FIRST: "The first ladder: coco, with EfficientNet-Lite2"}


def ladder(name: str) -> str:
    """The whole page."""
    folder = FOLDER / name
    run = _read(folder / "run.json")
    tables = {
        table: _read(folder / f"{file}.json")
        for table, file in FILES.items()
        if (folder / f"{file}.json").exists()
    }
    coco = CocoParts(folder, run, tables["ladder"]) if run["preset"] == COCO else None
    parts = [_head(run, name), *(coco.head() if coco else ())]
    parts.append(_expected(tables, coco.targets() if coco else None))
    for table, rows in tables.items():
        parts.append(_table(name, table, rows))
        if coco and table == "ladder":
            parts += coco.after_the_ladder()
        if table == "baselines":
            parts.append(_speeds(rows, _read(folder / "curves.json")))
    if (folder / VARIANCE).exists():
        parts.append(_variance(name, _read(folder / VARIANCE)))
    if (folder / "captions.json").exists():
        parts.append(_captions(name, _read(folder / "captions.json")))
    parts.append(_stages(run))
    return "\n".join(parts)


def _read(path: Path) -> Any:  # noqa: ANN401
    return json.loads(path.read_text(encoding="utf-8"))


def _head(run: dict[str, Any], name: str) -> str:
    commands = "\n".join(
        f"| `{call['command']}`{_where(call)} | {_minutes(call['seconds'])} |"
        for call in run["calls"]
    )
    seen = run["latency"]
    where = f"`{name}/run.json`, not those of today" if name == FIRST else "`configs/`"
    return f"""# {TITLE.get(name, f"The ladder: {run['preset']}")}
{_other_ladder(name)}
Made by `make docs` from the run files in the folder of this name ({run["machine"]}, naic
{run["naic"]}, torch {seen["torch"]}, Python {seen["python"]}).
The settings are those of {where}; [docs/reproduce.md](../reproduce.md) tells of the stages.

| call | wall clock |
|---|---|
{commands}

A call reuses what earlier ones made. One that was cut off did not come to its end; what it had
written by then is here.
"""


def _other_ladder(name: str) -> str:
    """Each of COCO's two ladders tells of the other."""
    if name == FIRST:
        return f"""
The ladder of the model that shipped at first; [{COCO}.md]({COCO}.md) has the one of today. Its runs
counted mirrored images twice in the document frequencies of the reward and in the vocabulary of
those that began from nothing; later ones do not.
"""
    if name == COCO and (FOLDER / FIRST / "run.json").exists():
        return f"\nThe ladder of the model that shipped before is on [{FIRST}.md]({FIRST}.md).\n"
    return ""


def _where(call: dict[str, Any]) -> str:
    """Of a call that scored on another machine than the stages ran on."""
    return f", on {call['machine']}" if "machine" in call else ""


def _minutes(seconds: float | None) -> str:
    return "cut off" if seconds is None else f"{seconds / 60:.1f} min"


def _expected(tables: dict[str, list[dict[str, Any]]], targets: list[Claim] | None) -> str:
    """What the paper lets us expect, and what came out: whatever it is."""
    claims = ladder_claims(by_system(tables["ladder"])) if targets is None else targets
    if "baselines" in tables:
        claims += baseline_claims(by_system(tables["baselines"]))
    rows = "\n".join(f"| {claim} | {values} | {verdict} |" for claim, values, verdict in claims)
    return f"""## What was expected, and what came out

| {"from the paper | CIDEr" if targets is None else "set beforehand | CIDEr, or %"} | holds |
|---|---|---|
{rows}
"""


def _table(name: str, table: str, rows: list[dict[str, Any]]) -> str:
    figures = "\n\n".join(
        f"![{figure}]({name}/figures/{figure}.svg)"
        for figure in FIGURES.get(table, ())
        if (FOLDER / name / "figures" / f"{figure}.svg").exists()
    )
    return f"## {TITLES[table]}\n\n{markdown(rows)}" + (f"\n{figures}\n" if figures else "")


def _speeds(rows: list[dict[str, Any]], curves: dict[str, Any]) -> str:
    """What each baseline's runs had learnt at each validation, as a mean over the seeds."""
    lines = []
    for row in rows:
        if row["system"].endswith("XE"):
            continue
        steps = list(zip(*curves[row["stage"]], strict=True))  # by validation: (epoch, CIDEr)
        epochs = [points[0][0] for points in steps]
        means = [statistics.fmean(cider for _, cider in points) for points in steps]
        lines.append(f"| {row['system']} | " + " | ".join(f"{mean:.1f}" for mean in means) + " |")
    head = " | ".join(f"{epoch:.0f}" for epoch in epochs)
    return f"""### How fast they learn

Validation CIDEr after so many epochs, the mean of the seeds; where a run ends is not where its best
model is, which the table above is of.

| | {head} |
|---{"|---" * len(epochs)}|
{chr(10).join(lines)}
"""


def variance_figure(name: str) -> str:
    """The variances of the baselines as bars, with the least and the largest of the batches."""
    found = _read(FOLDER / name / VARIANCE)["baselines"]
    values = [
        Bar(baseline, own["relative"], min(own["relatives"]), max(own["relatives"]))
        for baseline, own in found.items()
    ]
    title = "Variance of CMAL's gradient by baseline"
    return bars(title, "variance against the squared norm of the gradient (log)", values, log=True)


def _variance(name: str, run: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| {baseline} | {own['variance']:.4g} | {own['relative']:.4g} |"
        for baseline, own in run["baselines"].items()
    )
    return f"""## Variance of the gradient

`{run["command"]}`

On {run["batches"]} fixed batches of {run["batch"]} images, {run["samplings"]} gradients of each
by a trained student ({run["samples"]} sentences an image, k = {run["topk"]}); all baselines judge
the same sentences. The variance is summed over all {run["parameters"]:,} parameters, and put
against the squared norm of the expected gradient.

| baseline | variance | relative |
|---|---|---|
{rows}

![gradient variance]({name}/figures/gradient-variance.svg)
"""


def _captions(name: str, examples: list[dict[str, Any]]) -> str:
    """Side by side, as in the paper's last figure."""
    parts = []
    for example in examples:
        rows = "\n".join(
            f"| {who} | {mark(text, '**', '**')} |" for who, text in example["captions"].items()
        )
        there = example["image"] and (FOLDER / name / example["image"]).exists()
        image = f"![{example['id']}]({name}/{example['image']})\n\n" if there else ""
        parts.append(f"{image}| {example['id']} | |\n|---|---|\n{rows}\n")
    return (
        "## Captions side by side\n\nA word that repeats the one before it is bold.\n\n"
        + "\n".join(parts)
    )


def _stages(run: dict[str, Any]) -> str:
    rows = "\n".join(
        f"| `{stage}` | {_seconds(found.get('seconds'))} | {found.get('steps', '')} |"
        for stage, found in run["stages"].items()
    )
    total = sum(found.get("seconds") or 0 for found in run["stages"].values())
    seen = run["latency"]
    return f"""## Stages

| stage | seconds | steps |
|---|---|---|
{rows}

Together {total / 60:.1f} minutes of stages; with `--jobs` some ran at the same time.
Latency: {seen["images"]} images on {seen["device"]}, {seen["threads"]} threads, in turns.
{_teacher_words(seen)}"""


def _teacher_words(seen: dict[str, Any]) -> str:
    """How many words the teacher wrote while it was timed: older runs let it go on on a GPU."""
    if "words" in seen:
        return f"The teacher wrote {seen['words']} words.\n"
    if seen["device"] == "cpu":
        return ""
    return """On the GPU the teacher wrote 16 words, however soon its sentence ended: its ms, and
the speed-up over it, are too large. [speed.md](speed.md) has both with the same number of words.
"""


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:,.1f}"
