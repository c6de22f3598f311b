"""student.md: what brings the student nearer to its teacher, from student/*.json.

Each is a file of benchmarks/study_files.py; one of them names the best student. shipped-val.json
and shipped-test.json, if they are there, are what `naic evaluate --json` says of that one, packed.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from naic.config import to_toml
from naic.tasks.evaluate.options import NAMES
from naic.tasks.reproduce.tables import HEADS, TABLE_1
from naic.tasks.study.rows import COLUMNS, changes, difference, legend, percent, table

FOLDER = Path(__file__).parent
PAGE, RUNS = "student.md", "student"
SHIPPED = {"val": "shipped-val.json", "test": "shipped-test.json"}
Row = dict[str, Any]
Study = dict[str, Any]
SPLIT = "val"
# What was set beforehand, on val: of CIDEr and of other scores, as fractions.
GAP, RESCORED_GAP = -0.010, 0.0  # to the teacher, without and with its rescoring
GAINS = {"Bleu_4": 0.010, "METEOR": 0.004}  # from +KD to +CMAL
REPEATS = 0.005
FROM = {
    "over_start": "from the student that all begin with",
    "from_start": "from the one that its own CMAL began with",
}


def student_pages(results: Path = FOLDER) -> dict[str, Callable[[], str]]:
    """The page, if there are studies."""
    paths = sorted(
        path for path in (results / RUNS).glob("*.json") if path.name not in SHIPPED.values()
    )
    return {PAGE: partial(_page, paths)} if paths else {}


def _page(paths: Sequence[Path]) -> str:
    studies = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    named = [study for study in studies if study.get("best")]
    parts = [_head(studies)]
    if named:
        parts += [_targets(named[0]), _gap(named[0]), _sentences(named[0])]
    parts += [_levers(study) for study in studies]
    parts += [_schedule(study) for study in named]
    parts.append(_shipped(paths[0].parent))
    return "\n".join(filter(None, parts))


def _head(studies: Sequence[Study]) -> str:
    devices = {row["device"] for study in studies for row in _rows(study) if row["device"]}
    commands = "\n".join(dict.fromkeys(study["command"] for study in studies))
    images = studies[0]["splits"][SPLIT]["images"]
    return f"""# The student and its teacher

Made by `make docs` from the studies in `{RUNS}` ({", ".join(sorted(devices)) or "no device"}), by:

```
{commands}
```

