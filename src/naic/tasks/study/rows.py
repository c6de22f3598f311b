"""The rows of a study's table: scores, habits, and differences with paired intervals."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from naic.files import write_atomically
from naic.metrics.score import interval
from naic.tasks.evaluate.options import NAMES
from naic.tasks.evaluate.report import as_csv_file
from naic.tasks.reproduce.judging import Scored, ends
from naic.tasks.reproduce.tables import HABITS, HEADS, WORDS

Row = dict[str, Any]
NAME = "study"  # of the files
COLUMNS = ("CIDEr", "Bleu_4", "METEOR", "ROUGE_L", "SPICE")  # of the table for people
_TIE = 1e-12  # two sums of the same numbers may differ in the last bit


def make_row(system: str, folder: str, scored: Scored, note: Mapping[str, Any]) -> Row:
    """A row without its differences; `note` is what the variant's run.json says."""
    runs: list[dict[str, Any]] = list(note.get("runs", {}).values())
    last = runs[-1] if runs else {}
    peaks = [size for own in runs if (size := own.get("peak_gpu_bytes")) is not None]
    return {
        "system": system,
        "folder": folder,
        **{name: scored.values.get(name) for name in (*NAMES, *HABITS, WORDS)},
        "intervals": {
            name: ends([scored.resampled.get(name, [])])
            for name in NAMES
            if scored.values.get(name) is not None
        },
        "entropy": last.get("entropy"),
        "seconds": sum((own["seconds"] for own in runs), note.get("taught_seconds", 0.0))
        if runs
        else None,
        "steps": sum(own["steps"] for own in runs) if runs else None,
        "best_step": last.get("best_step"),
        "peak_gpu_bytes": max(peaks, default=None),
        "device": last.get("device"),
        "changes": note.get("changes", {}),
        "captions": f"captions/{scored.captions.name}",
        "signature": scored.signature,
        "latency_ms": None,
    }


def paired(ours: Scored, theirs: Scored) -> dict[str, dict[str, float | None]]:
    """By metric, how much more we have: the value and its 95 % interval over the images.

    Both were resampled into the same sets of images, so the difference is taken set by set: what
    is hard about an image is hard for both, and does not count.
    """
    found = {}
    for name in NAMES:
        mine, other = ours.values.get(name), theirs.values.get(name)
        if mine is None or other is None:
            continue
        low: float | None = None
        high: float | None = None
        sets = [np.asarray(own.resampled.get(name, [])) for own in (ours, theirs)]
        if len(sets[0]) and len(sets[0]) == len(sets[1]):
            drawn = sets[0] - sets[1]
            drawn[np.abs(drawn) < _TIE] = 0.0
            low, high = interval(drawn)
        found[name] = {"value": mine - other, "low": low, "high": high}
    return found


def write_study(folder: Path, study: Mapping[str, Any]) -> None:
    """study.json, study.md and study.csv; two processes may, and the last one's stay."""
    name = f"{folder / NAME}"
    write_atomically(Path(f"{name}.json"), f"{json.dumps(study, indent=1)}\n".encode())
    write_atomically(Path(f"{name}.md"), markdown(study).encode())
    write_atomically(Path(f"{name}.csv"), _csv(study))


def markdown(study: Mapping[str, Any]) -> str:
    """All its tables, for people."""
    parts = [f"# {study['study']}\n"]
    for split, own in study["splits"].items():
        parts.append(f"## {split}: {own['images']:,} images\n\n{table(own['rows'], study)}\n")
    parts.append(legend(study))
    return "\n".join(parts)


def table(rows: Sequence[Row], study: Mapping[str, Any]) -> str:
    """The rows of one split: times 100 but for entropy, words, minutes and steps."""
    shown = [name for name in COLUMNS if any(row[name] is not None for row in rows)]
    gap = any(row.get("gap") for row in rows)
    timed = any(row["latency_ms"] is not None for row in rows)
    heads = ["", *(HEADS[name] for name in shown), f"C − {study['compare_with']}"]
    heads += ["C − teacher"] if gap else []
    heads += ["repeats %", "bad endings %", "entropy", "words", "minutes", "steps"]
    heads += ["ms"] if timed else []
    lines = ["| " + " | ".join([*heads, "changed"]) + " |", "|---" * (len(heads) + 1) + "|"]
    for row in rows:
        cells = [row["system"], *(percent(row[name]) for name in shown)]
        cells.append(difference(row.get("difference")))
        cells += [difference(row.get("gap"))] if gap else []
        cells += [percent(row["repeats"]), percent(row["bad_endings"])]
        cells += [_number(row["entropy"], "{:.3f}"), _number(row[WORDS], "{:,.0f}")]
        minutes = None if row["seconds"] is None else row["seconds"] / 60
        cells += [_number(minutes, "{:.1f}"), _steps(row)]
        cells += [_number(row["latency_ms"], "{:.2f}")] if timed else []
        lines.append("| " + " | ".join([*cells, changes(row["changes"])]) + " |")
    return "\n".join(lines) + "\n"


def legend(study: Mapping[str, Any]) -> str:
    """What the columns are."""
    return f"""Scores × 100. `C − …`: how much more CIDEr than {study["compare_with"]!r}, or than
the teacher, with its paired 95 % interval over the images (1,000 resampled sets). entropy: of
agents that speak, in nats, with dropout, over the last tenth of the steps. words: how many
different ones all captions have. minutes: of training and validating, what came before included.
Weights are the best by validation CIDEr; `none better`: those that the run began with.
"""


def changes(settings: Mapping[str, Any]) -> str:
    """Settings in a cell of a table."""
    return ", ".join(f"`{name} = {json.dumps(value)}`" for name, value in settings.items())


def difference(found: Mapping[str, Any] | None, metric: str = "CIDEr") -> str:
    """A value with its interval: "+0.8 (0.2 to 1.4)"."""
    own = (found or {}).get(metric)
    if own is None:
        return ""
    text = f"{100 * own['value']:+.1f}"
    if own["low"] is None:
        return text
    return f"{text} ({100 * own['low']:+.1f} to {100 * own['high']:+.1f})"


def percent(value: float | None) -> str:
    """Times 100; n/a: not measured."""
    return "n/a" if value is None else f"{100 * value:.1f}"


def _steps(row: Row) -> str:
    """How many, and whether they were for nothing: its captions are then the start model's."""
    better = "" if row["best_step"] != 0 else ", none better"
    return "" if row["steps"] is None else f"{row['steps']:,}{better}"


def _number(value: float | None, form: str) -> str:
    return "" if value is None else form.format(value)


def _csv(study: Mapping[str, Any]) -> bytes:
    """Fractions, as in the JSON; empty where there is no figure."""
    figures = (*NAMES, *HABITS, WORDS, "entropy", "seconds", "steps", "latency_ms")
    against = [(kind, name) for kind in ("difference", "gap") for name in NAMES]
    head = ["split", "system", *figures]
    head += [f"{kind}_{name}{end}" for kind, name in against for end in ("", "_low", "_high")]
    lines: list[list[Any]] = [[*head, "changed"]]
    for split, own in study["splits"].items():
        for row in own["rows"]:
            cells = [split, row["system"], *(row[name] for name in figures)]
            for kind, name in against:
                found = (row.get(kind) or {}).get(name) or {}
                cells += [found.get(end) for end in ("value", "low", "high")]
            cells.append(json.dumps(row["changes"]))
            lines.append(["" if cell is None else cell for cell in cells])
    return as_csv_file(lines)
