"""How shards are handed out, with a Ray of a few lines; and which cluster is taken."""

import json
import os
import socket
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from naic.errors import ClusterError, ConfigError, DataError, Problem
from naic.tasks.shards import ray_actor, ray_driver
from naic.tasks.shards.folder import Statistics
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Outcome
from naic.tasks.shards.options import Asked, CaptionShards
from naic.tasks.shards.process import asked_line
from naic.tasks.shards.processes import TRIES
from naic.tasks.shards.ray_actor import Made, ShardActor
from naic.tasks.shards.ray_cluster import Cluster, Room, answers, room, running
from naic.tasks.shards.ray_driver import Lead

ASKED = asked_line(CaptionShards(inputs=("x.tar",), out="/out"), [])


class OddError(Exception):
    """Whatever Ray says."""


class LostError(OddError):
    """What Ray says of a worker that is gone."""


class NoMemoryError(OddError):
    """What Ray says of a worker that it has ended, since there was no memory left."""


class OddActor:
    """One that answers at once; `lost` brings it down, `moved` is made by another process."""

    def __init__(self, asked: bytes) -> None:
        assert asked == ASKED
        self.process = 1
        self.broken = False

    def ready(self) -> Made:
        if self.broken:
            raise LostError("a story\nImportError: no naic")
        return Made((), self.process)

    def make(self, shard: Shard) -> Made:
        if shard.name == "lost":
            raise LostError
        if shard.name == "large":
            raise NoMemoryError
        if shard.name == "wrong":
            raise OddError("a story\nTypeError: a mistake\n")
        self.process += shard.name == "moved"
        return Made((f"made {shard.name}".encode(),), self.process)


class OddRay:
    """As much of Ray as is used. `room` workers at a time are alive."""

    exceptions = SimpleNamespace(
        RayError=OddError, RayActorError=LostError, OutOfMemoryError=NoMemoryError
    )

    def __init__(self, room: int) -> None:
        self.options: dict[str, Any] = {}
        self.room, self.hired, self.killed = room, 0, 0
        self.waits: list[int] = []
        self.broken = False

    def remote(self, **options: Any) -> Callable[[type], Any]:
        self.options = options
        return lambda _: SimpleNamespace(remote=self.hire)

    def hire(self, asked: bytes) -> Any:
        actor, number = OddActor(asked), self.hired
        actor.broken = self.broken
        self.hired += 1
        return _Handle(actor, number)

    def wait(self, refs: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        self.waits.append(len(refs))
        there = [ref for ref in refs if ref.number - self.killed < self.room]
        return there[:1], []

    def get(self, ref: Any) -> Made:
        made: Made = ref.call()
        return made

    def kill(self, _: object) -> None:
        self.killed += 1


class _Handle:
    def __init__(self, actor: OddActor, number: int) -> None:
        self.ready = SimpleNamespace(remote=lambda: _Ref(actor.ready, number))
        self.make = SimpleNamespace(remote=lambda shard: _Ref(lambda: actor.make(shard), number))


class _Ref:
    def __init__(self, call: Callable[[], Made], number: int) -> None:
        self.call, self.number = call, number


def shards(*names: str) -> list[Shard]:
    return [Shard(f"/in/{name}.tar", name) for name in names]


def lead(
    monkeypatch: pytest.MonkeyPatch, odd: OddRay, *names: str, workers: int = 1
) -> list[bytes]:
    monkeypatch.setitem(sys.modules, "ray", odd)
    heard: list[bytes] = []
    cluster = Cluster("127.0.0.1:1", ours=True)
    Lead(cluster, ASKED, Room(workers, 1, 8), shards(*names), heard.append).run()
    return heard


@pytest.fixture
def head(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "answers", lambda _: True)


@pytest.mark.usefixtures("head")
def test_shards_are_handed_out_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = OddRay(room=1)  # for two there is no room: the shards wait for nobody
    assert lead(monkeypatch, odd, "a", "b", "c", workers=2) == [b"made a", b"made b", b"made c"]
    assert max(odd.waits) == 2
    assert odd.options["num_gpus"] == 1
    assert odd.options["num_cpus"] == 8
    assert odd.options["max_task_retries"] == TRIES - 1
    source = str(Path(__file__).parents[3])
    environment = odd.options["runtime_env"]["env_vars"]
    assert "OMP_NUM_THREADS" not in environment
    path = environment["PYTHONPATH"].split(os.pathsep)
    assert source in path
    assert not [entry for entry in path if entry.startswith(sys.prefix)]


@pytest.mark.usefixtures("head")
def test_a_shard_that_brings_workers_down_is_given_up_and_another_worker_hired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = OddRay(room=1)
    heard = lead(monkeypatch, odd, "a", "lost", "moved", "b", "large")
    large = json.loads(heard.pop())
    assert large == {"given up": {"source": "/in/large.tar", "name": "large"}}
    assert [json.loads(heard[1]), json.loads(heard[2])] == [
        {"given up": {"source": "/in/lost.tar", "name": "lost"}},
        {"replaced": {"source": "/in/moved.tar", "name": "moved"}},
    ]
    assert [heard[0], *heard[3:]] == [b"made a", b"made moved", b"made b"]
    assert (odd.hired, odd.killed) == (3, 2)


@pytest.mark.usefixtures("head")
def test_workers_that_cannot_work_stop_all(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ClusterError, match=r"cannot work \(TypeError: a mistake\)\. Install the"):
        lead(monkeypatch, OddRay(room=1), "a", "wrong", "b")
    odd = OddRay(room=1)
    odd.broken = True
    with pytest.raises(ClusterError, match=r"cannot work \(ImportError: no naic\)"):
        lead(monkeypatch, odd, "a")
    assert odd.hired == 1  # not again and again


def test_a_head_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Cluster, "answers", lambda _: False)
    for patience, names in ((20.0, ("lost",)), (0.0, ("a",))):
        monkeypatch.setattr(ray_driver, "_PATIENCE", patience)
        odd = OddRay(room=1 if patience else 0)  # in the middle of a shard, or of nothing at all
        with pytest.raises(ClusterError, match=r"its head is gone\. Shards that are whole stay"):
            lead(monkeypatch, odd, *names)


