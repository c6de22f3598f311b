"""Shards made by processes on this machine, each with a model of its own.

Each process is led by a thread here, which hands it a shard at a time. One that is killed (memory
ran out, somebody's `kill -9`) is replaced, and its shard begun again; a shard that has brought down
several is given up by name. Ctrl-C and SIGTERM end them all; nothing of theirs is half.
"""

import contextlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from typing import Any

from naic.device import has_torch, may_have_gpu, usable_cores
from naic.errors import BackboneError, Problem
from naic.files import TEMPORARY_SUFFIX
from naic.plugins import used
from naic.storage import is_remote, local
from naic.stores import shown
from naic.tasks.shards.folder import OutFolder
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Outcome
from naic.tasks.shards.options import Asked
from naic.tasks.shards.process import as_line, asked_line, read_error, read_outcome

TRIES = 5  # processes that a shard may bring down before it is given up
PROCESS = "naic.tasks.shards.process"
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_PATIENCE = 10.0  # seconds for a process to end after it was asked to


@dataclass(frozen=True, slots=True)
class Crew:
    """How many processes there are, and what each computes on.

    Attributes:
        sees: for each process the GPU that it sees, as CUDA_VISIBLE_DEVICES has it; None: as we.
        threads: of each, as OMP_NUM_THREADS has them.
    """

    sees: tuple[str | None, ...]
    threads: str

    @classmethod
    def of(cls, asked: Asked, shards: int) -> "Crew":
        """One process for each GPU, or for each core; never more than shards.

        A process with a core of its own waits for nobody: ten of one thread each make more than
        one of ten threads. The cost is memory, that of a model for each.

        On a processor there is one thread, however few the shards: sums of several come in another
        order, and a shard's features would depend on how many shards were left with it.
        """
        gpus = _gpus(asked.device)
        wanted = asked.workers or len(gpus) or usable_cores()
        count = max(1, min(wanted, shards))
        sees = [gpus[number % len(gpus)] if gpus else None for number in range(count)]
        if not gpus and not asked.device.startswith("cuda"):
            return cls(tuple(sees), "1")
        own = str(max(1, usable_cores() // count))
        return cls(tuple(sees), os.environ.get("OMP_NUM_THREADS") or own)


def in_processes(
    asked: Asked,
    out: OutFolder,
    shards: Sequence[Shard],
    done: Callable[[Outcome], None],
    tell: Callable[[Problem], None],
) -> None:
    """Make the shards; `done` hears of each, in the order in which they end.

    Raises:
        NaicError: what stops all: the model cannot be loaded, the disk is full.
        KeyboardInterrupt: the caller was interrupted; all processes have ended by then.
    """
    crew = Crew.of(asked, len(shards))
    run = _Run(asked, out, crew.threads, iter(shards), tell)
    leaders = [
        threading.Thread(target=run.lead, args=(gpu,), name="shards", daemon=True)
        for gpu in crew.sees
    ]
    for leader in leaders:
        leader.start()
    try:
        left = len(leaders)
        while left:
            news = run.news.get()
            if isinstance(news, BaseException):
                raise news
            if news is None:
                left -= 1
            else:
                done(news)
    finally:
        run.stop()
        for leader in leaders:
            leader.join()


class _Run:
    """What the leaders share."""

    def __init__(
        self,
        asked: Asked,
        out: OutFolder,
        threads: str,
        shards: Iterator[Shard],
        tell: Callable[[Problem], None],
    ) -> None:
        self.news: queue.SimpleQueue[Outcome | BaseException | None] = queue.SimpleQueue()
        self._asked, self._out, self._threads, self._tell = asked, out, threads, tell
        self._coming = shards
        self._lock = threading.Lock()
        self._stopped = False
        self._told: set[Problem] = set()
        self._there: set[_Process] = set()

    def lead(self, gpu: str | None) -> None:
        """Have shards made until there are none left."""
        process: _Process | None = None
        try:
            while (shard := self._next()) is not None:
                for _ in range(TRIES):
                    process = process or self._start(gpu)
                    outcome = process.make(shard)
                    if outcome is not None or self._stopped:
                        break
                    self._end(process)
                    process = None
                else:
                    outcome = given_up(self._out, shard)
                if outcome is not None:
                    self.news.put(outcome)
        except BaseException as error:
            self.news.put(error)
        finally:
            if process is not None:
                self._end(process)
            self.news.put(None)

    def stop(self) -> None:
        """End all: at once those that are at work."""
        with self._lock:
            self._stopped = True
            for process in self._there:
                process.terminate()

    def _next(self) -> Shard | None:
        with self._lock:
            return None if self._stopped else next(self._coming, None)

    def _start(self, gpu: str | None) -> "_Process":
        with self._lock:
            process = _Process(self._threads, gpu)
            self._there.add(process)
            if self._stopped:
                process.terminate()
        try:
            problems = process.begin(self._asked)
        except BaseException:
            self._end(process)
            raise
        with self._lock:
            for problem in problems:
                if problem not in self._told:
                    self._told.add(problem)
                    self._tell(problem)
        return process

    def _end(self, process: "_Process") -> None:
        code = process.close()
        with self._lock:
            self._there.discard(process)
        if code:
            _remove_halves(self._out, process.number)


def given_up(out: OutFolder, shard: Shard) -> Outcome:
    """What comes of a shard that has brought down all that tried to make it."""
    why = f"{TRIES} processes were killed while they made it"
    hint = "If memory ran out: fewer --workers, a smaller --batch, or shards of fewer images."
    problem = Problem(shown(shard.source), why, hint)
    out.write_problem(shard.name, problem)
    return Outcome(shard, problem=problem)


class _Process:
    """One process, used by one thread."""

    def __init__(self, threads: str, gpu: str | None) -> None:
        environment = (
            os.environ
            | {
                "PYTHONPATH": os.pathsep.join(entry or os.getcwd() for entry in sys.path),  # noqa: PTH109
                "OMP_NUM_THREADS": threads,
            }
            | ({} if gpu is None else {_VISIBLE: gpu})
        )
        process = subprocess.Popen(  # noqa: S603 - our own module
            [sys.executable, "-P", "-m", PROCESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
        )
        assert isinstance(process.stdin, BufferedWriter)
        assert isinstance(process.stdout, BufferedReader)
        self._process, self._tasks, self._answers = process, process.stdin, process.stdout
        self.number = process.pid

    def begin(self, asked: Asked) -> list[Problem]:
        """Have it load what it takes; what it tells of that.

        One that is killed meanwhile tells nothing, and its first shard finds it gone.
        """
        answer = self._ask(asked_line(asked, list(used())))
        return [Problem(**problem) for problem in (answer or {}).get("ready", [])]

    def make(self, shard: Shard) -> Outcome | None:
        """Have a shard made; None: the process was killed."""
        answer = self._ask(as_line({"source": shard.source, "name": shard.name}))
        return None if answer is None else read_outcome(answer)

    def terminate(self) -> None:
        """Ask it to end. Its half-written files go with it."""
        with contextlib.suppress(OSError):
            self._process.terminate()

    def close(self) -> int:
        """Let it end by ending its input, or in the end by force; its exit code."""
        for pipe in (self._tasks, self._answers):
            with contextlib.suppress(OSError):  # what was still to be sent has nobody to go to
                pipe.close()
        try:
            return self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            return self._process.wait()

    def _ask(self, line: bytes) -> dict[str, Any] | None:
        """Its answer; None: it was killed.

        Raises:
            NaicError: what it could not do, and another could not either.
        """
        try:
            self._tasks.write(line)
            self._tasks.flush()
            answer: dict[str, Any] = json.loads(self._answers.readline())
        except (OSError, ValueError):  # it ended, perhaps in the middle of an answer
            if (
                self.close() == 1
            ):  # Python ended it: something is wrong with naic, not with the shard
                why = "ended with exit code 1; its message stands above"
                raise BackboneError("the process that makes shards", why, "Mend that.") from None
            return None
        if "error" in answer:
            raise read_error(answer)
        return answer


def _remove_halves(out: OutFolder, process: int) -> None:
    """Remove what a process that was killed left half-written."""
    if not is_remote(out.where):
        for path in local(out.where).rglob(f"*.{process}-*{TEMPORARY_SUFFIX}"):
            path.unlink(missing_ok=True)


def _gpus(device: str) -> list[str]:
    """The GPUs to use, as CUDA_VISIBLE_DEVICES names them; none: a processor, or one was named."""
    if device not in ("auto", "cuda") or not may_have_gpu() or not has_torch():
        return []
    import torch

    named = os.environ.get(_VISIBLE)
    count = torch.cuda.device_count()
    return named.split(",")[:count] if named else [str(number) for number in range(count)]
