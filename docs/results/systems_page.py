"""systems.md and its chart: every captioner on one store and one clock, from systems/systems.json.

That is a file of benchmarks/study_files.py, made of a study such as configs/coco/systems.toml. Rows
that have not run yet are named, and nothing is said of them.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from systems_papers import COMPARED, PAPERS  # type: ignore[import-not-found]

from naic.tasks.charts import Dot, scatter
from naic.tasks.evaluate.options import NAMES
from naic.tasks.reproduce.tables import HEADS, WORDS, Numbers
from naic.tasks.study.rows import difference, percent

FOLDER = Path(__file__).parent
PAGE, RUNS = "systems.md", "systems"
FILE, CHART = f"{RUNS}/systems.json", f"{RUNS}/front.svg"
ONE, MANY = "1", "64"  # images at once
Row = dict[str, Any]
Study = dict[str, Any]
NOT_RUN = "not run"


# What was expected, by CIDEr on val: each less than the next.
ORDERS = (
    ("NIC, beam 3", "Up-Down, beam 3", "AIC, beam 3"),
    ("NAIC-base", "MNIC", "AIC, beam 3"),
    ("NAIC-base", "FNIC", "AIC, beam 3"),
)


def systems_pages(results: Path = FOLDER) -> dict[str, Callable[[], str]]:
    """The page and its chart, if the table was made; the chart, if anything was timed."""
    path = results / FILE
    if not path.exists():
        return {}
    study: Study = json.loads(path.read_text(encoding="utf-8"))
    pages: dict[str, Callable[[], str]] = {PAGE: partial(_page, study)}
    if _points(study):
        pages[CHART] = partial(_chart, study)
    return pages


def _page(study: Study) -> str:
    splits = study["splits"]
    parts = [_head(study)]
    parts += [_quality(study, split) for split in splits]
    parts += [_cost(study), _front(study), _beside(study), _orders(study), _habits(study)]
    return "\n".join(filter(None, parts))


def _head(study: Study) -> str:
    rows = _rows(study)
    runs = {row["folder"]: row["seconds"] or 0.0 for row in rows}
    devices = sorted({row["device"] for row in rows if row["device"]})
    missing = ", ".join(study.get("left_out", []))
    waiting = f"\nNot run yet: {missing}.\n" if missing else ""
    return f"""# All systems, on equal features and one clock

Made by `make docs` from `{FILE}`, on {", ".join(devices) or "no device"}, by:

```
{study["command"]}
```

The same command goes on with a run that was cut off, and trained all of it in
{sum(runs.values()) / 60:,.0f} minutes of runs ({len(runs)} of them, one seed each), scoring and
timing apart. All learn from the same features, captions, batch, schedule and epochs by
cross-entropy; `+ RL` goes on by rewards, `NAIC (KD)` by the captions of AIC + RL, `NAIC (CMAL)` by
the paper's own method. The rows of NAIC alone learn with three quarters of an image's regions at a
time (`model.seen`), against overfitting. What of each paper is reduced is in its
[decision](../decisions); how the table is made, in [065](../decisions/065-systems.md). Who says all
words at once has no beam, but for CTC, which searches among its places' paths.
{waiting}"""


def _quality(study: Study, split: str) -> str:
    own = study["splits"][split]
    shown = [name for name in NAMES if any(row.get(name) is not None for row in own["rows"])]
    heads = ["", *(HEADS[name] for name in shown), f"C − {study['compare_with']}"]
    heads += ["repeats %", "bad endings %", "words"]
    lines = [
        [
            row["system"],
            *(_scored(row, name) for name in shown),
            difference(row.get("difference")),
            percent(row["repeats"]),
            percent(row["bad_endings"]),
            "" if row[WORDS] is None else f"{row[WORDS]:,.0f}",
        ]
        for row in own["rows"]
    ]
    lines += [[name, NOT_RUN, *[""] * (len(heads) - 2)] for name in study.get("left_out", [])]
    return f"""## Quality on {split}: {own["images"]:,} images

Scores × 100 with their 95 % intervals over the images; the difference is paired.

{_table(heads, lines)}"""


def _scored(row: Row, name: str) -> str:
    ends = row["intervals"].get(name)
    text = percent(row.get(name))
    return text if not ends else f"{text} ({100 * ends[0]:.1f} to {100 * ends[1]:.1f})"


def _cost(study: Study) -> str:
    speed = study.get("speed", {})
    if not speed:
        return ""
    runtimes = speed["runtimes"]
    heads = ["", "passes", "parameters, M"]
    for runtime in runtimes:
        heads += [f"ms at 1, {runtime}", f"images/s at 64, {runtime}"]
    lines = []
    minutes = {row["system"]: row["seconds"] for row in _rows(study)}
    for name, own in speed["rows"].items():
        cells = [name, str(own["passes"]), f"{own['parameters'] / 1e6:.1f}"]
        for runtime in runtimes:
            times = own["times"][runtime]
            cells.append(_number(times[ONE].get("median_ms"), "{:.2f}"))
            cells.append(_number(times[MANY].get("images_per_second"), "{:,.0f}"))
        seconds = minutes.get(name)
        lines.append([*cells, _number(None if seconds is None else seconds / 60, "{:.1f}")])
    lines += [[name, NOT_RUN, *[""] * len(heads[1:])] for name in study.get("left_out", [])]
    where = f"{speed['machine']['device']}, torch {speed['machine']['packages']['torch']}"
    return f"""## Passes, size and time

