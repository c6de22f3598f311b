"""The figures of an evaluation: what they depend on, in a line, and the files they are put in.

Two figures can be compared only if their signatures agree. Evaluations on a test split are logged,
a line for each file of captions: such a split tells the truth only as long as nothing is chosen by
it, and the log shows how often it was scored, which captions were, and what came out.
"""

import csv
import datetime
import fcntl
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic import __version__
from naic.data.readers.captions import ImageCaptions
from naic.errors import WriteError
from naic.files import write_atomically, writing
from naic.images.formats import plain_id
from naic.metrics.cider import DocumentFrequencies
from naic.metrics.score import LEVEL
from naic.tasks.evaluate.options import NAMES, EvaluateOptions, default_log, names_test

if TYPE_CHECKING:  # which signs its figures before there is anything to write
    from naic.tasks.evaluate.run import Evaluation, System

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Corpus:
    """Document frequencies that come from elsewhere than the evaluated images."""

    frequencies: DocumentFrequencies
    digest: str


def digest(images: Sequence[ImageCaptions]) -> str:
    """A short digest of ids and captions, whatever order and format they were read in.

    Ids are taken in their plain form, in which formats agree, unless two images share one.
    """
    ids = [plain_id(image.id) for image in images]
    if len(set(ids)) < len(ids):
        ids = [image.id for image in images]
    rows = sorted((id_, sorted(image.captions)) for id_, image in zip(ids, images, strict=True))
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def sign(
    images: Sequence[ImageCaptions],
    whole: int,
    corpus: Corpus | None,
    metrics: Sequence[str],
    programs: Mapping[str, str],
) -> dict[str, str | int]:
    """The signature of scores on `images`, which are some or all of `whole`.

    Nothing in it is a name that a user gave: equal figures must have equal lines. `programs` are
    those that computed the scores that we do not compute ourselves.
    """
    data = digest(images)
    df = f"evaluated set, {len(images)} images"
    if corpus is not None and corpus.digest != data:
        df = f"data {corpus.digest}, {corpus.frequencies.images} images"
    signature: dict[str, str | int] = {
        "naic": __version__,
        "tokeniser": "ptb (each caption alone)",
        "period": "not counted",
        "df": df,
        "images": len(images),
        "references": sum(len(image.captions) for image in images),
        "data": data,
        **programs,
        "metrics": ",".join(metrics),
    }
    if len(images) < whole:
        signature["subset"] = f"{len(images)} of {whole} images"
    return signature


def signature_line(signature: dict[str, str | int]) -> str:
    """The signature to be printed beside a figure."""
    keys = [f"{key}:{value}" for key, value in signature.items() if key != "naic"]
    return "|".join([f"naic {signature['naic']}", *keys])


def write_reports(evaluation: "Evaluation", options: EvaluateOptions) -> None:
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
    rows = zip(ids, evaluation.system.captions, *columns, strict=True)
    if as_csv:
        return as_csv_file([header, *rows])
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
    systems = [evaluation.system]
    if evaluation.against is not None:
        systems.append(evaluation.against)
    append_lines(path, [_line(evaluation, options.why, system) for system in systems])
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
