"""The figures of an evaluation as files: JSON for programs, CSV for sheets, a line an image."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from naic.files import write_atomically
from naic.metrics.bootstrap import LEVEL
from naic.tasks.evaluate import Evaluation, System
from naic.tasks.evaluate_options import NAMES, EvaluateOptions
from naic.tasks.evaluation_signature import signature_line


def write_reports(evaluation: Evaluation, options: EvaluateOptions) -> None:
    """Write the files that the options name, each whole or not at all."""
    if options.json is not None:
        text = json.dumps(as_json(evaluation, options), indent=2, ensure_ascii=False)
        write_atomically(options.json, f"{text}\n".encode())
    if options.csv is not None:
        write_atomically(options.csv, _csv(_score_rows(evaluation)))
    if options.per_image is not None:
        _write_per_image(evaluation, options.per_image)


def as_json(evaluation: Evaluation, options: EvaluateOptions) -> dict[str, Any]:
    """All figures; the scores themselves under the public evaluation's names, as fractions."""
    value: dict[str, Any] = {
        **_values(evaluation.system),
        "intervals": {name: list(ends) for name, ends in evaluation.intervals.items()},
        "bootstrap": {"resamples": options.bootstrap, "seed": options.seed, "level": LEVEL},
        "habits": {
            "captions": asdict(evaluation.system.habits),
            "references": asdict(evaluation.human),
        },
        "signature": evaluation.signature,
        "signature_line": signature_line(evaluation.signature),
        "results": evaluation.system.name,
        "missing": evaluation.missing,
        "failed": evaluation.failed,
    }
    if evaluation.against is not None:
        found = {name: asdict(difference) for name, difference in evaluation.differences.items()}
        value["against"] = {
            "results": evaluation.against.name,
            **_values(evaluation.against),
            "habits": asdict(evaluation.against.habits),
            "differences": {
                name: {key: row[key] for key in ("value", "low", "high", "p")}
                for name, row in found.items()
            },
        }
    return value


def _values(system: System) -> dict[str, float | None]:
    """Every name is there; what was not computed is null."""
    return {name: system.scores[name].value if name in system.scores else None for name in NAMES}


def _score_rows(evaluation: Evaluation) -> list[list[object]]:
    """A header, then a row a metric; empty cells for what was not measured."""
    line = signature_line(evaluation.signature)
    rows: list[list[object]] = [["metric", "value", "low", "high"]]
    for name, score in evaluation.system.scores.items():
        rows.append([name, score.value, *evaluation.intervals.get(name, ("", ""))])
    if evaluation.against is not None:
        rows[0] += ["against", "difference", "difference_low", "difference_high", "p"]
        for row in rows[1:]:
            name = str(row[0])
            found = evaluation.differences.get(name)
            if found is None:
                row += [""] * 5
            else:
                other = evaluation.against.scores[name].value
                row += [other, found.value, found.low, found.high, found.p]
    rows[0].append("signature")
    for row in rows[1:]:
        row.append(line)
    return rows


def _write_per_image(evaluation: Evaluation, path: Path) -> None:
    scores = evaluation.system.scores
    header = ["image_id", "caption", *scores]
    columns = [score.per_image.tolist() for score in scores.values()]
    ids = [image.id for image in evaluation.images]
    rows = zip(ids, evaluation.system.captions, *columns, strict=True)
    if path.suffix == ".csv":
        write_atomically(path, _csv([header, *rows]))
    else:
        lines = (json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows)
        write_atomically(path, "".join(lines).encode())


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n").writerows(rows)
    return file.getvalue().encode()
