"""A process that makes shards; `processes.py` starts it and talks to it.

Started as `python -m naic.tasks.shards.process`. Its first line of standard input is what was asked
for, as JSON, each later one a shard; it ends when its input ends, however the parent dies. Each
line of standard output is an answer: {"ready": [problems]}, then an outcome for each shard; or
{"error": [kind, what, why, hint]}, after which it ends.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from types import FrameType
from typing import Any

from naic.config import structure
from naic.errors import NaicError, Problem
from naic.plugins import use_all
from naic.tasks.shards.folder import Statistics
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Outcome, Worker
from naic.tasks.shards.options import (
    Asked,
    CaptionShards,
    DistilShards,
    PrepareShards,
    Task,
    task_of,
)

_OPTIONS: dict[Task, type[Asked]] = {
    "caption": CaptionShards,
    "prepare": PrepareShards,
    "distil": DistilShards,
}


def as_line(value: Mapping[str, Any]) -> bytes:
    """A message."""
    return json.dumps(value, default=str).encode() + b"\n"


def asked_line(asked: Asked, plugins: list[str]) -> bytes:
    """What was asked for, as the first message."""
    return as_line({"task": task_of(asked), "options": asdict(asked), "plugins": plugins})


def read_asked(line: bytes) -> tuple[Asked, list[str]]:
    """What `asked_line` wrote."""
    content = json.loads(line)
    known = {name: value for name, value in content["options"].items() if value is not None}
    return structure(known, _OPTIONS[content["task"]], "the options"), content["plugins"]


def outcome_line(outcome: Outcome) -> bytes:
    """What came of a shard, as a message."""
    return as_line(asdict(outcome))


def read_outcome(content: Mapping[str, Any]) -> Outcome:
    """What `outcome_line` wrote."""
    statistics, problem = content["statistics"], content["problem"]
    return Outcome(
        Shard(**content["shard"]),
        statistics and Statistics(**statistics),
        problem and Problem(**problem),
    )


_ERRORS = {kind.__name__: kind for kind in NaicError.__subclasses__()}


def error_line(error: NaicError) -> bytes:
    """What stops all, as a message."""
    return as_line({"error": [type(error).__name__, error.what, error.why, error.hint]})


def read_error(content: Mapping[str, Any]) -> NaicError:
    """What `error_line` wrote."""
    kind, *told = content["error"]
    return _ERRORS.get(kind, NaicError)(*told)


def open_answers() -> Callable[[bytes], None]:
    """What sends an answer. Whatever a library prints does not get among them."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def answer(line: bytes) -> None:
        answers.write(line)
        answers.flush()

    return answer


def end_at_sigterm(number: int, frame: FrameType | None) -> None:
    """End at SIGTERM as at an error: what is half-written is removed on the way."""
    raise SystemExit(128 + number)


def main() -> None:
    """Make shards until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to deal with
    signal.signal(signal.SIGTERM, end_at_sigterm)
    answer, tasks = open_answers(), sys.stdin.buffer
    try:
        asked, plugins = read_asked(tasks.readline())
        use_all(plugins)
        problems: list[Problem] = []
        worker = Worker(asked, problems.append)
        answer(as_line({"ready": [asdict(problem) for problem in problems]}))
        for line in tasks:
            answer(outcome_line(worker(Shard(**json.loads(line)))))
    except NaicError as error:
        answer(error_line(error))
    except BrokenPipeError:  # nobody is there to answer
        os._exit(1)


if __name__ == "__main__":
    main()
