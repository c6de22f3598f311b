"""The figures of an evaluation as files: JSON for programs, CSV for sheets, a line an image."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from naic.errors import WriteError
from naic.files import write_atomically
from naic.metrics.bootstrap import LEVEL
from naic.tasks.evaluate.options import NAMES, EvaluateOptions
from naic.tasks.evaluate.run import Evaluation, System
from naic.tasks.evaluate.signature import signature_line


def write_reports(evaluation: Evaluation, options: EvaluateOptions) -> None:
    """Write the files that the options name, each whole or not at all.

    Raises:
        WriteError: some could not be written; the others are.
    """
    errors = []
    for option, path in options.outputs:
        try:
            write_atomically(path, _report(evaluation, options, option, path))
        except WriteError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        why = "; ".join(dict.fromkeys(error.why for error in errors))
        raise WriteError(", ".join(error.what for error in errors), why, errors[0].hint)


def _report(evaluation: Evaluation, options: EvaluateOptions, option: str, path: Path) -> bytes:
    if option == "--json":
        text = json.dumps(as_json(evaluation, options), indent=2, ensure_ascii=False)
        return f"{text}\n".encode()
    if option == "--csv":
        return _csv(_score_rows(evaluation))
    return _per_image(evaluation, as_csv=path.suffix.lower() == ".csv")


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
        "source": evaluation.source,
        "results": evaluation.system.name,
        "missing": evaluation.missing,
        "failed": evaluation.failed,
        "problems": len(evaluation.problems),
    }
    if evaluation.against is not None:
        value["against"] = {
            "results": evaluation.against.name,
            **_values(evaluation.against),
            "habits": asdict(evaluation.against.habits),
            "differences": {name: asdict(one) for name, one in evaluation.differences.items()},
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
                ends = (found.low, found.high, found.p)
                row += [other, found.value, *("" if end is None else end for end in ends)]
    rows[0].append("signature")
    for row in rows[1:]:
        row.append(line)
    return rows


def _per_image(evaluation: Evaluation, *, as_csv: bool) -> bytes:
    scores = evaluation.system.scores
    header = ["image_id", "caption", *scores]
    columns = [score.per_image.tolist() for score in scores.values()]
    ids = [image.id for image in evaluation.images]
    rows = zip(ids, evaluation.system.captions, *columns, strict=True)
    if as_csv:
        return _csv([header, *rows])
    lines = (json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows)
    return "".join(lines).encode()


def _csv(rows: Iterable[Sequence[object]]) -> bytes:
    file = io.StringIO(newline="")
    # All text in quotes: left to itself, Python 3.11 forgets them around a carriage return.
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows(rows)
    return file.getvalue().encode()
