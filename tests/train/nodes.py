"""Machines for tests: each a torchrun of its own, all on this one, told what to do by `Machines`.

python -m tests.train.nodes

It imports torch and naic once, which takes longer than the runs of the tests, and forks a process
for each machine. That does what the program `torchrun` does with the same words: it parses them,
meets the others, starts its workers and watches over them; only that the workers are forked, too.
"""

import importlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, Any

import numba
import numpy as np
import pytest
import torch
from torch.distributed import run as torchrun
from torch.distributed.launcher.api import elastic_launch

from naic.cli.main import main
from naic.train import cmal_stage
from naic.train.engine import TrainingEngine

# What workers would import each for itself.
NEEDED = [
    "naic.learn.cider.numba_rewards",
    "naic.train.loop",
    "torch._dynamo",
    "torch.utils.tensorboard",
    "tyro",
]
TORCHRUN = ["--nnodes", "2", "--nproc-per-node", "1", "--master-addr", "127.0.0.1"]


class Machines:
    """Starts machines, waits for their ends."""

    def __init__(self, requests: IO[str], answers: IO[str]) -> None:
        self._requests, self._answers = requests, answers

    def start(
        self,
        folder: Path,
        words: list[str],
        *,
        dies_at: int = -1,
        by: signal.Signals = signal.SIGKILL,
        said: int = 0,
    ) -> int:
        """A machine on which `torchrun WORDS` is run in a folder; gives its number.

        What it prints is in FOLDER.log. All of it gets the signal `by` before the step `dies_at`.
        With `said` above 0 its agents say no words by chance, which would differ by process.
        """
        place = str(folder)
        return self._ask(folder=place, words=words, dies_at=dies_at, by=by, said=said)

    def wait(self, machine: int) -> int:
        """Its exit code; negative if it was killed."""
        return self._ask(machine=machine)

    def _ask(self, **request: Any) -> int:
        print(json.dumps(request), file=self._requests, flush=True)
        return int(self._answers.readline())


@contextmanager
def machines() -> Iterator[Machines]:
    """As long as it lives, machines can be started."""
    with subprocess.Popen(
        [sys.executable, "-m", "tests.train.nodes"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        yield Machines(process.stdin, process.stdout)
        process.stdin.close()


def words_of(node: int, port: int, *options: str) -> list[str]:
    """What is given to the torchrun of one of two machines, whose first is at 127.0.0.1."""
    own = ["--node-rank", str(node), "--master-port", str(port)]
    return [*TORCHRUN, *own, "-m", "naic", "train", "config.toml", *options]


@contextmanager
def saying(place: int) -> Iterator[None]:
    """Each agent says the `place`-th likeliest of its words."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cmal_stage, "choose", lambda found: found.topk(place + 1).indices[..., place])
        yield


def _serve() -> None:
    for needed in NEEDED:
        importlib.import_module(needed)
    numba.njit(lambda numbers: numbers[0])(np.zeros(1))  # its first call imports as much again
    alive = set[int]()
    for line in sys.stdin:
        request = json.loads(line)
        if "machine" in request:
            ended, status = os.waitpid(request["machine"], 0)
            alive.remove(ended)
            print(os.waitstatus_to_exitcode(status), flush=True)
        else:
            machine = os.fork()
            if not machine:
                _be_a_machine(request)
            alive.add(machine)
            print(machine, flush=True)
    for machine in alive:  # of a test that failed
        os.killpg(machine, signal.SIGKILL)


def _be_a_machine(request: dict[str, Any]) -> None:
    os.setsid()  # a group of its own: a machine dies as a whole
    os.chdir(request["folder"])
    log = os.open(f"{request['folder']}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for stream in (1, 2):
        os.dup2(log, stream)
    code = 1
    try:
        parsed = torchrun.parse_args(request["words"])  # type: ignore[no-untyped-call]
        config, _, words = torchrun.config_from_args(parsed)
        config.start_method = "fork"
        elastic_launch(config, _work)(*(request[n] for n in ("dies_at", "by", "said")), *words)
        code = 0
    finally:
        sys.stdout.flush()
        os._exit(code)


def _work(dies_at: int, by: int, said: int, *words: str) -> None:
    torch.set_num_threads(1)
    step = TrainingEngine.step

    def mortal(engine: TrainingEngine, number: int, rate: float) -> Any:
        if number == dies_at:
            os.killpg(0, by)
        return step(engine, number, rate)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TrainingEngine, "step", mortal)
        with saying(said) if said else nullcontext():
            sys.exit(main(list(words[words.index("naic") + 1 :])))


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def listened_to(port: int) -> bool:
    """Whether somebody listens on it."""
    with socket.socket() as asked:
        return asked.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    _serve()
