"""Which Ray cluster does the work, whether it still answers, and what it has room for."""

import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from naic.device import usable_cores
from naic.errors import ClusterError, ConfigError

ADDRESS = "RAY_ADDRESS"
_LOCAL = "local"
_SECONDS = 3.0  # for a head to take a connection
_STORE = 100 * 2**20  # bytes that a cluster of our own shares: what is passed around is small
LET_IN = "Look at its logs; if it wants a token, set RAY_AUTH_MODE=token (see Ray's own pages)."
AGAIN = "Shards that are whole stay. Start a cluster, and give the same command again."


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster that was joined, or started for this run.

    Attributes:
        head: the address of its head.
        ours: whether it ends with this run.
    """

    head: str
    ours: bool

    def answers(self) -> bool:
        """Whether its head still takes connections: all other calls wait for one that is gone."""
        return answers(self.head)

    def lost(self) -> ClusterError:
        """What to tell of a head that is gone."""
        return ClusterError(f"the Ray cluster at {self.head}", "its head is gone", AGAIN)


def answers(address: str) -> bool:
    """Whether somebody listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), _SECONDS).close()
    except (OSError, ValueError):
        return False
    return True


def running() -> str | None:
    """The cluster that RAY_ADDRESS names or `ray start` left word of; None: start one.

    Raises:
        ConfigError: naic cannot speak with a cluster of that kind.
        ClusterError: the one that was named does not answer.
    """
    named = os.environ.get(ADDRESS, "")
    if named == _LOCAL:
        return None
    if "://" in named:
        why = f"{named} is the address of a client, and naic has to run on a node of the cluster"
        raise ConfigError(ADDRESS, why, "Start it there, or with ray job submit.")
    if named not in ("", "auto"):
        if not answers(named):
            hint = f"Check {ADDRESS}, or unset it: then naic starts a cluster on this machine."
            raise ClusterError(f"the Ray cluster at {named}", "nobody answers there", hint)
        return named
    left = Path(os.environ.get("RAY_TMPDIR", "/tmp"), "ray", "ray_current_cluster")  # noqa: S108
    try:
        found = left.read_text(encoding="utf-8").strip()
    except OSError:
        return None
    return found if answers(found) else None  # a head that was killed leaves its file


def join(wanted: int) -> Cluster:
    """Join the cluster that runs, or start one for this run, of so many workers; 0: as many as fit.

    Raises:
        ConfigError, ClusterError: as `running`, or the cluster does not take us in.
    """
    found = running()
    if found is None:
        # What listens listens to this machine alone, and nothing is told to Ray's makers; both are
        # read when Ray is imported.
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    import ray

    quiet = {"log_to_driver": False, "logging_level": "ERROR", "configure_logging": False}
    try:
        if found is None:
            ray.init(
                _LOCAL,
                num_cpus=wanted or usable_cores(),
                object_store_memory=_STORE,
                include_dashboard=False,
                _node_ip_address="127.0.0.1",
                **quiet,
            )
        else:
            # Ray finds what was started here by itself, and its token; else by the name.
            ray.init(None if not os.environ.get(ADDRESS) else found, **quiet)
    except (OSError, RuntimeError, ValueError) as error:
        where = f"the Ray cluster at {found}" if found else "a Ray cluster on this machine"
        said = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ClusterError(where, f"cannot be joined ({said})", LET_IN) from error
    return Cluster(str(ray.get_runtime_context().gcs_address), found is None)


@dataclass(frozen=True, slots=True)
class Room:
    """What a cluster has room for.

    Attributes:
        workers: how many.
        gpus: of each: one, or none.
        cores: of each.
    """

    workers: int
    gpus: int
    cores: int


def room(nodes: Sequence[Mapping[str, Any]], device: str, wanted: int, shards: int) -> Room:
    """One worker for each GPU, with its share of its node's cores; without GPUs, for each core.

    Args:
        nodes: as Ray tells of them.
        device: what was asked for.
        wanted: workers; 0: as many as there is room for.
        shards: more workers than these have nothing to do.
    """
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    own = [node for node in alive if node.get("GPU", 0) >= 1]
    if own and device in ("auto", "cuda"):
        cores = min(int(node.get("CPU", 1) // node["GPU"]) for node in own)
        there = sum(int(node["GPU"]) for node in own)
        return Room(max(1, min(wanted or there, shards)), 1, max(1, cores))
    there = sum(int(node.get("CPU", 0)) for node in alive)
    return Room(max(1, min(wanted or there, shards)), 0, 1)
