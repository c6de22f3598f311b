"""The file of a study that docs/results/student.md is made from.

python -m benchmarks.study_files runs/coco-study --best combined --out docs/results/student/all.json

It is study.json without the folders of the machine, with the settings of the best variant's runs.
Neither features nor weights are needed. A study without --best adds its table to the page. What
`naic evaluate --json` says of the best student, packed, on `val` and `test` may lie beside it as
shipped-val.json and shipped-test.json.
"""

import argparse
import json
import tomllib
from pathlib import Path
from typing import Any

from benchmarks.ladder_files import without_folders

from naic.train.logs import read_metrics


def gathered(run: Path, best: str | None, note: str = "") -> dict[str, Any]:
    """What the page needs of a study."""
    study: dict[str, Any] = json.loads((run / "study.json").read_text(encoding="utf-8"))
    names = {
        row["system"]: row["folder"] for own in study["splits"].values() for row in own["rows"]
    }
    if best is not None and best not in names:
        raise SystemExit(f"{run}: there is no row {best!r}; there are: {', '.join(names)}")
    study |= {"best": best, "note": note}
    if best is not None:
        runs = json.loads((run / names[best] / "run.json").read_text(encoding="utf-8"))["runs"]
        study["schedule"] = {name: tomllib.loads(own["config"]) for name, own in runs.items()}
    for row in (row for own in study["splits"].values() for row in own["rows"]):
        row["last_validation"] = last_validation(run / row["folder"] / "train")
    found: dict[str, Any] = json.loads(without_folders(json.dumps(study)))
    return found


def last_validation(run: Path) -> float | None:
    """CIDEr at the end of a run, which its best weights may be far above; None: not known."""
    found = [float(line["cider"]) for line in read_metrics(run) if "cider" in line]
    return found[-1] if found else None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--best", help="the row that the page is about")
    parser.add_argument("--note", default="", help="what else a reader should know")
    options = parser.parse_args()
    text = json.dumps(gathered(options.run, options.best, options.note), indent=1)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
