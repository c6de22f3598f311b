"""Rows of figures as JSON, as markdown with the paper's figures beside them, and as CSV."""

import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from naic.files import remove_temporaries, write_atomically
from naic.tasks.evaluate.options import NAMES
from naic.tasks.evaluate.report import as_csv_file
from naic.tasks.reproduce.judging import Scored, ends

# What the paper reports, table by table, as fractions: 1.24 is its CIDEr of 124.0. Guo et al.,
# "Non-Autoregressive Image Captioning with Counterfactuals-Critical Multi-Agent Learning", IJCAI
# 2020: MSCOCO, Karpathy's test split, bottom-up features; latency of one image on a GTX 1080 Ti.
Numbers = dict[str, float]
_COLUMNS = ("Bleu_1", "Bleu_4", "METEOR", "ROUGE_L", "SPICE", "CIDEr")


def _row(*values: float, latency_ms: float | None = None, speedup: float | None = None) -> Numbers:
    row = {name: round(value / 100, 4) for name, value in zip(_COLUMNS, values, strict=True)}
    if latency_ms is not None and speedup is not None:
        row |= {"latency_ms": latency_ms, "speedup": speedup}
    return row


_BASE = _row(60.7, 15.9, 18.2, 45.9, 11.9, 60.6, latency_ms=16, speedup=13.9)
_INIT = _row(62.3, 17.1, 19.0, 46.8, 12.6, 64.6, latency_ms=16, speedup=13.9)
_KD = _row(78.5, 35.3, 27.3, 56.9, 20.8, 115.5, latency_ms=16, speedup=13.9)
_CMAL = _row(80.3, 37.3, 28.1, 58.0, 21.8, 124.0, latency_ms=16, speedup=13.9)
_UNLABELLED = _row(80.5, 38.0, 28.3, 58.2, 22.0, 125.5, latency_ms=16, speedup=13.9)

TABLE_1 = {
    "AIC beam 1": _row(79.8, 38.4, 29.0, 58.7, 22.8, 126.6, latency_ms=134, speedup=1.66),
    "AIC beam 3": _row(80.3, 38.9, 29.1, 58.9, 22.9, 128.8, latency_ms=222, speedup=1.0),
    "NAIC-base": _BASE,
    "+weight-init": _INIT,
    "+KD": _KD,
    "+CMAL": _CMAL,
    "+unlabelled": _UNLABELLED,
}
TABLE_3 = {  # baselines of the policy gradient, without and with the teacher's weights
    "scratch, XE": _row(77.7, 34.8, 26.9, 56.3, 20.3, 113.9),
    "scratch, none": _row(65.6, 19.4, 22.7, 48.9, 15.8, 91.4),
    "scratch, ma": _row(75.6, 28.7, 24.4, 53.6, 17.9, 103.3),
    "scratch, sc": _row(79.0, 34.6, 26.9, 56.2, 20.6, 118.1),
    "scratch, cf": _row(79.9, 36.5, 27.7, 57.4, 21.4, 122.1),
    "weight-init, XE": _row(78.5, 35.3, 27.3, 56.9, 20.8, 115.5),
    "weight-init, none": _row(78.6, 33.7, 26.5, 56.1, 20.2, 115.2),
    "weight-init, ma": _row(79.0, 34.1, 26.6, 56.3, 20.2, 116.1),
    "weight-init, sc": _row(79.6, 36.5, 27.6, 57.4, 21.4, 121.2),
    "weight-init, cf": _row(80.3, 37.3, 28.1, 58.0, 21.8, 124.0),
}
TABLE_4 = {  # the counterfactuals' top-k
    "k = 1": _row(80.1, 37.4, 28.0, 57.9, 21.7, 123.7),
    "k = 2": _row(80.3, 37.3, 28.1, 58.0, 21.8, 124.0),
    "k = 5": _row(80.1, 37.3, 28.0, 58.0, 21.7, 123.7),
}
TABLE_5 = {  # shares of 100,000 unlabelled images
    "0 %, XE": _row(78.5, 35.3, 27.3, 56.9, 20.8, 115.5),
    "0 %, CMAL": _row(80.3, 37.3, 28.1, 58.0, 21.8, 124.0),
    "50 %, XE": _row(78.8, 36.2, 27.6, 57.2, 21.1, 118.1),
    "50 %, CMAL": _row(80.2, 37.6, 28.1, 58.1, 21.9, 124.8),
    "100 %, XE": _row(79.0, 36.2, 27.7, 57.3, 21.2, 118.3),
    "100 %, CMAL": _row(80.5, 38.0, 28.3, 58.2, 22.0, 125.5),
}

