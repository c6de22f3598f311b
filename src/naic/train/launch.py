"""`--nproc N`: N workers on this machine, through torch's elastic launcher.

Many machines are torchrun's business: `torchrun ... -m naic train CONFIG.toml` starts the same
workers.
"""

import logging
import os
import signal
import sys
import uuid
from collections.abc import Mapping

from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs, LogsDest, SignalException
from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure
from torch.distributed.launcher.api import LaunchConfig, launch_agent

from naic.errors import ConfigError, TrainingError
from naic.train.watchdog import LAUNCHER_PID

BAD_USAGE = 2
SIGNALS = ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
LATE_SECONDS = 20  # a SIGKILL so long after the first failure came from us


class _RankZeroSpeaks(DefaultLogsSpecs):
    """Standard output of rank 0 alone: N copies of each line help nobody. Errors of all ranks."""

    def __init__(self) -> None:
        super().__init__(log_dir=os.devnull)  # no log files

    def reify(self, envs: dict[int, dict[str, str]]) -> LogsDest:
        places = super().reify(envs)
        places.stdouts = {rank: os.devnull if rank else "" for rank in envs}
        return places


def launch(nproc: int, arguments: list[str]) -> int:
    """Run `python ARGUMENTS` in `nproc` workers that find each other; the result is the exit code.

    Workers get RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT. When one fails the
    others are stopped. Must run in the main thread: signals are handed on to the workers.

    Raises:
        TrainingError: a worker was killed by a signal.
    """
    if nproc < 1:
        raise ConfigError("--nproc", f"{nproc} is below 1", "Give the number of processes.")
    # The cores that we may use, not all that the machine has.
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, cores // nproc)))
    os.environ[LAUNCHER_PID] = str(os.getpid())
    if not os.environ.get("NAIC_DEBUG"):
        # Its warnings and tracebacks repeat in forty lines what we say in one.
        elastic = logging.getLogger("torch.distributed.elastic")
        elastic.propagate = False
        elastic.addHandler(logging.NullHandler())
    # torch would put `$` words into the arguments: `$$` comes out as `$`.
    words = [word.replace("$", "$$") for word in arguments]
    before = {name: signal.getsignal(signal.Signals[name]) for name in SIGNALS}
    try:
        launch_agent(_config(nproc), sys.executable, words)
    except ChildFailedError as failed:
        return _blame(failed.failures)
    except SignalException as stopped:
        return 128 + stopped.sigval
    finally:
        for name, handler in before.items():
            signal.signal(signal.Signals[name], handler)
    return 0


def _config(nproc: int) -> LaunchConfig:
    # A signal that we were started to ignore stays ignored, here and in the workers: the run of
    # `nohup naic train` must survive its terminal, and one in a script's background its Ctrl-C.
    heard = [name for name in SIGNALS if signal.getsignal(signal.Signals[name]) != signal.SIG_IGN]
    return LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=nproc,
        run_id=uuid.uuid4().hex,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",  # a free port
        local_addr="localhost",  # not this machine's name, which may not resolve
        max_restarts=0,  # going on is the user's choice: `--resume auto`
        signals_to_handle=",".join(heard),
        logs_specs=_RankZeroSpeaks(),
    )


def _blame(failures: Mapping[int, ProcessFailure]) -> int:
    """The exit code of failed workers, which have said themselves what was wrong.

    A killed worker could not, and its neighbours, who lost their connection to it, may be found
    dead at the same look; so it is named before all others.
    """
    first = next(iter(failures.values()))  # torch keeps them in the order it found them
    ended = {
        rank: failure.exitcode
        for rank, failure in failures.items()
        if failure is first or not _stopped_by_us(failure, first)
    }
    for rank, code in ended.items():
        if code < 0:
            name = signal.Signals(-code).name
            memory = " Perhaps memory ran out." if name == "SIGKILL" else ""
            raise TrainingError(
                f"rank {rank}",
                f"was killed by {name}, and the other workers were stopped",
                f"The same command with --resume auto goes on from the last checkpoint.{memory}",
            )
    # Bad usage is never the consequence of another worker's end; a plain failure often is.
    return BAD_USAGE if BAD_USAGE in ended.values() else first.exitcode


def _stopped_by_us(failure: ProcessFailure, first: ProcessFailure) -> bool:
    """Once a worker has failed the others get SIGTERM, and 30 s later SIGKILL."""
    late = failure.timestamp - first.timestamp >= LATE_SECONDS
    return failure.exitcode == -signal.SIGTERM or (failure.exitcode == -signal.SIGKILL and late)
