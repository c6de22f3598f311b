"""finetune.md, from finetune/*.json, each of them the report.json of `naic finetune`."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PAGE, RUNS = "finetune.md", "finetune"
SHOWN = 5  # captions of each run


def finetune_pages(results: Path = FOLDER) -> dict[str, Callable[[], str]]:
    """The page, if there are reports."""
    runs = sorted((results / RUNS).glob("*.json"))
    return {PAGE: partial(_page, runs)} if runs else {}


def _page(runs: list[Path]) -> str:
    reports = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in runs}
    lines = "\n".join(_line(name, report) for name, report in reports.items())
    head = f"""# Fine-tuning: what came of it

Made by `make docs` from reports of `naic finetune` with the model that shipped before, in
`{RUNS}`. The images that are scored were held out, but they also chose the best weights, and they
are few: the scores are too optimistic, and differences of some points are noise. Epochs are those
of each stage.

| run | learnt from | scored on | epochs | CIDEr before | after | new words | minutes |
|---|---|---|---|---|---|---|---|
{lines}
"""
    return "\n".join([head, *(_examples(name, report) for name, report in reports.items())])


def _line(name: str, report: dict[str, Any]) -> str:
    both = [report[key] for key in ("before", "after")]
    cider = " | ".join(f"{100 * own['cider']:.1f}" for own in both)
    return (
        f"| {name} | {report['learnt_from']} | {report['held_out']} | {report['epochs']} | "
        f"{cider} | {len(report['new_words'])} | {report['seconds'] / 60:.1f} |"
    )


def _examples(name: str, report: dict[str, Any]) -> str:
    lines = "\n".join(
        f"| {example['id']} | {example['before']} | {example['after']} |"
        for example in report["examples"][:SHOWN]
    )
    return f"""## {name}

The first {SHOWN} of the images held out.

| image | before | after |
|---|---|---|
{lines}
"""