TableRow = dict[str, Any]
HABITS = ("repeats", "bad_endings", "facts")
PAPER = {
    "ladder": TABLE_1,
    "baselines": TABLE_3,
    "topk": TABLE_4,
    "unlabelled": TABLE_5,
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
WORDS = "vocabulary"  # how many different words the captions have: no fraction


def make_row(system: str, scored: Sequence[Scored], table: str) -> TableRow:
    """One row from the scores of one or more seeds: means, their spread, intervals over images."""
    row: TableRow = {"system": system}
    for name in (*NAMES, *HABITS):
        row[name] = _mean([own.values[name] for own in scored])
    row[WORDS] = _mean([own.values.get(WORDS) for own in scored])  # older scores have none
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


def add_latency(
    rows: Sequence[TableRow], milliseconds: dict[str, float], words: int | None
) -> None:
    """Put the time of an image into each row, and how much quicker than the teacher's beam 3.

    `words` is how many the teacher wrote.
    """
    slowest = milliseconds.get("AIC beam 3")
    for row in rows:
        # All students are one network with other weights: one time stands for all of them.
        same = None if row["system"].startswith("AIC") else milliseconds.get("NAIC")
        own = milliseconds.get(row["system"], same)
        row["latency_ms"], row["latency_words"] = own, words
        row["speedup"] = None if own is None or slowest is None else slowest / own


def write_table(
    folder: Path, name: str, table: str, rows: Sequence[TableRow], split: str = ""
) -> None:
    """NAME.json, NAME.md and NAME.csv; `split` is named where it is not that of all others."""
    remove_temporaries(folder, f"{name}.*")
    title = TITLES[table] + (f" on {split}" if split else "")
    for suffix, data in (
        ("json", f"{json.dumps(list(rows), indent=1)}\n".encode()),
        ("md", f"# {title}\n\n{markdown(rows)}".encode()),
        ("csv", _csv(rows)),
    ):
        write_atomically(folder / f"{name}.{suffix}", data)


def markdown(rows: Sequence[TableRow]) -> str:
    """The rows for people: times 100, the paper's figure in brackets where it has one."""
    shown = [name for name in HEADS if name in ALWAYS or any(row[name] is not None for row in rows)]
    timed = any(row["latency_ms"] is not None for row in rows)
    counted = any(row.get(WORDS) is not None for row in rows)
    heads = ["", *(HEADS[name] for name in shown), *(["words"] if counted else [])]
    heads += ["ms", "speedup"] if timed else ["last C"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in rows:
        cells = [row["system"], *(_cell(row, name) for name in shown)]
        if counted:
            cells.append("n/a" if row.get(WORDS) is None else f"{row[WORDS]:,.0f}")
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
    if any(row.get(WORDS) is not None for row in rows):
        parts.append("words: how many different ones all captions have.")
    if timed:
        words = rows[0].get("latency_words")
        teacher = f"the teacher writes {words} words," if words else "the teacher"
        parts.append(f"ms: one image from its features, eager; {teacher} with a key-value cache.")
    else:
        parts.append(
            "Weights are the best by validation CIDEr, the start model's counted too; "
            "`last C` is the validation CIDEr at the end of the run."
        )
    return "\n".join(parts)


def _csv(rows: Sequence[TableRow]) -> bytes:
    """Fractions, as in the JSON; empty where there is no figure."""
    figures = (*NAMES, *HABITS, WORDS, "latency_ms", "speedup")
    head = ["system", "seeds", *figures]
    head += [f"{name}_{end}" for name in NAMES for end in ("low", "high", "spread")]
    theirs = [*NAMES, "latency_ms", "speedup"]
    lines = [[*head, *(f"paper_{name}" for name in theirs)]]
    for row in rows:
        cells = [row["system"], row["seeds"], *(row[name] for name in figures)]
        for name in NAMES:
            low, high = row["intervals"].get(name) or (None, None)
            cells += [low, high, row["spread"].get(name)]
        cells += [(row["paper"] or {}).get(name) for name in theirs]
        lines.append(["" if cell is None else cell for cell in cells])
    return as_csv_file(lines)
