"""A process that makes shards of nothing, and that some shards bring down."""

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from naic.errors import Problem, WriteError
from naic.storage import local
from naic.tasks.shards import process
from naic.tasks.shards.folder import OutFolder, Statistics
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Outcome
from naic.tasks.shards.options import Asked, task_of


class OddWorker:
    def __init__(self, asked: Asked, tell: Callable[[Problem], None]) -> None:
        self._out = OutFolder(asked.out, task_of(asked))
        tell(Problem("--forbid", "the model never says cat", ""))

    def __call__(self, shard: Shard) -> Outcome:
        print("a library that prints", flush=True)
        out = local(self._out.output(shard.name))
        if shard.name.startswith("deadly"):  # so many times, then it is made
            left = Path(shard.source)
            count = int(left.read_text())
            if count:
                left.write_text(f"{count - 1}")
                out.with_name(f"{out.name}.{os.getpid()}-1.part").touch()
                os.kill(os.getpid(), signal.SIGKILL)
        if shard.name.startswith("slow"):
            time.sleep(60)
        if shard.name == "full":
            raise WriteError(str(out), "the disk is full", "Free some space.")
        if shard.name == "wrong":
            raise TypeError("a mistake in naic")
        if shard.name == "damaged":
            return Outcome(shard, problem=Problem(shard.source, "it is damaged", "Copy it."))
        out.write_text(f"{os.environ['OMP_NUM_THREADS']}")
        return Outcome(shard, Statistics(shard.source, 3, 1, 0.5))


if __name__ == "__main__":
    process.Worker = OddWorker  # type: ignore[assignment,attr-defined]
    process.main()