@pytest.mark.usefixtures("head")
def test_a_cluster_without_room_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    odd = OddRay(room=0)
    monkeypatch.setattr(ray_driver, "_WAITING", 0.0)
    monkeypatch.setattr(odd, "wait", lambda refs, **_: (refs if len(heard) else [], []))
    monkeypatch.setitem(sys.modules, "ray", odd)
    heard: list[bytes] = []
    Lead(Cluster("h:1", ours=False), ASKED, Room(1, 0, 1), shards("a"), heard.append).run()
    assert [b"no room for a worker yet" in heard[0], heard[1:]] == [True, [b"made a"]]
    assert odd.options["runtime_env"]["env_vars"]["OMP_NUM_THREADS"] == "1"  # without a GPU


def test_a_worker_loads_once_and_answers_for_its_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    class OddWorker:
        loaded = 0

        def __init__(self, asked: Asked, tell: Callable[[Problem], None]) -> None:
            assert asked.out == "/out"
            OddWorker.loaded += 1
            tell(Problem("--forbid", "never said", ""))

        def __call__(self, shard: Shard) -> Outcome:
            if shard.name == "full":
                raise DataError("out", "is full", "Stop.")
            return Outcome(shard, Statistics(shard.source, 2, 0, 0.1))

    monkeypatch.setattr(ray_actor, "Worker", OddWorker)
    actor = ShardActor(ASKED)
    assert actor.ready() == Made((), os.getpid())
    assert OddWorker.loaded == 0
    first, second, full = (actor.make(shard) for shard in shards("a", "b", "full"))
    told, made = (json.loads(message) for message in first.messages)
    assert told["told"]["where"] == "--forbid"
    assert made["statistics"]["images"] == 2
    assert len(second.messages) == 1
    assert json.loads(full.messages[0]) == {"error": ["DataError", "out", "is full", "Stop."]}
    assert OddWorker.loaded == 1


def test_room() -> None:
    plain = {"Alive": True, "Resources": {"CPU": 4.0}}
    cards = {"Alive": True, "Resources": {"CPU": 32.0, "GPU": 8.0}}
    gone = {"Alive": False, "Resources": {"CPU": 64.0, "GPU": 8.0}}
    assert room([plain, cards, cards, gone], "auto", 0, 1000) == Room(16, 1, 4)
    assert room([plain, cards], "cpu", 0, 1000) == Room(36, 0, 1)
    assert room([plain, cards], "cuda", 3, 1000) == Room(3, 1, 4)
    assert room([plain], "auto", 0, 2) == Room(2, 0, 1)
    assert room([{"Alive": True, "Resources": {}}], "auto", 0, 2) == Room(1, 0, 1)


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def test_which_cluster(listening: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    assert running() is None
    left = tmp_path / "ray" / "ray_current_cluster"
    left.parent.mkdir()
    left.write_text(f"{listening}\n")
    assert running() == listening
    left.write_text("127.0.0.1:1")  # of a head that was killed
    assert running() is None
    left.write_text(listening)
    monkeypatch.setenv("RAY_ADDRESS", "local")
    assert running() is None
    monkeypatch.setenv("RAY_ADDRESS", listening)
    assert running() == listening
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(
        ClusterError, match=r"127\.0\.0\.1:1: nobody answers there\. Check RAY_ADDR"
    ):
        running()
    monkeypatch.setenv("RAY_ADDRESS", "ray://host:10001")
    with pytest.raises(ConfigError, match="the address of a client"):
        running()
    assert not answers("no address")
