"""Shards made on a Ray cluster: the one that runs, or one for this run, on this machine.

A thin layer over `make_shard`: Ray has the workers, starts those that were killed anew and gives
them their shard again; whatever becomes of the cluster, what is whole stays, and the same command
goes on with the rest, on that cluster or another, or by processes.
"""

import contextlib
import importlib.util
import json
import os
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Any, Final

from naic.errors import ClusterError, MissingExtraError, Problem
from naic.plugins import used
from naic.stores import shown
from naic.tasks.shards.folder import OutFolder
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Outcome
from naic.tasks.shards.options import Asked
from naic.tasks.shards.process import as_line, asked_line, read_error, read_outcome
from naic.tasks.shards.processes import given_up
from naic.tasks.shards.ray_cluster import ADDRESS, AGAIN, LET_IN

DRIVER: Final = "naic.tasks.shards.ray_driver"
_JOINING: Final = 180.0  # seconds: a cluster of our own takes ten to start, on a slow machine
_ENDING: Final = 20.0  # seconds for it to take leave


def on_ray(
    asked: Asked,
    out: OutFolder,
    shards: Sequence[Shard],
    done: Callable[[Outcome], None],
    tell: Callable[[Problem], None],
    say: Callable[[str], None],
) -> None:
    """Make the shards; `done` hears of each, in the order in which they end.

    Raises:
        MissingExtraError: there is no Ray.
        ClusterError: there is no such cluster, or it was lost in the middle.
        NaicError: what stops all: the model cannot be loaded, the disk is full.
    """
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError("ray", "is not installed", "Run: pip install 'naic[ray]'")
    words = asked_line(_anywhere(asked, out), list(used()))
    told: set[Problem] = set()
    with _driving() as (given, answers, ended):
        with contextlib.suppress(BrokenPipeError):  # what it said instead is read below
            given.writelines([words, *(as_line(asdict(shard)) for shard in shards), b"\n"])
            given.flush()
        if not select.select([answers], [], [], _JOINING)[0]:
            where = f"the Ray cluster at {os.environ.get(ADDRESS, 'this machine')}"
            raise ClusterError(where, f"did not take us in within {_JOINING:.0f} seconds", LET_IN)
        missing = len(shards)
        for line in answers:
            message = json.loads(line)
            if "error" in message:
                raise read_error(message)
            if "cluster" in message:
                say(message["cluster"])
            elif "replaced" in message:
                source = shown(message["replaced"]["source"])
                say(f"a worker was killed, and {source} begun again")
            elif "told" in message:
                problem = Problem(**message["told"])
                if problem not in told:
                    told.add(problem)
                    tell(problem)
            else:
                missing -= 1
                lost = message.get("given up")
                done(given_up(out, Shard(**lost)) if lost else read_outcome(message))
                if not missing:
                    break
        if missing:
            raise ended()


def _anywhere(asked: Asked, out: OutFolder) -> Asked:
    """The same in any current folder; the name of a model on the hub is no path."""
    paths = {"model", "weights"} & set(asked.__dataclass_fields__)
    found: dict[str, Any] = {
        name: path.absolute()
        for name in paths
        if isinstance(path := getattr(asked, name), Path) and path.exists()
    }
    return replace(asked, out=out.where, **found)


@contextlib.contextmanager
def _driving() -> Iterator[tuple[IO[bytes], IO[bytes], Callable[[], ClusterError]]]:
    """The process that speaks with Ray: what it is given, its answers, and why it ended."""
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)  # noqa: PTH109
    with tempfile.TemporaryFile() as said:  # Ray says a great deal
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", DRIVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if os.environ.get("NAIC_DEBUG") else said,
            env=os.environ | {"PYTHONPATH": path},
        )
        assert process.stdin is not None
        assert process.stdout is not None

        def ended() -> ClusterError:
            process.wait()
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
            last = f": {lines[-1].strip().rstrip('.')}" if lines else ""
            why = f"the process that speaks with it has ended, with exit code {process.returncode}"
            return ClusterError("the Ray cluster", f"{why}{last}", AGAIN)

        try:
            yield process.stdin, process.stdout, ended
        finally:
            with contextlib.suppress(OSError):
                process.stdin.close()  # whereupon it ends
            try:
                process.wait(_ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
