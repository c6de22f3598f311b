"""What the page of COCO's ladder says where `val` was reported too: targets, settings, packing.

Beside the files of benchmarks/ladder_files.py, its folder may hold what `naic evaluate --json` says
of captions by its best student, packed: shipped.json (of `test`), shipped-val.json and, of its int8
graph, shipped-int8-val.json; old-val.json is of the first model that shipped. That one's figures on
`test` are those of the first ladder's folder.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from naic.tasks.evaluate.options import NAMES
from naic.tasks.reproduce.tables import HEADS, markdown

Row = dict[str, Any]
Claim = tuple[str, str, str]  # what is expected, the figures, whether it holds
FIRST = "coco-lite2"  # the folder of the first ladder
EVALUATED = {
    "val": {
        "shipped-val.json": "the same, packed",
        "shipped-int8-val.json": "packed, exported in int8",
        "old-val.json": "the first model that shipped",
    },
    "test": {
        "shipped.json": "the same, packed",
        f"../{FIRST}/shipped.json": "the first model that shipped",
    },
}
# What was set beforehand, for CIDEr on val: at least so much; at most so far behind the student.
LEAST = {"AIC XE beam 3": 1.17, "AIC beam 3": 1.26, "+KD": 1.17, "+CMAL": 1.21}
BEHIND = {"shipped-val.json": 0.005, "shipped-int8-val.json": 0.010}
REPEATS, ENDINGS = 0.02, 0.01


def read_evaluations(folder: Path) -> dict[str, Row]:
    """What is there of `EVALUATED`, by the name of its file."""
    names = [name for own in EVALUATED.values() for name in own]
    paths = {name: folder / name for name in names}
    return {name: json.loads(p.read_text("utf-8")) for name, p in paths.items() if p.exists()}


def val_table(rows: Sequence[Row], people: Mapping[str, Any]) -> str:
    """The ladder on val."""
    return f"""## The ladder on `val`

The images that the models were chosen by: the figures flatter them a little. SPICE was not asked
for. The paper has no figures of `val`.

{markdown(rows)}
{words_of_people(people)}
"""


def words_of_people(people: Mapping[str, Any]) -> str:
    """Beside the number of different words of each row."""
    return f"People's captions, one of each image, have {people['vocabulary']:,} different words."


def targets(
    rows: Sequence[Row], best: str, people: Mapping[str, Any], evaluated: Mapping[str, Row]
) -> list[Claim]:
    """What was set beforehand, on val; `best` is the student that is best there."""
    own = {row["system"]: row for row in rows}
    claims = [
        _claim(f"{name} on val: {100 * least:.0f} or more", own[name]["CIDEr"], least)
        for name, least in LEAST.items()
        if name in own
    ]
    limit = people["bad_endings"] + ENDINGS
    student = own[best]
    claims += [
        _most(f"{best}: at most {REPEATS:.0%} repeat a word", student["repeats"], REPEATS),
        _most(
            f"{best}: bad endings in at most {100 * limit:.1f} %, that of human captions and one "
            "point",
            student["bad_endings"],
            limit,
        ),
    ]
    for name, most in BEHIND.items():
        if name in evaluated:
            what = f"{EVALUATED['val'][name]}: at most {100 * most:.1f} behind {best} on val"
            claims.append(_most(what, student["CIDEr"] - evaluated[name]["CIDEr"], most))
    return claims


def _claim(what: str, value: float, least: float) -> Claim:
    return what, f"{100 * value:.1f}", "yes" if value >= least else "**no**"


def _most(what: str, value: float, most: float) -> Claim:
    return what, f"{100 * value:.1f}", "yes" if value <= most else "**no**"


def ships(
    best: Mapping[str, Row], people: Mapping[str, Mapping[str, Any]], evaluated: Mapping[str, Row]
) -> str:
    """The packed model beside the student it was made of and the one before; both by split."""
    heads = " | ".join([*(HEADS[name] for name in NAMES), "repeats %", "bad endings %", "words"])
    parts = []
    for split, files in EVALUATED.items():
        there = {what: evaluated[name] for name, what in files.items() if name in evaluated}
        if not there:
            continue
        rows = [_line(f"{best[split]['system']}, from features", best[split], best[split])]
        rows += [_line(what, own, own["habits"]["captions"]) for what, own in there.items()]
        blank = " | " * len(NAMES)
        rows.append(f"| people, one caption of each image |{blank}| | {_words(people[split])} |")
        parts.append(f"On `{split}`:\n\n| | {heads} |\n|---{'|---' * 11}|\n" + "\n".join(rows))
    tables = "\n\n".join(parts)
    return f"""## {best["val"]["system"]}, packed

`naic pack` makes it of {best["val"]["system"]}: fewer bits for each weight, its backbone inside. It
shipped until the student of [student.md](student.md) did, which has its backbone. It
reads pixels where the rows above read features. And it speaks as `naic caption` does: no word twice
in a row ([decision 017](../decisions/017-no-word-twice.md)), and no loose end ("... with a"; but
the first model's row of `test` was measured before these were cut). The
tables above allow both, as the paper does. words: how many different ones all captions have.

{tables}
"""


def _line(what: str, scores: Row, habits: Mapping[str, Any]) -> str:
    cells = [
        "n/a" if scores.get(name) is None else f"{100 * scores[name]:.1f}" for name in NAMES
    ] + [f"{100 * habits[name]:.1f}" for name in ("repeats", "bad_endings")]
    return f"| {what} | {' | '.join([*cells, _words(habits)])} |"


def _words(habits: Mapping[str, Any]) -> str:
    found = habits.get("vocabulary")
    return "n/a" if found is None else f"{found:,.0f}"
