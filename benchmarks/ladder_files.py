"""The files of a reproduction that its page in docs/results is made from.

python benchmarks/ladder_files.py runs/tiny --out docs/results/tiny

Tables, run.json (without the folders of the machine) and a few captions are copied. What the runs
validated along the way becomes curves.json, their settings stages.json, and the figures are drawn
from all of that; --before adds the settings of runs that came before the ladder. The weights are
not needed, so that a run made elsewhere can leave them there. Images that we did not draw, and
what people said of them, are not ours to copy.
"""

import argparse
import json
import re
import shutil
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from naic.tasks.charts import Line, lines
from naic.tasks.reproduce.report import ladder_figure, speed_figure, validations, write_figure
from naic.text.vocabulary import Vocabulary

EXAMPLES = 4
Curves = dict[str, list[list[tuple[float, float]]]]  # by stage: of each seed, epochs and CIDEr
STARTS = ("scratch", "weight-init")


def curves_of(run: Path, stages: list[str]) -> Curves:
    """What each seed's run of a stage validated."""
    found: Curves = {}
    for stage in stages:
        folders = [run / stage, *sorted(run.glob(f"seed-*/{stage}"))]
        found[stage] = [validations(folder) for folder in folders if folder.is_dir()]
    return found


def settings_of(runs: Iterable[Path]) -> dict[str, Any]:
    """By its folder's name, what each run was told, on how many images, and its words."""
    found = {}
    for path in (run / "report.json" for run in runs):
        if path.exists():
            report = json.loads(path.read_text())
            kept = ("vocabulary", "parameters", "steps", "seconds", "data", "scores")
            own = {name: report[name] for name in kept if name in report}
            words = path.with_name("vocab.json")
            own |= {"words": len(Vocabulary.load(words))} if words.exists() else {}
            found[path.parent.name] = own | {"config": tomllib.loads(report["config"])}
    return found


def mean_curve(seeds: list[list[tuple[float, float]]]) -> tuple[tuple[float, float], ...]:
    """All seeds validate at the same steps."""
    return tuple(
        (points[0][0], sum(cider for _, cider in points) / len(points))
        for points in zip(*seeds, strict=True)
    )


def draw(folder: Path, tables: dict[str, Any], curves: Curves) -> None:
    """The figures of the page."""
    figures = folder / "figures"
    write_figure(figures / "ladder.svg", ladder_figure(tables["table1"]))
    write_figure(figures / "latency.svg", speed_figure(tables["table1"]))
    for start in STARTS if "table3" in tables else ():
        named = [
            Line(row["system"].removeprefix(f"{start}, "), mean_curve(curves[row["stage"]]))
            for row in tables["table3"]
            if row["system"].startswith(start) and not row["system"].endswith("XE")
        ]
        title = f"Learning by each baseline ({start}), the mean of the seeds"
        svg = lines(title, "epoch", "validation CIDEr", named)
        write_figure(figures / f"baselines-{start}.svg", svg)


def without_folders(text: str) -> str:
    """Absolute paths cut to their last part: where things lie on one machine tells nobody else."""
    return re.sub(r"""(?<![\w.~-])/(?:[^\s"'/]+/)*([^\s"'/]+)""", r"\1", text)


def copy_examples(run: Path, out: Path) -> None:
    """A few images with their captions, as far as they are ours."""
    examples = json.loads((run / "captions.json").read_text())[:EXAMPLES]
    for example in examples:
        if example["image"].startswith("images/"):  # drawn by us
            (out / example["image"]).parent.mkdir(exist_ok=True)
            shutil.copyfile(run / example["image"], out / example["image"])
        else:
            example["image"] = ""
            for who in ("human", "people"):  # the latter in older files
                example["captions"].pop(who, None)
    (out / "captions.json").write_text(json.dumps(examples, indent=1) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--before", type=Path, nargs="*", default=[], help="folders of runs")
    options = parser.parse_args()
    run, out = options.run, options.out
    out.mkdir(parents=True, exist_ok=True)
    for path in run.glob("table*.json"):
        shutil.copyfile(path, out / path.name)
    text = without_folders((run / "run.json").read_text())
    (out / "run.json").write_text(text)
    if (run / "captions.json").exists():
        copy_examples(run, out)
    paths = sorted(run.glob("table*.json"))
    tables = {path.stem: json.loads(path.read_text()) for path in paths}
    stages = list(dict.fromkeys(row["stage"] for rows in tables.values() for row in rows))
    curves = curves_of(run, stages)
    (out / "curves.json").write_text(json.dumps(curves) + "\n")
    told = settings_of([*options.before, *(run / stage for stage in stages)])
    (out / "stages.json").write_text(without_folders(json.dumps(told, indent=1)) + "\n")
    draw(out, tables, curves)


if __name__ == "__main__":
    main()
