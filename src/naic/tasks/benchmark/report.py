"""What is told of a benchmark beside its figures, and where it is kept."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.files import write_atomically
from naic.tasks.benchmark.charts import charts
from naic.tasks.benchmark.options import BenchmarkOptions
from naic.tasks.benchmark.rows import RIVALS, Row

if TYPE_CHECKING:
    from naic.tasks.benchmark.models import Contest


@dataclass(frozen=True, slots=True)
class Report:
    """All that is known of a run; the JSON file has it as it is.

    Attributes:
        naic: the version.
        command: what was asked for.
        machine: what it ran on.
        model: what was timed: its shape and its weights.
        words: how many the teacher and the others wrote.
        seconds: how long each figure was timed.
        notes: how to read the figures.
        finished: whether all rows had their turn.
        rows: the figures.
    """

    naic: str
    command: str
    machine: dict[str, Any]
    model: dict[str, Any]
    words: int
    seconds: float
    notes: list[str]
    finished: bool
    rows: list[Row]


def describe(options: BenchmarkOptions, contest: "Contest") -> dict[str, Any]:
    """What was timed."""
    loaded = contest.loaded
    settings, shape = loaded.settings, asdict(loaded.settings.model)
    name: str = options.size
    if name == "shipped":
        name = "the model inside naic" if options.model is None else str(options.model)
    _, regions, features = contest.pairs["decode"].inputs(1).shape
    return {
        "name": name,
        "weights": sum(parameter.numel() for parameter in loaded.whole.parameters()),
        **{
            key: shape[key] for key in ("encoder_layers", "decoder_layers", "width") if key in shape
        },
        "agents": loaded.whole.length,
        "words": settings.words,
        "pixels": loaded.pixels,
        "sight": loaded.whole.spec.backbone(settings.model) or settings.backbone,
        "features": f"{regions} x {features}",
        "teacher": None if options.teacher is None else str(options.teacher),
    }


def notes(options: BenchmarkOptions, rows: Sequence[Row]) -> list[str]:
    """How to read the figures."""
    words = options.words
    weights = "weights that nobody trained"
    if options.teacher is not None:
        weights = f"the weights of {options.teacher}"
    found = [
        "decode: features on the device to words on the host. "
        "whole: pixels on the host to words on the host, the backbone included.",
        f"The teacher has NAIC's shape, and {weights}. It writes {words} words, and no period "
        "before: its time does not depend on what it says. Without a cache it encodes the image "
        "once, and reads all words so far again for each word.",
        "Ratios are of medians in one runtime, precision and batch; these rows took turns.",
    ]
    if any(row.model in RIVALS.values() for row in rows):
        found.append(
            "BLIP-base and ViT-GPT2: transformers' generate, eager, as its users run it; weights "
            f"that nobody trained, {words} tokens, pixels ready on the device. Their ratio as used "
            "is to NAIC in its fastest runtime here."
        )
    elif options.against is None and options.parts != "decode":
        found.append("BLIP-base and ViT-GPT2 are timed too after: pip install transformers")
    if any(row.precision == "int8" and row.state == "planned" for row in rows):
        found.append("int8 takes one image at a time, whatever the batch: see docs/export.md.")
    if any(row.runtime == "compile" for row in rows):
        found.append("compile: NAIC in one piece; of the teacher, the step of a word.")
    return found


def save(out: Path, report: Report) -> None:
    """Write all figures so far; when there are no more to come, the charts too."""
    text = json.dumps(asdict(report), indent=1, ensure_ascii=False) + "\n"
    write_atomically(out, text.encode())
    if report.finished:
        for ending, svg in charts(report.rows).items():
            write_atomically(out.with_name(f"{out.stem}{ending}.svg"), svg.encode())
