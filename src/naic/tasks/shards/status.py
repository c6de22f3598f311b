"""Where a run over shards stands, whoever is at work on it."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any

from tyro.conf import FlagCreatePairsOff, Positional, arg

from naic.errors import Problem
from naic.tasks.shards.folder import OutFolder, Statistics, read_plan
from naic.tasks.shards.inputs import Shard, absolute

_READERS = 32  # of small files at once: each waits for a server, not for a processor


@dataclass(frozen=True, slots=True)
class StatusOptions:
    """Which run; the command line fills it in.

    Attributes:
        out: The --out of a run over shards; a path, or a URL.
        images: Count the images, too: a small file is read for each shard.
        json: Print all of it as JSON.
    """

    out: Annotated[Positional[str], arg(metavar="DIR")]
    images: Annotated[bool, FlagCreatePairsOff] = False
    json: Annotated[bool, FlagCreatePairsOff] = False


@dataclass(frozen=True, slots=True)
class JoinOptions:
    """Which run; the command line fills it in.

    Attributes:
        out: The --out of naic shards prepare or distil, on this machine.
    """

    out: Annotated[Positional[str], arg(metavar="DIR")]


@dataclass(frozen=True, slots=True)
class Status:
    """Where a run stands.

    Attributes:
        out: its folder.
        shards: all of them.
        done: those that have an output.
        failed: why those have none that were tried.
        missing: those that nobody has finished yet.
        statistics: of those that are done, if they were asked for.
    """

    out: OutFolder
    shards: Sequence[Shard]
    done: Sequence[Shard]
    failed: Sequence[Problem]
    missing: Sequence[Shard]
    statistics: Sequence[Statistics] = ()

    def as_json(self) -> dict[str, Any]:
        """All of it, for programs."""
        return {
            "task": self.out.task,
            "shards": len(self.shards),
            "done": len(self.done),
            "failed": {problem.where: problem.why for problem in self.failed},
            "missing": [shard.source for shard in self.missing],
            **(self.counted() if self.statistics else {}),
        }

    def counted(self) -> dict[str, float]:
        """Images, errors and seconds of all that is done."""
        own = self.statistics
        return {
            "images": sum(one.images for one in own),
            "errors": sum(one.errors for one in own),
            "seconds": round(sum(one.seconds for one in own), 3),
        }


def status(options: StatusOptions) -> Status:
    """Look at the folder, once.

    Raises:
        StoreError: there is no run.
    """
    out, shards, _ = read_plan(absolute(options.out))
    there = out.look()
    done = [shard for shard in shards if shard.name in there.done]
    left = [shard for shard in shards if shard.name not in there.done]
    with ThreadPoolExecutor(_READERS) as pool:
        failed = list(pool.map(out.problem, [s.name for s in left if s.name in there.failed]))
        counted = [shard.name for shard in done] if options.images else []
        statistics = list(pool.map(out.statistics, counted))
    missing = [shard for shard in left if shard.name not in there.failed]
    return Status(out, shards, done, failed, missing, statistics)
