"""Who makes shards on a node of a Ray cluster: a process with a model of its own."""

import os
from dataclasses import asdict, dataclass, field

from naic.errors import NaicError, Problem
from naic.plugins import use_all
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Worker
from naic.tasks.shards.process import as_line, error_line, outcome_line, read_asked


@dataclass(frozen=True, slots=True)
class Made:
    """What a worker answers: messages as of `process.py`, and which process made it, and where."""

    messages: tuple[bytes, ...]
    process: int = field(default_factory=os.getpid)


class ShardActor:
    """Ray starts it, and starts it again where it was killed; the model is loaded when needed.

    Not at the start: an error there reaches nobody as what it is, and one that is killed each time
    it loads is to be given up as one that is killed later.
    """

    def __init__(self, asked: bytes) -> None:
        self._asked = asked
        self._worker: Worker | None = None

    def ready(self) -> Made:
        """That it is there: a cluster may have no room for all at once."""
        return Made(())

    def make(self, shard: Shard) -> Made:
        """Make a shard, whole or not at all; to make it again does no harm."""
        problems: list[Problem] = []
        try:
            if self._worker is None:
                asked, plugins = read_asked(self._asked)
                use_all(plugins)
                self._worker = Worker(asked, problems.append)
            outcome = self._worker(shard)
        except NaicError as error:
            return Made((error_line(error),))
        told = [as_line({"told": asdict(problem)}) for problem in problems]
        return Made((*told, outcome_line(outcome)))
