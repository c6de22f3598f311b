"""The figures of an evaluation in files, and the log of evaluations on a test split.

That has a line for each file of captions: such a split tells the truth only as long as nothing is
chosen by it, and the log shows how often it was scored, which captions were, and what came out.
"""

import csv
import datetime
import fcntl
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.errors import WriteError
from naic.files import write_atomically, writing
from naic.metrics.score import LEVEL
from naic.tasks.evaluate.options import NAMES, EvaluateOptions, default_log, names_test
from naic.tasks.evaluate.shown import evaluation_page
from naic.tasks.evaluate.signature import signature_line
from naic.text.cells import MARK, text_cell

if TYPE_CHECKING:  # which signs its figures before there is anything to write
    from naic.tasks.evaluate.run import Evaluation, System


def write_reports(evaluation: "Evaluation", options: EvaluateOptions) -> None:
    """Write the files that the options name, each whole or not at all.

    Raises:
        WriteError: some could not be written; the others are.
    """
    errors = []
    for option, path in options.outputs:
        try:
            if option == "--html":
                write_atomically(path, *evaluation_page(evaluation, path, embed=options.embed))
            else:
                write_atomically(path, _report(evaluation, options, option, path))
        except WriteError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        why = "; ".join(dict.fromkeys(error.why for error in errors))
        raise WriteError(", ".join(error.what for error in errors), why, errors[0].hint)


def _report(evaluation: "Evaluation", options: EvaluateOptions, option: str, path: Path) -> bytes:
    if option == "--json":
        text = json.dumps(as_json(evaluation, options), indent=2, ensure_ascii=False)
        return f"{text}\n".encode()
    if option == "--csv":
        return as_csv_file(_score_rows(evaluation))
    return _per_image(evaluation, as_csv=path.suffix.lower() == ".csv")


def as_json(evaluation: "Evaluation", options: EvaluateOptions) -> dict[str, Any]:
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
    if evaluation.also:
        value["also"] = [
            {
                "results": one.system.name,
                **_values(one.system),
                "intervals": {name: list(ends) for name, ends in one.intervals.items()},
                "habits": asdict(one.system.habits),
            }
            for one in evaluation.also
        ]
    return value


def _values(system: "System") -> dict[str, float | None]:
    """Every name is there; what was not computed is null."""
    return {name: system.scores[name].value if name in system.scores else None for name in NAMES}


def _score_rows(evaluation: "Evaluation") -> list[list[object]]:
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


def _per_image(evaluation: "Evaluation", *, as_csv: bool) -> bytes:
    scores = evaluation.system.scores
    header = ["image_id", "caption", *scores]
    columns = [score.per_image.tolist() for score in scores.values()]
    ids = [image.id for image in evaluation.images]
    captions = evaluation.system.captions
    if as_csv:  # for spreadsheets, unlike figures alone
        texts = ([text_cell(text) for text in own] for own in (ids, captions))
        return MARK.encode() + as_csv_file([header, *zip(*texts, *columns, strict=True)])
    rows = zip(ids, captions, *columns, strict=True)
    lines = (json.dumps(dict(zip(header, row, strict=True))) + "\n" for row in rows)
    return "".join(lines).encode()


def as_csv_file(rows: Iterable[Sequence[object]]) -> bytes:
    """Rows as a CSV file."""
    file = io.StringIO(newline="")
    # All text in quotes: left to itself, Python 3.11 forgets them around a carriage return.
    writer = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC)
    writer.writerows(rows)
    return file.getvalue().encode()


def is_test_evaluation(evaluation: "Evaluation", splits: Sequence[str]) -> bool:
    """Whether a figure of the test split came out: it was named, or nothing else was scored."""
    scored = {image.split for image in evaluation.images}
    return names_test(splits) or all(names_test([split]) for split in scored)


def log_test_evaluation(evaluation: "Evaluation", options: EvaluateOptions) -> Path | None:
    """Append a line for each file that was scored; gives the log's path, None if there is no need.

    To be called before anybody sees the figures.

    Raises:
        WriteError: the log cannot be written.
    """
    if not is_test_evaluation(evaluation, options.split):
        return None
    path = options.log or default_log()
    lines = [_line(evaluation, options.why, system) for system in evaluation.systems]
    append_lines(path, lines)
    return path


def _line(evaluation: "Evaluation", why: str, system: "System") -> dict[str, Any]:
    now = datetime.datetime.now(datetime.UTC)
    return {
        "time": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "captions": Path(system.name).name,
        "sha256": system.sha256,
        "references": evaluation.source["references"],
        "data": evaluation.signature["data"],  # of ids and captions, whatever file they came in
        "split": sorted({image.split for image in evaluation.images}),
        "images": len(evaluation.images),
        "scores": {name: round(score.value, 6) for name, score in system.scores.items()},
        "signature": signature_line(evaluation.signature),
        "naic": evaluation.signature["naic"],
        "why": why,
    }


def append_lines(path: Path, lines: Sequence[dict[str, Any]]) -> None:
    """Add lines to a JSONL file; a kill leaves it as it was, and no other writer's line is lost."""
    with writing(path), _alone(path):
        before = path.read_bytes()
        if before and not before.endswith(b"\n"):  # somebody's editor
            before += b"\n"
        write_atomically(path, before, "".join(f"{json.dumps(x)}\n" for x in lines).encode())


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Hold the file against other writers; who waited for one that was replaced asks again."""
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            if os.path.samestat(os.fstat(descriptor), path.stat()):
                yield
                return
        finally:
            os.close(descriptor)