All students say their sentence in one pass: each agent its likeliest word, or with transitions
between neighbours ([decision 025](../decisions/025-transitions.md)) all of them the likeliest
sentence. Each row is one run with one seed, scored on the {images:,} images of `{SPLIT}`, by which
its best weights were chosen, too. Changes that bring nothing stay on the page. How to read and to
run it: [reproduce.md](../reproduce.md#studies-variants-of-one-run).
"""


def _targets(study: Study) -> str:
    """What was set beforehand, and whether it holds."""
    best, people = _best(study), study["people"][SPLIT]
    rescored = _rescored(study)
    claims: list[tuple[str, str, bool]] = []
    if best.get("gap"):
        what = f"CIDEr at most {-100 * GAP:.1f} behind the teacher, without a second model"
        claims.append((what, difference(best["gap"]), best["gap"]["CIDEr"]["value"] >= GAP))
    if rescored:
        top = max(rescored, key=lambda row: float(row["CIDEr"]))
        what = "not behind the teacher where that rescores"
        reached = top["gap"]["CIDEr"]["value"] >= RESCORED_GAP
        claims.append((f"{what} ({top['system']})", difference(top["gap"]), reached))
    for key, began in FROM.items():
        for name, least in GAINS.items():
            own = best.get(key, {}).get(name)
            if own is not None:
                what = f"{HEADS[name]} {100 * least:+.1f} or more from KD to CMAL, {began}"
                claims.append((what, difference(best[key], name), own["value"] >= least))
    few = f"a word repeated in fewer than {100 * REPEATS:.1f} % of the captions"
    claims.append((few, f"{100 * best['repeats']:.2f} %", best["repeats"] < REPEATS))
    ends = f"bad endings in no more than people's {100 * people['bad_endings']:.2f} %"
    reached = best["bad_endings"] <= people["bad_endings"]
    claims.append((ends, f"{100 * best['bad_endings']:.2f} %", reached))
    lines = _lines([what, found, "yes" if holds else "**no**"] for what, found, holds in claims)
    return f"""## What was asked for

Of {best["system"]!r}, on `{SPLIT}`; differences with their paired 95 % intervals over the images.

| | | |
|---|---|---|
{lines}
"""


def _gap(study: Study) -> str:
    """The best student, with and without rescoring, beside the teacher."""
    teacher = next((row for row in _rows(study) if row["folder"] == "teacher"), None)
    if teacher is None:
        return ""
    base = _find(study, study["compare_with"])
    shown = [base, _best(study), *_rescored(study), teacher]
    lines = _lines(
        [
            row["system"],
            *(percent(row[name]) for name in COLUMNS),
            difference(row.get("gap")),
            "" if row["latency_ms"] is None else f"{row['latency_ms']:.2f}",
        ]
        for row in {row["system"]: row for row in shown}.values()
    )
    heads = " | ".join(HEADS[name] for name in COLUMNS)
    theirs = 100 * (TABLE_1["+CMAL"]["CIDEr"] - TABLE_1["AIC beam 3"]["CIDEr"])
    return f"""## The gap

The paper's gap is {theirs:+.1f}, on `test`. `+ rescore n`: the teacher is given the student's n
likeliest sentences, all in one pass, and its choice is said. ms: one image from its features,
eager.

| | {heads} | C − teacher | ms |
|---|{"---|" * (len(COLUMNS) + 2)}
{lines}
"""


def _sentences(study: Study) -> str:
    """What CMAL does to scores that it is not rewarded by."""
    names = ("CIDEr", "Bleu_4", "METEOR")
    rows = {row["system"]: row for row in (_find(study, study["compare_with"]), _best(study))}
    lines = _lines(
        [f"{row['system']}, {began}", *(difference(row[key], name) for name in names)]
        for row in rows.values()
        for key, began in FROM.items()
        if key in row and (key == "from_start" or row[key] != row["from_start"])
    )
    paper = " | ".join(
        f"{100 * (TABLE_1['+CMAL'][name] - TABLE_1['+KD'][name]):+.1f}" for name in names
    )
    start = next(row for row in _rows(study) if row["folder"] == "start")
    own = ", ".join(f"{HEADS[name]} {percent(start[name])}" for name in names)
    return f"""## From KD to CMAL

What the student has more than before CMAL: than the student after KD that all begin with, which has
{own}; and than the one that its own CMAL began with, if there was
another stage of KD in between.

| | {" | ".join(HEADS[name] for name in names)} |
|---|---|---|---|
{lines}
| the paper, on `test` | {paper} |
"""


def _levers(study: Study) -> str:
    rows, note = _rows(study), study.get("note", "")
    return f"""## Change by change ({study["study"]})
{f"{chr(10)}{note}{chr(10)}" if note else ""}
{table(rows, study)}
{legend(study)}
{_reading(study)}"""


def _reading(study: Study) -> str:
    """The table in words: what an interval leaves no doubt about."""
    told: dict[str, list[str]] = {"more": [], "less": [], "open": []}
    for row in _rows(study):
        own = row.get("difference", {}).get("CIDEr")
        if own is None or row["folder"] in ("start", "teacher") or row.get("rescored"):
            continue
        low, high = (own[end] if own[end] is not None else 0.0 for end in ("low", "high"))
        kind = "more" if low > 0 else "less" if high < 0 else "open"
        told[kind].append(f"{row['system']} ({100 * own['value']:+.1f})")
    base = study["compare_with"]
    parts = [
        (told["more"], f"More CIDEr than {base!r}"),
        (told["less"], f"Less CIDEr than {base!r}"),
        (told["open"], "Not to be told from it on these images"),
    ]
    parts.append(
        (_last(study), "Their last validations, where the best weights are those of the start")
    )
    return "".join(f"- {what}: {', '.join(names)}.\n" for names, what in parts if names)


def _last(study: Study) -> list[str]:
    """Runs that only lost, and what they had in the end."""
    return [
        f"{row['system']} {100 * row['last_validation']:.1f}"
        for row in _rows(study)
        if row["best_step"] == 0 and row.get("last_validation") is not None
    ]


def _schedule(study: Study) -> str:
    """All settings of the best one's runs."""
    best = _best(study)
    blocks = "\n".join(
        f"`{name}`:\n\n```toml\n{to_toml(config)}```\n"
        for name, config in study["schedule"].items()
    )
    told = changes(best["changes"]) or "nothing: the base as it is"
    return f"""## {best["system"]}: its settings

What its file says: {told}. All settings of its runs, in their order:

{blocks}"""


def _shipped(folder: Path) -> str:
    """The best one as it ships, on the images that it was chosen by, and on others."""
    found = {
        split: json.loads((folder / name).read_text(encoding="utf-8"))
        for split, name in SHIPPED.items()
        if (folder / name).exists()
    }
    if not found:
        return ""
    heads = [*(HEADS[name] for name in NAMES), "repeats %", "bad endings %", "words"]
    lines = _lines(_shipped_cells(split, own) for split, own in found.items())
    return f"""## As it ships

Packed, its backbone inside, from pixels in float16 on an H200, and as `naic caption` speaks: no
word twice in a row, no loose end. `test` was scored once. CIDEr is higher on fewer images.

| | images | {" | ".join(heads)} |
|---|{"---|" * (len(heads) + 1)}
{lines}
"""


def _shipped_cells(split: str, own: Row) -> list[str]:
    habits = own["habits"]["captions"]
    cells = [f"`{split}`", f"{own['signature']['images']:,}"]
    cells += [percent(own.get(name)) for name in NAMES]
    cells += [f"{100 * habits[name]:.2f}" for name in ("repeats", "bad_endings")]
    return [*cells, f"{habits['vocabulary']:,}"]


def _rows(study: Study) -> list[Row]:
    rows: list[Row] = study["splits"][SPLIT]["rows"]
    return rows


def _find(study: Study, system: str) -> Row:
    return next(row for row in _rows(study) if row["system"] == system)


def _best(study: Study) -> Row:
    return _find(study, study["best"])


def _rescored(study: Study) -> list[Row]:
    folder = _best(study)["folder"]
    return [row for row in _rows(study) if row["folder"] == folder and row.get("rescored")]


def _lines(rows: Iterable[Sequence[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
