"""finetune.md, from finetune/*.json (finetune_trials.py) and finetune-recipe/*.json."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
PAGE, RUNS, RECIPE = "finetune.md", "finetune", "finetune-recipe"
SHOWN = 3  # captions of each trial
Run = dict[str, Any]


def finetune_pages(results: Path = FOLDER) -> dict[str, Callable[[], str]]:
    """The page, if there are run files."""
    runs = _read(results / RUNS)
    return {PAGE: partial(_page, runs, _read(results / RECIPE))} if runs else {}


def _read(folder: Path) -> list[Run]:
    files = sorted(folder.glob("*.json")) if folder.is_dir() else []
    texts = [path.read_text(encoding="utf-8") for path in files]
    return [json.loads(text) for text in texts if text]  # an empty one is of a trial that goes on


def _page(runs: list[Run], recipe: list[Run]) -> str:
    of = {
        kind: [run for run in runs if run["trial"] == kind] for kind in ("style", "words", "domain")
    }
    parts = [
        _styles(of["style"]) if of["style"] else "",
        *(_words(run) for run in of["words"]),
        _domains(of["domain"]) if of["domain"] else "",
        _recipe(recipe) if recipe else "",
    ]
    head = """# Fine-tuning: what came of it

Made by `make docs` from the files of `benchmarks/finetune_trials.py` and `finetune_recipe.py`,
which say how they are made. Photos are Flickr8k's, which the model inside naic has not learnt from:
those of its training list are learnt from, those of its dev list captioned afterwards; nothing but
the recipe is chosen by the latter. One machine of 2 cores, without a GPU.
"""
    return "\n".join([head, *filter(None, parts)])


def _styles(runs: list[Run]) -> str:
    lines = "\n".join(
        f"| {run['name']} | {run['report']['style']} | {run['in_style']:.1%} | "
        f"{run['same_words']:.1%} | {run['report']['kept']} | {run['seconds'] / 60:.1f} |"
        for run in runs
    )
    shown = "\n".join(
        f"| {run['name']} | {before} | {after} |"
        for run in runs
        for after, before in run["examples"][:SHOWN]
    )
    learnt = runs[0]["report"]["learnt_from"] + runs[0]["report"]["held_out"]
    return f"""## A style

{learnt} photos, each with what the model says of it in a fixed style of sentence; then
{runs[0]["unseen"]} other photos are captioned. "Same words" is the share of these whose caption has
the very words, in the same order, that the model said before, articles left out: more than the same
nouns. "Corrected": every third caption is one that people wrote. Minutes are those of the command.

| style | found | in the style | same words | in the model | minutes |
|---|---|---|---|---|---|
{lines}

| style | before | after |
|---|---|---|
{shown}
"""


def _words(run: Run) -> str:
    report = run["report"]
    lines = "\n".join(
        f"| {word} | {', '.join(report['instead_of'][word])} | {run['learnt'][word]} | "
        f"{run['unseen'][word]} | {share:.1%} |"
        for word, share in run["said"].items()
    )
    shown = "\n".join(
        f"- {word}: {'; '.join(own[:SHOWN])}" for word, own in run["examples"].items()
    )
    return f"""## New words

Two words that the model does not know, in one caption by people for each photo. Of {run["others"]}
photos that show neither, {run["elsewhere"]:.1%} are said to. {run["seconds"] / 60:.1f} minutes;
{report["verdict"]}.

| word | learnt in the place of | photos learnt from | unseen photos that show it | said of these |
|---|---|---|---|---|
{lines}

{shown}
"""


def _domains(runs: list[Run]) -> str:
    runs = sorted(runs, key=lambda run: (run["photos"], run["seed"]))
    lines = "\n".join(_domain(run) for run in runs)
    dev, coco = (100 * runs[0][name]["before"] for name in ("dev", "coco"))
    return f"""## A domain

Photos with five captions by people each, without a style. CIDEr on the 1,000 photos of the dev
list, which the command does not see, and on 1,000 of MSCOCO's `val`; {dev:.1f} and {coco:.1f}
before. Features come from the model's int8 graph, as they do for `naic caption` on a processor;
minutes are without them.

| photos | seed | dev | more | MSCOCO | more | minutes | said of the photos kept aside |
|---|---|---|---|---|---|---|---|
{lines}
"""


def _domain(run: Run) -> str:
    cells = []
    for name in ("dev", "coco"):
        after, before = (100 * run[name][key] for key in ("after", "before"))
        cells += [f"{after:.1f}", f"{after - before:+.1f}"]
    verdict = run["report"]["verdict"]
    return (
        f"| {run['photos']:,} | {run['seed']} | {' | '.join(cells)} | "
        f"{run['seconds'] / 60:.0f} | {verdict} |"
    )


def _recipe(runs: list[Run]) -> str:
    start, rows = runs[0], runs[1:]
    steps, before = rows[0]["cmal"] + rows[0]["xe"], 100 * start["cider"]
    lines = "\n".join(
        f"| {run['name']} | {100 * run['cider']:.1f} | {100 * run['cider'] - before:+.1f} | "
        f"{run['repeats']:.1%} | {run['words']} | {run['weights'] / 1e6:.1f} | "
        f"{run['seconds']:.0f} |"
        for run in rows
    )
    return f"""## The recipe

One change at a time: {start["photos"]} photos with five captions each, {steps} steps
of {start["batch"]} photos, one seed, scored on {start["judged"]} of the dev list, where the model
as it is has {before:.1f} and {start["words"]} different words. Differences of a point
are chance. Seconds were taken while other programs ran.

| | CIDEr | more | repeats | different words | weights that learn, millions | seconds |
|---|---|---|---|---|---|---|
{lines}
"""
