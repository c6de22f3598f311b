"""What is told of a benchmark beside its figures, and where it is kept."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.files import write_atomically
from naic.tasks.benchmark.rows import NAIC, OTHER_MODELS, TEACHER, BenchmarkOptions, Row
from naic.tasks.charts import Bar, Line, bars, lines

if TYPE_CHECKING:
    from naic.tasks.benchmark.models import Contest


_TITLES = {"decode": "Features to words", "whole": "Pixels to words"}


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
    kind = "has NAIC's shape, and weights that nobody trained"
    if options.teacher is not None:
        kind = f"is the captioner in {options.teacher}, which sees with NAIC's backbone"
    found = [
        "decode: features on the device to words on the host. "
        "whole: pixels on the host to words on the host, the backbone included.",
        f"The teacher {kind}. It writes {words} words, and no period "
        "before: its time does not depend on what it says. Without a cache it encodes the image "
        "once, and reads all words so far again for each word.",
        "Ratios are of medians in one runtime, precision and batch; these rows took turns.",
    ]
    if any(row.model in OTHER_MODELS.values() for row in rows):
        found.append(
            "BLIP-base and ViT-GPT2: transformers' generate, eager, as its users run it; weights "
            f"that nobody trained, {words} tokens, pixels ready on the device. Their ratio as used "
            "is to NAIC in its fastest runtime here."
        )
    elif options.against is None and options.parts != "decode":
        found.append("BLIP-base and ViT-GPT2 are timed too after: pip install transformers")
    if any(row.precision == "int8" and row.state == "planned" for row in rows):
        found.append("int8 takes one image at a time, or one on each core: see docs/export.md.")
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


def charts(rows: Sequence[Row]) -> dict[str, str]:
    """SVG by what is put after the file's name; where nothing was timed, there is none."""
    timed = [row for row in rows if row.median_ms is not None]
    found = {}
    for part in ("decode", "whole"):
        own = [row for row in timed if row.part == part]
        if latency := _latency(part, own):
            found[f"-{part}"] = latency
        if ratios := _ratios(part, own):
            found[f"-{part}-batches"] = ratios
    return found


def _latency(part: str, rows: Sequence[Row]) -> str | None:
    """The first runtime that was timed, at the smallest batch; other models run eagerly."""
    first = next((row for row in rows if row.name == NAIC), None)
    if first is None:
        return None
    same = [
        row for row in rows if row.group == first.group and row.model not in OTHER_MODELS.values()
    ]
    others = [
        row for row in rows if row.model in OTHER_MODELS.values() and row.batch == first.batch
    ]
    found = [
        Bar(f"{row.name}{how}", row.median_ms, row.median_ms, row.p99_ms)
        for own, how in ((same, ""), (others, ", eager"))
        for row in own
        if row.median_ms is not None
    ]
    what = "one image" if first.batch == 1 else f"{first.batch} images"
    title = f"{_TITLES[part]}, {what}: {first.runtime}, {first.precision}"
    return bars(
        title, "milliseconds, logarithmic; the line goes to the 99th percentile", found, log=True
    )


def _ratios(part: str, rows: Sequence[Row]) -> str | None:
    """How the teacher's ratio changes with the batch, in the first runtime that was timed."""
    first = next((row for row in rows if row.model == TEACHER), None)
    if first is None:
        return None
    own = [row for row in rows if row.model == TEACHER and row.group[1:] == first.group[1:]]
    curves = []
    for name in dict.fromkeys(row.name for row in own):
        points = [
            (math.log2(row.batch), row.ratio)
            for row in sorted(own, key=lambda row: row.batch)
            if row.name == name and row.ratio is not None
        ]
        if len(points) > 1:
            curves.append(Line(name.removeprefix(f"{TEACHER}, "), tuple(points)))
    if not curves:
        return None
    title = f"{_TITLES[part]}: the teacher's time over NAIC's, {first.runtime}, {first.precision}"
    return lines(title, "images at once, as a power of two", "times", curves)
