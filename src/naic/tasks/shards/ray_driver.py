"""The process that speaks with Ray; `ray_engine.py` starts it and listens to it.

Started as `python -m naic.tasks.shards.ray_driver`. It is a process of its own because Ray ends the
process that uses it where the head of the cluster is gone, in the middle of whatever that does.
The first line of its input is what was asked for, as of `process.py`, each later one a shard, until
an empty one; it ends when its input ends. What it answers are lines, too: {"cluster": text},
{"told": problem}, an outcome for each shard, {"given up": shard}, {"replaced": shard}, or an error.
"""

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from naic.errors import ClusterError, NaicError
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.options import Asked
from naic.tasks.shards.process import (
    as_line,
    end_at_sigterm,
    error_line,
    open_answers,
    read_asked,
)
from naic.tasks.shards.processes import TRIES
from naic.tasks.shards.ray_actor import Made, ShardActor
from naic.tasks.shards.ray_cluster import Cluster, Room, join, room

_LOOK: Final = 1.0  # seconds between looks at the head while nothing comes
_WAITING: Final = 30.0  # seconds without a worker after which that is told
_PATIENCE: Final = 20.0  # seconds for which a head may not answer: one with a memory may come back


class Lead:
    """Hands a shard at a time to each worker that is there."""

    def __init__(
        self,
        cluster: Cluster,
        asked: bytes,
        space: Room,
        shards: Sequence[Shard],
        answer: Callable[[bytes], None],
    ) -> None:
        import ray

        self._ray, self._cluster, self._answer = ray, cluster, answer
        environment = {"PYTHONPATH": _python_path()}
        if not space.gpus:
            environment["OMP_NUM_THREADS"] = "1"  # as `processes.Crew` has it, whatever a node says
        # Ray itself starts workers anew wherever there is room, and their shards with them.
        kind: Any = ray.remote(
            num_gpus=space.gpus,
            num_cpus=space.cores,
            max_restarts=-1,
            max_task_retries=TRIES - 1,
            runtime_env={"env_vars": environment},
        )(ShardActor)
        self._kind, self._asked = kind, asked
        self._left = list(reversed(shards))
        self._busy: dict[Any, tuple[Any, Shard | None]] = {}  # what is awaited: whose, of what
        self._processes: dict[Any, int] = {}  # of each worker: another one has taken its place
        for _ in range(space.workers):
            self._begin()

    def run(self) -> None:
        """Have all shards made.

        Raises:
            ClusterError: the head of the cluster is gone, or no worker can begin.
        """
        unheard, began = None, time.monotonic()
        while self._left or any(shard is not None for _, shard in self._busy.values()):
            there, _ = self._ray.wait([*self._busy], num_returns=1, timeout=_LOOK)
            if there:
                self._hear(there[0])
            elif not self._processes and began and time.monotonic() - began > _WAITING:
                self._answer(as_line({"cluster": "The cluster has no room for a worker yet"}))
                began = 0.0
            if there or self._cluster.answers():
                unheard = None
                continue
            unheard = unheard or time.monotonic()
            if time.monotonic() - unheard > _PATIENCE:
                raise self._cluster.lost()

    def _begin(self) -> None:
        worker = self._kind.remote(self._asked)
        self._busy[worker.ready.remote()] = worker, None

    def _hear(self, awaited: Any) -> None:  # noqa: ANN401 - Ray's own
        worker, shard = self._busy.pop(awaited)
        try:
            made: Made = self._ray.get(awaited)
        except self._ray.exceptions.RayError as error:
            if not self._cluster.answers():
                raise self._cluster.lost() from error
            lost = self._ray.exceptions.RayActorError, self._ray.exceptions.OutOfMemoryError
            if shard is None or not isinstance(error, lost):
                raise _useless(error) from error
            self._answer(as_line({"given up": asdict(shard)}))
            self._ray.kill(worker)
            self._begin()
            return
        if shard is not None and self._processes.get(worker) != made.process:
            self._answer(as_line({"replaced": asdict(shard)}))
        self._processes[worker] = made.process
        for message in made.messages:
            self._answer(message)
        if self._left:
            following = self._left.pop()
            self._busy[worker.make.remote(following)] = worker, following


def _useless(error: Exception) -> ClusterError:
    """What to tell of workers that cannot begin, or of a mistake in what they do."""
    print(error, file=sys.stderr)  # where it came from; it is shown with NAIC_DEBUG
    said = str(error).strip().splitlines()[-1].strip()
    hint = "Install the same naic with the same packages on every node; NAIC_DEBUG=1 tells more."
    return ClusterError("a worker on the Ray cluster", f"cannot work ({said})", hint)


def _python_path() -> str:
    """Where modules of ours and of plug-ins lie that the workers' Python does not know of."""
    installed = (sys.prefix, sys.base_prefix, sys.exec_prefix)
    known = [os.path.abspath(entry) for entry in sys.path]  # noqa: PTH100 - "" is this folder
    return os.pathsep.join(entry for entry in known if not entry.startswith(installed))


def lead(
    asked: Asked, words: bytes, shards: Sequence[Shard], answer: Callable[[bytes], None]
) -> None:
    """Join a cluster and have the shards made on it."""
    cluster = join(asked.workers)
    import ray  # not before: which cluster it is decides how

    space = room(ray.nodes(), asked.device, asked.workers, len(shards))
    on = "for this run, on this machine" if cluster.ours else f"at {cluster.head}"
    each = "a GPU each" if space.gpus else "a core each"
    answer(as_line({"cluster": f"Ray cluster {on}; workers: {space.workers}, {each}"}))
    try:
        Lead(cluster, words, space, shards, answer).run()
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends as it is
        if cluster.answers():  # else there is nobody to take leave of, and Ray waits for one
            ray.shutdown()


def main() -> None:
    """Read what is asked, and have it done."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent to deal with
    signal.signal(signal.SIGTERM, end_at_sigterm)
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    answer = open_answers()
    given = sys.stdin.buffer
    words = given.readline()
    asked, _ = read_asked(words)
    shards: list[Shard] = []
    while (line := given.readline()).strip():
        shards.append(Shard(**json.loads(line)))

    def end_with_parent() -> None:
        given.read()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()
    try:
        lead(asked, words, shards, answer)
    except NaicError as error:
        answer(error_line(error))
        os._exit(0)  # what Ray does at the end of a process waits for a head, too
    except BrokenPipeError:  # nobody is there to answer
        os._exit(1)


if __name__ == "__main__":
    main()