From features on the device to words on the host, in {speed["precision"]}, all rows in turns in one
sitting ({where}; runtimes: {", ".join(runtimes)}). What writes word by word writes
{speed["words"]} words, with a cache. A pass is a call of the layer that scores words; FNIC's
small recurrent network, which takes a step a place, is in its time alone. minutes: of training,
what it began with apart.

{_table([*heads, "minutes"], lines)}"""


def _front(study: Study) -> str:
    if not _points(study):
        return ""
    return f"""## CIDEr against time

![CIDEr against milliseconds]({CHART})

On the front, where no other row is both faster and better: {", ".join(_best(study))}.
"""


def _chart(study: Study) -> str:
    best = _best(study)
    dots = [
        Dot(f"{name} (front)" if name in best else name, time, 100 * cider)
        for name, (time, cider) in _points(study).items()
    ]
    speed = study["speed"]
    x = f"milliseconds for one image, {speed['runtimes'][0]}, {speed['machine']['device']}"
    return scatter(f"CIDEr on {_split(study)} against time", x, "CIDEr", dots, log_x=True)


def _points(study: Study) -> dict[str, tuple[float, float]]:
    """By row, milliseconds of one image in the fastest runtime, and CIDEr; those with both."""
    speed = study.get("speed", {})
    ciders = {row["system"]: row["CIDEr"] for row in _rows(study)}
    found = {}
    for name, own in speed.get("rows", {}).items():
        time = own["times"][speed["runtimes"][0]][ONE].get("median_ms")
        if time is not None and ciders.get(name) is not None:
            found[name] = (float(time), float(ciders[name]))
    return found


def _best(study: Study) -> list[str]:
    """The rows that no other one beats in both time and CIDEr."""
    points = _points(study)
    return [
        name
        for name, (time, cider) in points.items()
        if not any(t <= time and c > cider for n, (t, c) in points.items() if n != name)
    ]


def _beside(study: Study) -> str:
    """Our figures, and a paper's in brackets."""
    rows = {row["system"]: row for row in _rows(study)}
    heads = ["", *(HEADS[name] for name in COMPARED), "theirs", "source", "what differs here"]
    lines = []
    for name, theirs in PAPERS.items():
        own = rows.get(name)
        cells = [_both(own, theirs.figures, metric) for metric in COMPARED]
        how = theirs.how
        for key, form in (("latency_ms", "{:g} ms"), ("speedup", "{:g}×")):
            if key in theirs.figures:
                how += f", {form.format(theirs.figures[key])}"
        lines.append([name, *cells, how, theirs.source, theirs.why])
    return f"""## Beside each paper's own figures

Ours on `{_split(study)}`, the paper's in brackets. All theirs are of Karpathy's test split, 5,000
images; on other images CIDEr is another ([why](coco.md)). What separates the two is, for all rows,
the features, and how long it was trained; what else there is stands in the last column. No figures
of a paper were found that could be checked for the rows that are not here.

{_table(heads, lines)}"""


def _both(own: Row | None, theirs: Numbers, metric: str) -> str:
    ours = NOT_RUN if own is None else percent(own.get(metric))
    return ours if metric not in theirs else f"{ours} [{100 * theirs[metric]:.1f}]"


def _orders(study: Study) -> str:
    """What was expected of the order of systems, by CIDEr on val."""
    rows = study["splits"].get("val", {}).get("rows", [])
    ciders = {row["system"]: row["CIDEr"] for row in rows}
    lines = []
    for names in ORDERS:
        found = [ciders[name] for name in names if name in ciders]
        values = " < ".join(percent(own) for own in found)
        told = NOT_RUN
        if len(found) == len(names):
            told = "yes" if found == sorted(found) else "**no**"
        lines.append([" < ".join(names), values.replace("<", "and"), told])
    return f"""## What was expected

By CIDEr on `val`; one seed each.

{_table(["", "found", ""], lines)}"""


def _habits(study: Study) -> str:
    people = study.get("people", {}).get(_split(study))
    if not people:
        return ""
    return (
        f"People end {100 * people['bad_endings']:.2f} % of their captions badly, and say a word "
        f"twice in a row in {100 * people['repeats']:.2f} %.\n"
    )


def _split(study: Study) -> str:
    """The one that the page is about: the first of the study's `report`."""
    return str(next(iter(study["splits"])))


def _rows(study: Study) -> list[Row]:
    rows: list[Row] = study["splits"][_split(study)]["rows"]
    return rows


def _number(value: float | None, form: str) -> str:
    return "n/a" if value is None else form.format(value)


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) + "\n"
