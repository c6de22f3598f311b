"""What lies in the folder of a run over shards: outputs, what was asked for, what failed and why.

    0001.parquet               the output of the shard 0001.tar; .safetensors or .jsonl of others
    _naic/plan.json            what was asked for, and the list of all shards
    _naic/stats/0001.json      how many images it has, how many could not be used, seconds
    _naic/failed/0002.json     why 0002 has no output; no longer valid once it has
    _naic/teacher.json         whose captions they are, of pseudo captions

There are no locks, as an object store has none. Whoever makes an output makes the same bytes and
puts them there whole: two who do the same shard lose time and nothing else.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from naic.errors import Problem, StoreError
from naic.resume import OTHER_FOLDER, pretty, refuse_changed
from naic.storage import exists, join, list_under, name_of, read_bytes, write_new, write_whole
from naic.stores import shown
from naic.tasks.shards.inputs import Shard, named
from naic.tasks.shards.options import Task

FORMAT = "naic-shards-1"
OUTPUTS: dict[Task, str] = {"caption": ".parquet", "prepare": ".safetensors", "distil": ".jsonl"}
_OWN = "_naic"  # what reads a folder of Parquet passes over names that begin like this
TEACHER = f"{_OWN}/teacher.json"  # of pseudo captions: whose they are, for the index
_PLAN, _STATISTICS, _FAILED = "plan.json", "stats", "failed"


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of a shard that was made: what is not in its bytes.

    Attributes:
        source: the shard.
        images: how many it has.
        errors: how many of them could not be used.
        seconds: from its first byte to the last of its output, not yet written.
    """

    source: str
    images: int
    errors: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Listed:
    """What one listing of the folder tells, by the names of the shards."""

    done: frozenset[str]
    failed: frozenset[str]  # some of which may be done by now


@dataclass(frozen=True, slots=True)
class OutFolder:
    """The folder of a run, here or in a store.

    Attributes:
        where: a path, or a URL.
        task: a key of `OUTPUTS`.
    """

    where: str
    task: Task

    def output(self, name: str) -> str:
        """Where the output of a shard is, once it is whole."""
        return join(self.where, f"{name}{OUTPUTS[self.task]}")

    def look(self) -> Listed:
        """One listing of all that is there; a folder in this one may be another run's."""
        suffix = OUTPUTS[self.task]
        there = list_under(self.where, [suffix, ".json"])
        return Listed(
            _names(there, join(self.where, ""), suffix),
            _names(there, join(self.where, _OWN, _FAILED), ".json"),
        )

    def write_statistics(self, name: str, statistics: Statistics) -> None:
        """Keep what is known of a shard beside its output."""
        write_whole(join(self.where, _OWN, _STATISTICS, f"{name}.json"), pretty(asdict(statistics)))

    def statistics(self, name: str) -> Statistics:
        """What `write_statistics` kept."""
        return Statistics(**self._read(_STATISTICS, name))

    def write_problem(self, name: str, problem: Problem) -> None:
        """Note why a shard has no output."""
        write_whole(join(self.where, _OWN, _FAILED, f"{name}.json"), pretty(asdict(problem)))

    def problem(self, name: str) -> Problem:
        """What `write_problem` noted."""
        return Problem(**self._read(_FAILED, name))

    def _read(self, kind: str, name: str) -> dict[str, Any]:
        path = join(self.where, _OWN, kind, f"{name}.json")
        try:
            found: dict[str, Any] = json.loads(read_bytes(path))
        except ValueError as error:
            raise StoreError(path, f"cannot be read ({error})", "Delete it.") from error
        return found


def _names(there: Sequence[str], folder: str, suffix: str) -> frozenset[str]:
    """What is directly in a folder and ends so, without that."""
    start = f"{folder.rstrip('/')}/"
    found = (one.removeprefix(start) for one in there if one.startswith(start))
    return frozenset(
        one.removesuffix(suffix) for one in found if one.endswith(suffix) and "/" not in one
    )


def keep_plan(folder: OutFolder, asked: Mapping[str, Any], shards: Sequence[Shard]) -> None:
    """Write down what is asked of a folder, or refuse one of which something else was asked.

    Many machines may come at once: each writes the plan unless there is one, and reads what it is
    then.

    Raises:
        ConfigError: something else was asked of the folder, or of other shards.
        StoreError: it holds something else.
    """
    # Without what signs a URL: that is no concern of who reads the folder, and soon another one.
    sources = [shown(shard.source) for shard in shards]
    plan = {"format": FORMAT, "task": folder.task, **asked, "list of shards": sources}
    path = join(folder.where, _OWN, _PLAN)
    if not exists(path):
        there = list_under(folder.where, [""])
        others = [
            name for name in there if f"/{_OWN}/" not in name
        ]  # a killed writer's half is ours
        if others and not exists(path):  # else somebody wrote both meanwhile
            why = f"the folder is not empty ({name_of(others[0])}) and holds no shards of naic"
            raise StoreError(folder.where, why, OTHER_FOLDER)
        write_new(path, pretty(plan))
    before = _read_plan(folder.where)
    refuse_changed(folder.where, before, json.loads(json.dumps(plan)))


def read_plan(where: str) -> tuple[OutFolder, list[Shard], dict[str, Any]]:
    """The folder of a run, all its shards, and what was asked for.

    Raises:
        StoreError: there is no such run.
    """
    if not exists(join(where, _OWN, _PLAN)):
        why = "there is no run over shards in this folder"
        raise StoreError(where, why, "Name the --out of a `naic shards`.")
    plan = _read_plan(where)
    return OutFolder(where, plan["task"]), [*map(named, plan["list of shards"])], plan


def _read_plan(where: str) -> dict[str, Any]:
    path = join(where, _OWN, _PLAN)
    try:
        plan: dict[str, Any] = json.loads(read_bytes(path))
        if plan["format"] != FORMAT or plan["task"] not in OUTPUTS:
            raise ValueError(f"its format is {plan['format']!r}")  # noqa: TRY301
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(path, f"is no plan of naic's ({error})", OTHER_FOLDER) from error
    return plan
