"""The table of results in the README, from run files: the README itself is written by a person."""

import json
from pathlib import Path
from typing import Any

from coco_page import CIDER_BY_IMAGES, STANDARD  # type: ignore[import-not-found]

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
README = ROOT / "README.md"
BEGIN = "<!-- results: made by `make docs` from the run files of docs/results -->\n"
END = "<!-- /results -->"


def readme() -> str:
    """The README as it is, with the table of today."""
    before, begin, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, end, after = rest.partition(END)
    return before + begin + table() + end + after


def table() -> str:
    """CIDEr beside the paper's, milliseconds beside another captioner's, size."""
    rows = {row["system"]: row for row in _read("coco/table1.json")}
    shipped = _read("coco/shipped.json")
    teacher, student = rows["AIC beam 3"], rows["+CMAL"]
    gpu, cpu = (_read(f"speed/{name}-shipped.json") for name in ("h200", "cpu"))
    images = shipped["signature"]["images"]
    above = CIDER_BY_IMAGES[images] - CIDER_BY_IMAGES[STANDARD]
    own, word_by_word, blip = ("NAIC", "parallel, as text"), ("teacher", "beam 3"), "BLIP-base"
    cores = cpu["machine"]["cores"]
    return f"""
| | CIDEr here | CIDEr in the paper | ms a photo, GPU | ms a photo, {cores} cores | on disk |
|---|---|---|---|---|---|
| **naic**, all words at once | {_score(shipped)} | {_score(student["paper"])} \
| {_ms(gpu, *own, "graph")} | {_ms(cpu, *own, "eager")} | {_megabytes()} MB |
| its teacher, word by word, beam 3 | {_score(teacher)} | {_score(teacher["paper"])} \
| {_ms(gpu, *word_by_word, "graph")} | {_ms(cpu, *word_by_word, "eager")} | |
| BLIP-base, beam 3 | not scored here | | {_ms(gpu, blip, "beam 3", "eager")} | not timed | |

CIDEr is that of {images:,} images of MSCOCO's `test`, about {above:.1f} above what the standard
{STANDARD:,} images would give; the paper has detected regions as features, where naic has a grid
([the whole table](docs/results/coco.md)). Milliseconds are from pixels to text, one photo at a
time, warm: on an {gpu["machine"]["device"]} in float16, naic and its teacher as CUDA graphs
(without them {_ms(gpu, *own, "eager")} and {_ms(gpu, *word_by_word, "eager")} ms), BLIP-base as its
users run it; the teacher and BLIP-base write {gpu["words"]} words
([all speeds](docs/results/speed.md)).

"""


def _read(name: str) -> Any:  # noqa: ANN401
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def _score(row: dict[str, Any]) -> str:
    return f"{100 * row['CIDEr']:.1f}"


def _ms(run: dict[str, Any], model: str, decoding: str, runtime: str) -> str:
    """Pixels to words at batch 1; a model that writes word by word keeps a cache."""
    asked = {"part": "whole", "batch": 1, "model": model, "decoding": decoding, "runtime": runtime}
    asked |= {"cache": "none" if model == "NAIC" else "on"}
    row = next(row for row in run["rows"] if asked.items() <= row.items())
    taken = float(row["median_ms"])
    return f"{taken:.1f}" if taken < 10 else f"{taken:.0f}"


def _megabytes() -> str:
    files = (ROOT / "src" / "naic" / "shipped").iterdir()
    return f"{sum(path.stat().st_size for path in files) / 1e6:.0f}"
