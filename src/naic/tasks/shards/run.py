"""A run over shards: what is asked, which shards are left, and who makes them."""

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from naic.errors import Problem, StoreError
from naic.files import TEMPORARY_SUFFIX
from naic.progress import SILENT, Callbacks, Progress
from naic.resume import locked
from naic.storage import is_remote, local
from naic.tasks.shards.folder import OutFolder, keep_plan
from naic.tasks.shards.inputs import Shard, absolute, find_shards, share
from naic.tasks.shards.joining import join_store
from naic.tasks.shards.making import Outcome
from naic.tasks.shards.options import Asked, task_of
from naic.tasks.shards.processes import in_processes
from naic.tasks.shards.ray_engine import on_ray
from naic.tasks.shards.requests import request

_PATIENCE = 600.0  # seconds for another run to sweep a folder of any size


@dataclass(slots=True)
class ShardsDone:
    """What came of a run.

    Attributes:
        shards: how many this run answers for.
        resumed: those of them that were whole before.
        made: those that it made.
        failed: those that have no output, and why.
        images: of the shards that it made.
        errors: images among them that could not be used.
        seconds: how long it took.
        joined: whether all shards of the folder were there in the end, and it became a store.
    """

    shards: int
    resumed: int = 0
    made: int = 0
    failed: list[Problem] = field(default_factory=list)
    images: int = 0
    errors: int = 0
    seconds: float = 0.0
    joined: bool = False

    def count(self, outcome: Outcome) -> None:
        """Count a shard that has ended."""
        if outcome.problem is not None:
            self.failed.append(outcome.problem)
        elif outcome.statistics is not None:
            self.made += 1
            self.images += outcome.statistics.images
            self.errors += outcome.statistics.errors


def run_shards(asked: Asked, callbacks: Callbacks = SILENT) -> ShardsDone:
    """Make the outputs of all shards, or of a share of them, that are not there.

    Raises:
        ConfigError: something else was asked of the folder, or cannot be asked.
        NaicError: the model cannot be loaded, the disk is full.
    """
    started = time.perf_counter()
    asked.check()
    out = OutFolder(absolute(asked.out), task_of(asked))
    shards = find_shards(asked.inputs, out.where)
    own = share(asked.shard, shards)
    if asked.dry_run:
        there = out.look().done
        return ShardsDone(len(own), resumed=sum(shard.name in there for shard in own))
    keep_plan(out, request(asked), shards)
    with _swept(out):
        there = out.look().done
        left = [shard for shard in own if shard.name not in there]
        done = ShardsDone(len(own), len(own) - len(left))
        if left:
            _make(asked, out, left, done, callbacks)
        if out.task != "caption" and not is_remote(out.where):
            there = out.look().done
            done.joined = all(shard.name in there for shard in shards)
            if done.joined:
                join_store(out, shards)
    done.seconds = time.perf_counter() - started
    return done


def _make(
    asked: Asked, out: OutFolder, left: Sequence[Shard], done: ShardsDone, callbacks: Callbacks
) -> None:
    """Have the shards that are left made, and tell how far that is."""
    with callbacks.progress("shards") as update:

        def count(outcome: Outcome) -> None:
            done.count(outcome)
            if outcome.problem is not None:
                callbacks.problem(outcome.problem)
            ended = done.resumed + done.made + len(done.failed)
            update(Progress(ended, done.shards, len(done.failed)))

        update(Progress(done.resumed, done.shards))
        if asked.engine == "ray":
            on_ray(asked, out, left, count, callbacks.problem, callbacks.say)
        else:
            in_processes(asked, out, left, count, callbacks.problem)


@contextlib.contextmanager
def _swept(out: OutFolder) -> Iterator[None]:
    """Remove what killed runs left half-written, unless another run is at work in the folder.

    An object store has nothing of that kind. Runs that know of each other hold a folder together;
    where the file system has no locks, nothing is removed.
    """
    if is_remote(out.where):
        yield
        return
    folder = local(out.where)
    _sweep(folder)
    try:
        with contextlib.ExitStack() as held:
            _hold(folder, held)
            yield
    finally:
        _sweep(folder)  # workers on another machine are not seen to end


def _hold(folder: Path, held: contextlib.ExitStack) -> None:
    """Hold the folder with other runs; one that sweeps it just now is waited for.

    Who went on without would have its own halves swept away in the middle of writing them.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            held.enter_context(locked(folder, shared=True))
        except StoreError as error:
            if error.__cause__ is not None:  # no locks there: nobody sweeps
                return
            if time.monotonic() > until:
                raise
        else:
            return


def _sweep(folder: Path) -> None:
    with contextlib.suppress(StoreError), locked(folder):
        for path in folder.rglob(f"*{TEMPORARY_SUFFIX}"):
            path.unlink(missing_ok=True)
