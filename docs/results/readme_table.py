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
    paper = {row["system"]: row["paper"] for row in _read("coco/table1.json")}
    study = _read("student/full.json")["splits"]["val"]["rows"]
    teacher = next(row for row in study if row["folder"] == "teacher")
    shipped, second = _read("student/shipped-val.json"), _read("coco/shipped-val.json")
    tested, before = _read("student/shipped-test.json"), _read("coco/shipped.json")
    gpu, cpu = (_read(f"speed/models/{name}.json") for name in ("h200", "cpu"))
    others, light = _read("speed/h200-lite2.json"), _read("light/cpu.json")
    images = shipped["signature"]["images"]
    above = CIDER_BY_IMAGES[images] - CIDER_BY_IMAGES[STANDARD]
    cores = light["machine"]["cores"]
    return f"""
| | CIDEr here | CIDEr in the paper | ms a photo, GPU | ms a photo, {cores} cores | on disk |
|---|---|---|---|---|---|
| **naic**, all words at once | {_score(shipped)} | {_score(paper["+CMAL"])} \
| {_ms(gpu, "new", "graph")} | {_light(light, "onnx:int8")}, \
float32 {_light(light, "onnx:float32")} | {_size():.0f} MB |
| its teacher, word by word, beam 3 | {_score(teacher)} | {_score(paper["AIC beam 3"])} \
| not timed | not timed | |
| the second model, without transitions | {_score(second)} | | {_ms(gpu, "old", "graph")} \
| int8 {_ms(cpu, "old", "onnx")}, float32 {_ms(cpu, "old", "eager")} | {_megabytes(gpu, "old")} MB |
| BLIP-base, beam 3 | not scored here | | {_blip(others)} \
| greedy {_light(light, "BLIP-base, random weights")} | |

CIDEr is that of {images:,} images of MSCOCO's `val`, by which the models were chosen, and about
{above:.1f} above what {STANDARD:,} images would give (by the captions of an earlier model). On the
{tested["signature"]["images"]:,} images of `test` that are at hand naic has {_score(tested)}, the
second model {_score(before)}; the paper's is of all of `test`. The paper has the features of
a detector, where naic has those of CLIP, which had seen 400 million images with captions, and of
DINOv2: the two columns compare no methods ([the whole table](docs/results/coco.md)).
[How the student came near its teacher](docs/results/student.md). Milliseconds are from pixels to
text, one photo at a time, warm: on an {gpu["machine"]["device"]} in float16, naic as a CUDA graph
(without it {_ms(gpu, "new", "eager")} ms), BLIP-base as its users run it, writing
{others["words"]} words; on {cores} cores by ONNX Runtime in int8, which is the default there and
loses no CIDEr ([how fast, how good, how small](docs/results/light.md)), from pixels to words; the
second model's were taken in another run ([all speeds](docs/results/speed.md)).

"""


def _read(name: str) -> Any:  # noqa: ANN401
    return json.loads((FOLDER / name).read_text(encoding="utf-8"))


def _size() -> float:
    """Megabytes of the model inside naic."""
    return sum(path.stat().st_size for path in (ROOT / "src/naic/shipped").iterdir()) / 1e6


def _score(row: dict[str, Any]) -> str:
    return f"{100 * row['CIDEr']:.1f}"


def _ms(run: dict[str, Any], who: str, runtime: str) -> str:
    """Pixels to text at batch 1; on a processor's ONNX runtime in int8."""
    asked = {"batch": 1, "text": True, "runtime": runtime}
    asked |= {"precision": "int8"} if runtime == "onnx" else {}
    row = next(row for row in run["rows"] if asked.items() <= row.items())
    return _rounded(row[who]["median_ms"])


def _light(run: dict[str, Any], runtime: str) -> str:
    """Pixels to words on a processor, as whoever has no PyTorch gets them."""
    row = next(row for row in run["one image"]["rows"] if row["runtime"] == runtime)
    return _rounded(row["median ms"])


def _blip(run: dict[str, Any]) -> str:
    """Another captioner, as its users run it."""
    asked = {"part": "whole", "batch": 1, "model": "BLIP-base", "decoding": "beam 3"}
    row = next(row for row in run["rows"] if asked.items() <= row.items())
    return _rounded(row["median_ms"])


def _rounded(taken: float) -> str:
    return f"{taken:.1f}" if taken < 10 else f"{taken:.0f}"


def _megabytes(run: dict[str, Any], who: str) -> str:
    return f"{run['models'][who]['bytes'] / 1e6:.0f}"
