"""Rows of figures as JSON, as markdown with the paper's figures beside them, and as CSV."""

import csv
import io
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from naic.files import remove_temporaries, write_atomically
from naic.tasks.evaluate.options import NAMES
from naic.tasks.reproduce import paper
from naic.tasks.reproduce.judging import Scored, ends

TableRow = dict[str, Any]
HABITS = ("repeats", "bad_endings", "facts")
PAPER = {
    "ladder": paper.TABLE_1,
    "baselines": paper.TABLE_3,
    "topk": paper.TABLE_4,
    "unlabelled": paper.TABLE_5,
    "fill": {},
}
TITLES = {
    "ladder": "The ladder (the paper's table 1)",
    "baselines": "Baselines of the policy gradient (table 3)",
    "topk": "Top-k of the counterfactuals (table 4)",
    "unlabelled": "Unlabelled images (table 5)",
    "fill": "Training the places after the period (not in the paper)",
}
HEADS = {
    **{f"Bleu_{n}": f"B{n}" for n in range(1, 5)},
    **{"METEOR": "M", "ROUGE_L": "R", "CIDEr": "C", "SPICE": "S"},
    **{"repeats": "repeats %", "bad_endings": "bad endings %", "facts": "true %"},
}
ALWAYS = (*NAMES, "repeats", "bad_endings")  # a column even where nothing could be measured


def make_row(system: str, scored: Sequence[Scored], table: str) -> TableRow:
    """One row from the scores of one or more seeds: means, their spread, intervals over images."""
    row: TableRow = {"system": system}
    for name in (*NAMES, *HABITS):
        row[name] = _mean([own.values[name] for own in scored])
    row["intervals"] = {
        name: ends([own.resampled.get(name, []) for own in scored])
        for name in NAMES
        if row[name] is not None
    }
    row["seeds"] = len(scored)
    row["spread"] = {
        name: statistics.stdev(values)
        for name in (*NAMES, *HABITS)
        if len(values := [v for own in scored if (v := own.values[name]) is not None]) > 1
    }
    row["per_seed"] = [own.values for own in scored]
    row["captions"] = [f"captions/{own.captions.name}" for own in scored]
    row["signature"] = scored[0].signature
    row["latency_ms"] = row["speedup"] = None
    row["paper"] = PAPER[table].get(system)
    return row


def _mean(values: Sequence[float | None]) -> float | None:
    """None where a single one is missing: a mean of some seeds would be of other seeds."""
    known = [value for value in values if value is not None]
    return statistics.fmean(known) if len(known) == len(values) else None


def add_latency(rows: Sequence[TableRow], milliseconds: dict[str, float]) -> None:
    """Put the time of an image into each row, and how much quicker than the teacher's beam 3."""
    slowest = milliseconds.get("AIC beam 3")
    for row in rows:
        # All students are one network with other weights: one time stands for all of them.
        same = None if row["system"].startswith("AIC") else milliseconds.get("NAIC")
        own = milliseconds.get(row["system"], same)
        row["latency_ms"] = own
        row["speedup"] = None if own is None or slowest is None else slowest / own


def write_table(folder: Path, name: str, table: str, rows: Sequence[TableRow]) -> None:
    """NAME.json, NAME.md and NAME.csv."""
    remove_temporaries(folder, f"{name}.*")
    for suffix, text in (
        ("json", json.dumps(list(rows), indent=1) + "\n"),
        ("md", f"# {TITLES[table]}\n\n{markdown(rows)}"),
        ("csv", _csv(rows)),
    ):
        write_atomically(folder / f"{name}.{suffix}", text.encode())


def markdown(rows: Sequence[TableRow]) -> str:
    """The rows for people: times 100, the paper's figure in brackets where it has one."""
    shown = [name for name in HEADS if name in ALWAYS or any(row[name] is not None for row in rows)]
    timed = any(row["latency_ms"] is not None for row in rows)
    heads = ["", *(HEADS[name] for name in shown), *(["ms", "speedup"] if timed else ["last C"])]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [row["system"], *(_cell(row, name) for name in shown)]
        if timed:
            cells += [_latency(row, "latency_ms", ""), _latency(row, "speedup", "×")]
        else:
            cells.append(_percent(row["last_validation_cider"]))
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + f"\n\n{_legend(rows, timed=timed)}\n"


def _cell(row: TableRow, name: str) -> str:
    if row[name] is None:
        return "n/a"
    text = _percent(row[name])
    if name in row["spread"]:
        text += f" ± {100 * row['spread'][name]:.1f}"
    elif name == "CIDEr" and row["intervals"].get(name):
        low, high = row["intervals"][name]
        text += f" ({100 * low:.1f} to {100 * high:.1f})"
    theirs = (row["paper"] or {}).get(name)
    return text if theirs is None else f"{text} [{100 * theirs:.1f}]"


def _latency(row: TableRow, name: str, unit: str) -> str:
    if row[name] is None:
        return "n/a"
    theirs = (row["paper"] or {}).get(name)
    return f"{row[name]:.2f}{unit}" + ("" if theirs is None else f" [{theirs:g}{unit}]")


def _percent(value: float | None) -> str:
    return "n/a" if value is None else f"{100 * value:.1f}"


def _legend(rows: Sequence[TableRow], *, timed: bool) -> str:
    seeds = max(row["seeds"] for row in rows)
    parts = ["Scores × 100; n/a: not measured."]
    if seeds > 1:
        parts.append(f"Means of {seeds} seeds ± their standard deviation (the teacher has one).")
    elif any(row["intervals"].get("CIDEr") for row in rows):
        parts.append("CIDEr with its 95 % interval over the images.")
    if any(row["paper"] for row in rows):
        parts.append("In brackets: the paper, on MSCOCO with bottom-up features.")
    if timed:
        parts.append("ms: one image from its features, eager, the teacher with a key-value cache.")
    else:
        parts.append(
            "Weights are the best by validation CIDEr, the start model's counted too; "
            "`last C` is the validation CIDEr at the end of the run."
        )
    return "\n".join(parts)


def _csv(rows: Sequence[TableRow]) -> str:
    """Fractions, as in the JSON; empty where there is no figure."""
    figures = (*NAMES, *HABITS, "latency_ms", "speedup")
    head = ["system", "seeds", *figures]
    head += [f"{name}_{end}" for name in NAMES for end in ("low", "high", "spread")]
    theirs = [*NAMES, "latency_ms", "speedup"]
    file = io.StringIO(newline="")
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerow([*head, *(f"paper_{name}" for name in theirs)])
    for row in rows:
        cells = [row["system"], row["seeds"], *(row[name] for name in figures)]
        for name in NAMES:
            low, high = row["intervals"].get(name) or (None, None)
            cells += [low, high, row["spread"].get(name)]
        cells += [(row["paper"] or {}).get(name) for name in theirs]
        writer.writerow(["" if cell is None else cell for cell in cells])
    return file.getvalue()
