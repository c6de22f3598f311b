"""house.md: the sources before and after they were put in order, by benchmarks/house.py.

house.json is its run file; house-h200.json, where it is there, is that of benchmarks/house_gpu.py.
"""

import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
Found = dict[str, Any]
MOST_FILES = 45  # that a reader of `naic caption` should have to open
COMMANDS = {
    "caption": "`naic caption` of one image",
    "train": "a step of `naic train` with CMAL",
    "reproduce": "a row of `naic reproduce`, quick",
}
STEPS = {
    "caption": "a caption of one image",
    "teacher_xe": "a step of the teacher by cross-entropy",
    "cmal": "a step of CMAL",
}


def house_pages() -> dict[str, Callable[[], str]]:
    """The page, where its run file is there."""
    if not (FOLDER / "house.json").exists():
        return {}
    return {"house.md": lambda: house(_read("house.json"), _read("house-h200.json"))}


def _read(name: str) -> Found:
    path = FOLDER / name
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def house(run: Found, gpu: Found) -> str:
    """The whole page."""
    head = """# The sources before and after they were put in order

Made by `make docs` from `house.json`, which is what
`python benchmarks/house.py --coco "$NAIC_COCO" --out docs/results/house.json` found, and from
`house-h200.json`, of `benchmarks/house_gpu.py` on a GPU.
"""
    makers: dict[str, Callable[[Any], str]] = {
        "sizes": _sizes,
        "entered": _entered,
        "speed": _speed,
        "captions": _captions,
        "stores": _stores,
    }
    parts = [head]
    for name, make in makers.items():
        if name in run:
            parts.append(make(run[name]) + "\n" + _made(run["made"][name]))
        if name == "speed" and gpu:
            parts.append(_gpu(gpu))
    return "\n".join(parts)


def _made(made: Found) -> str:
    return f"Commits {made['old']} and {made['new']}; {made['machine']}.\n"


def _sizes(found: Found) -> str:
    titles = {
        "files": "Python files in `src`",
        "lines": "lines",
        "median_file": "lines of the median file",
        "longest_file": "longest file",
        "files_over_300": "files over 300 lines",
        "functions": "functions",
        "median_function": "lines of the median function",
        "longest_function": "longest function",
    }

    def cell(value: Any) -> str:  # noqa: ANN401
        if isinstance(value, list):
            where, _, name = value[0].partition(": ")
            return f"{value[1]} (`{name or where}`)"
        return f"{value:,.0f}"

    rows = "\n".join(
        f"| {title} | {cell(found['old'][name])} | {cell(found['new'][name])} |"
        for name, title in titles.items()
    )
    return f"""## Size

Counted at the last commit of the restructuring itself: the vision transformers among the backbones,
which came at the same time, are not in it.

| | before | after |
|---|---|---|
{rows}
"""


def _entered(found: Found) -> str:
    rows = []
    for name, what in COMMANDS.items():
        old, new = (len(found[name][side]) for side in ("old", "new"))
        rows.append(f"| {what} | {old} | {new} | {100 * (new - old) / old:+.0f} % |")
    table = "\n".join(rows)
    listed = ", ".join(f"`{path}`" for path in found["caption"]["new"])
    return f"""## Files to read

The files of `src/naic` in which a function is entered when a command runs (`sys.setprofile`; a
class body counts, a module that is only imported does not): what a reader who follows the command
has to open. The aim: at most {MOST_FILES} for a caption, a third fewer for the others. The row of
`reproduce` is +CMAL with all the stages that it needs, on few scenes.

| | before | after | |
|---|---|---|---|
{table}

A caption now enters: {listed}.
"""


def _row(what: str, times: Found, unit: str = "ms") -> str:
    """Both sides' medians with their spread, and the ratio beside the noise."""
    old, new = times["old"], times["new"]
    before, after = statistics.median(old), statistics.median(new)
    noise = max((max(side) - min(side)) / statistics.median(side) for side in (old, new))
    ratio = after / before
    verdict = "within" if abs(ratio - 1) <= noise else "**beyond**" if ratio > 1 else "faster"
    return (
        f"| {what} | {_spread(old)} {unit} | {_spread(new)} {unit} | {ratio:.3f} "
        f"| ±{100 * noise:.1f} % | {verdict} |"
    )


def _spread(times: list[float]) -> str:
    return f"{statistics.median(times):.3g} ({min(times):.3g} to {max(times):.3g})"


HEAD = """| | before | after | ratio | noise | |
|---|---|---|---|---|---|
"""


def _speed(found: Found) -> str:
    rounds = len(found["caption"]["old"])
    rows = "\n".join(_row(what, found[name]) for name, what in STEPS.items())
    return f"""## Speed on a processor

Both sides in turns in one run, {rounds} turns each; who comes first changes from turn to turn. A
turn is the median of twenty captions, or of the steps of a short run of `naic train` (25 drawn
scenes a step, width 256). Milliseconds: the median of the turns, and their range. Noise: the range
over the median, of the side where it is wider.

{HEAD}{rows}
"""


def _gpu(found: Found) -> str:
    rows = [
        _row(f"{size}: {row}", sides)
        for size, models in found["times"].items()
        for row, sides in models.items()
        if row.startswith("NAIC")
    ]
    table = "\n".join(rows)
    machine, commits = found["machine"], found["commits"]
    turns = len(next(iter(next(iter(found["times"].values())).values()))["old"])
    return f"""## Speed on a GPU

Decoding at batch 1 (features on the device to words on the host) as `naic benchmark` times it,
runtime {found["runtime"]}; a process for each turn, {turns} turns each side.

{HEAD}{table}

Commits {commits["old"]} and {commits["new"]}; {machine["device"]}, torch
{machine["packages"]["torch"]}.
"""


def _captions(found: Found) -> str:
    different = "\n".join(f"| {name} | {old} | {new} |" for name, old, new in found["different"])
    table = f"\n| image | before | after |\n|---|---|---|\n{different}\n" if different else ""
    return f"""## Captions

The shipped model on {found["images"]:,} validation images, float32 on a processor:
**{found["equal"]:,} of {found["images"]:,} captions are word for word the same**. The confidence
of a caption differs by at most {found["confidence_apart"]:.4f}.
{table}"""


def _stores(found: list[Found]) -> str:
    rows = "\n".join(
        f"| {check['what']} | {'yes' if check['holds'] else '**no**'} |" for check in found
    )
    return f"""## What the old commit wrote

Written by the old commit, read by the new one:

| | |
|---|---|
{rows}
"""
