"""The log of test evaluations: one line for each file of captions scored on a test split.

A test split tells the truth only as long as nothing is chosen by it. The log shows how often it was
scored, which captions were, and what came out, whether or not somebody liked the figure.
"""

import datetime
import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from naic.files import write_atomically, writing
from naic.tasks.evaluate.signature import signature_line

if TYPE_CHECKING:  # the options check where the log is to be, before there is an evaluation
    from naic.tasks.evaluate.options import EvaluateOptions
    from naic.tasks.evaluate.run import Evaluation, System

TEST = "test"
COMMITTED = Path("docs/results/test-evaluations.jsonl")
ELSEWHERE = Path("test-evaluations.jsonl")


def default_log() -> Path:
    """The committed log where the current folder is a checkout with one, else one of its own."""
    return COMMITTED if COMMITTED.is_file() else ELSEWHERE


def names_test(splits: Sequence[str]) -> bool:
    """Whether one of these splits is a test split."""
    return any(split.casefold() == TEST for split in splits)


def is_test_evaluation(evaluation: "Evaluation", splits: Sequence[str]) -> bool:
    """Whether a figure of the test split came out: it was named, or nothing else was scored."""
    scored = {image.split for image in evaluation.images}
    return names_test(splits) or all(names_test([split]) for split in scored)


def log_test_evaluation(evaluation: "Evaluation", options: "EvaluateOptions") -> Path | None:
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
