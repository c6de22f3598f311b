r"""One training run in one file: its report, its validations, its speed, what it scored.

python benchmarks/training_run.py runs/coco-teacher-xe --scores beam1.json beam3.json \
    --out docs/results/coco-teacher-xe.json

The scores are what `naic evaluate RUN/captions/val-beamN.json ... --json` wrote. `--name` calls the
run's folder otherwise, for a run that was made elsewhere.
"""

import argparse
import json
import re
import statistics
import tomllib
from pathlib import Path
from typing import Any

from naic.train.logs import Metrics, read_metrics

# What evaluate writes of itself and of the data; a page needs no more of it than these.
KEPT = ("intervals", "bootstrap", "habits", "signature", "signature_line", "source")


def renamed_report(run: Path, name: str) -> dict[str, Any]:
    """The run's report, with its folder called `name` in the command and the settings."""
    text = (run / "report.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    folder = tomllib.loads(found["config"])["out"]
    return found | {key: found[key].replace(folder, name) for key in ("command", "config")}


def validations(lines: list[Metrics]) -> list[Metrics]:
    """Each validation, with the training loss logged last before it."""
    found: list[Metrics] = []
    loss: float | str = 0.0
    for line in lines:
        loss = line.get("loss", loss)
        if "cider" in line:
            found.append(line | {"loss": loss})
    return found


def speed(lines: list[Metrics]) -> dict[str, float]:
    """Images a second, and what the start cost: compiling is in the first line."""
    logged = [line for line in lines if "images_per_second" in line]
    return {
        "images_per_second": statistics.median(float(line["images_per_second"]) for line in logged),
        "log_lines": len(logged),
        "first_line_step": int(logged[0]["step"]),
        "first_line_seconds": float(logged[0]["seconds"]),
    }


def scores(paths: list[Path]) -> dict[str, Any]:
    """What evaluate found, by the beam in the name of the captions' file."""
    found: dict[str, Any] = {}
    for path in paths:
        result = json.loads(path.read_text(encoding="utf-8"))
        named = re.search(r"beam(\d+)", result["results"])
        if named is None or result["failed"] or result["missing"] or result["problems"]:
            raise SystemExit(f"{path}: it is not a whole evaluation of captions/*-beamN.json.")
        values = {key: value for key, value in result.items() if isinstance(value, float)}
        found[named[1]] = {"scores": values} | {key: result[key] for key in KEPT}
    return dict(sorted(found.items()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("--scores", type=Path, nargs="+", required=True, help="evaluate's --json")
    parser.add_argument("--name", help="what to call the folder; by default as it is given")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    options = parser.parse_args()
    lines = read_metrics(options.run)
    result = {
        "report": renamed_report(options.run, options.name or str(options.run)),
        "validations": validations(lines),
        "speed": speed(lines),
        "evaluate": scores(options.scores),
    }
    options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
