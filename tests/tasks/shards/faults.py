"""Runs over shards whose workers, clusters, shards and connections are broken, and what is left.

Each trial makes captions of the same tars of drawn scenes and compares what is in the folder, or in
the bucket, with that of one process whose run nobody disturbed, byte for byte.
"""

import contextlib
import io
import os
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from naic import storage
from naic.data.shapes.dataset import draw
from naic.data.shapes.scenes import make_scene
from naic.files import TEMPORARY_SUFFIX
from tests.runtime.small import NETWORK, make_model
from tests.s3 import make_bucket

LONGEST = 600  # seconds for a run: the machine may be busy
POLL = 0.005
PIXELS = 64
ACTOR = b"ray::ShardActor"
DAMAGED = 5  # the number of the shard that is
LOOPBACK = {"RAY_AUTH_MODE": "disabled", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
MARK = f"NAIC_TRIALS={os.getpid()}"  # in the environment of all that a trial starts


@dataclass(frozen=True, slots=True)
class Home:
    """What all trials share: `in/` of tars, `model/`, and `whole/`, which nobody disturbed."""

    folder: Path
    shards: int

    @property
    def inputs(self) -> Path:
        """The tars."""
        return self.folder / "in"

    @property
    def whole(self) -> dict[str, bytes]:
        """What a run has to come to."""
        return outputs(self.folder / "whole")


def make_home(folder: Path, shards: int, per_shard: int) -> Home:
    """Draw, and let one process caption it all."""
    home = Home(folder, shards)
    home.inputs.mkdir(parents=True)
    for number in range(shards):
        scenes = range(number * per_shard, (number + 1) * per_shard)
        with tarfile.open(home.inputs / f"{number:03d}.tar", "w") as tar:
            for scene in scenes:
                data = io.BytesIO()
                draw(make_scene(0, scene), PIXELS).save(data, "PNG")
                info = tarfile.TarInfo(f"{scene:06d}.png")
                info.size = len(data.getbuffer())
                tar.addfile(info, io.BytesIO(data.getvalue()))
    make_model(folder / "model", backbone=NETWORK)
    done = finish(home, folder / "whole", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert len(home.whole) == shards
    return home


def outputs(folder: Path | str) -> dict[str, bytes]:
    """What was made, by its name; in a bucket, too."""
    there = storage.list_under(str(folder), [".parquet"])
    return {storage.name_of(one): storage.read_bytes(one) for one in there}


def halves(folder: Path) -> list[str]:
    """Files that were begun and are left."""
    return [path.name for path in folder.rglob(f"*{TEMPORARY_SUFFIX}")]


def environed(own: Mapping[str, str]) -> dict[str, str]:
    name, _, value = MARK.partition("=")
    return {**os.environ, **own, name: value}


def command(home: Home, inputs: Path | str, out: Path | str, *more: str) -> list[str]:
    words = [sys.executable, "-m", "naic", "shards", "caption", str(inputs), "--out", str(out)]
    return [*words, "--model", str(home.folder / "model"), "--device", "cpu", *more]


def start(
    words: Sequence[str], environment: Mapping[str, str], log: Path
) -> "subprocess.Popen[bytes]":
    """A run in a session of its own; what it says goes to a file."""
    with log.open("wb") as said:
        return subprocess.Popen(
            words,
            env=environed(environment),
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def finish(
    home: Home, out: Path | str, *more: str, inputs: Path | str = "", **environment: str
) -> "subprocess.CompletedProcess[str]":
    """A run that nobody disturbs."""
    return subprocess.run(
        command(home, inputs or home.inputs, out, *more),
        env=environed(environment),
        capture_output=True,
        text=True,
        timeout=LONGEST,
    )


def children(ancestor: int) -> list[int]:
    """All processes that it started, and that those started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError):
            after_name = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(after_name[1])
    found = [ancestor]
    for one in found:  # grows meanwhile
        found += [child for child, parent in parents.items() if parent == one]
    return found[1:]


def workers(ancestor: int) -> list[int]:
    """Those of them that make shards for Ray."""
    found = []
    for child in children(ancestor):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{child}/cmdline").read_bytes().startswith(ACTOR):
                found.append(child)
    return found


def made(out: Path) -> int:
    return len(list(out.glob("*.parquet")))


def compared(home: Home, out: Path | str) -> dict[str, Any]:
    """What is the same, and what is not."""
    own, whole = outputs(out), home.whole
    return {
        "shards": len(own),
        "identical": own == whole,
        "different": [name for name in whole if own.get(name) not in (None, whole[name])],
    }


def two_workers(home: Home) -> dict[str, Any]:
    """Ray with two workers on a cluster of its own."""
    out = home.folder / "two-workers"
    done = finish(home, out, "--engine", "ray", "--workers", "2", RAY_ADDRESS="local")
    assert done.returncode == 0, done.stderr
    return compared(home, out) | {"halves": len(halves(out))}


def workers_killed(home: Home, kills: int, seed: int = 0) -> dict[str, Any]:
    """The same, and a worker that is at work is killed again and again."""
    out, log, rng = home.folder / "workers-killed", home.folder / "workers.log", Random(seed)
    words = command(home, home.inputs, out, "--engine", "ray", "--workers", "2")
    run = start(words, {"RAY_ADDRESS": "local"}, log)
    struck: list[int] = []
    by = time.monotonic() + LONGEST
    while run.poll() is None and time.monotonic() < by:
        time.sleep(POLL)
        # After so many shards, so that it is at work and others are left.
        if len(struck) < kills and made(out) > len(struck) * home.shards // (kills + 1):
            fresh = [worker for worker in workers(run.pid) if worker not in struck]
            if len(fresh) == 2 or (fresh and struck):
                time.sleep(rng.uniform(0, 0.2))
                struck.append(rng.choice(fresh))
                os.kill(struck[-1], signal.SIGKILL)
    assert run.wait(1) == 0, log.read_text()
    told = log.read_text().count("a worker was killed")
    return compared(home, out) | {"kills": len(struck), "told": told, "halves": len(halves(out))}


def shard_damaged(home: Home) -> dict[str, Any]:
    """One of the tars ends in the middle: it is named, the others are done, the exit code is 3."""
    inputs, out = home.folder / "in-damaged", home.folder / "damaged"
    shutil.copytree(home.inputs, inputs)
    bad = inputs / f"{DAMAGED:03d}.tar"
    bad.write_bytes(bad.read_bytes()[: bad.stat().st_size // 2 + 99])
    more = ("--engine", "ray", "--workers", "2")
    done = finish(home, out, *more, inputs=inputs, RAY_ADDRESS="local")
    expected = {name: data for name, data in home.whole.items() if name != f"{bad.stem}.parquet"}
    said = [line for line in done.stderr.splitlines() if str(bad) in line]
    return {
        "exit code": done.returncode,
        "named": said[0].replace(f"{inputs}/", "") if said else "",
        "shards": len(outputs(out)),
        "identical": outputs(out) == expected,
        "halves": len(halves(out)),
    }


class Head:
    """A cluster of `ray start --head`, of this machine only, all of whose processes are known."""

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="nr-")  # the names of sockets must be short
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """What leads a run to it."""
        return {"RAY_ADDRESS": self.address, **LOOPBACK}

    def start(self) -> None:
        """Start it, and wait until it answers."""
        words = f"ray start --head --block --port {self.address.rpartition(':')[2]} --num-cpus 2"
        words += f" --node-ip-address 127.0.0.1 --include-dashboard false --temp-dir {self._folder}"
        log = Path(self._folder, "head.log")
        environment = {**LOOPBACK, "RAY_USAGE_STATS_ENABLED": "0"}
        script = [sys.executable, str(Path(sys.executable).with_name("ray"))]
        self._process = start([*script, *words.split()[1:]], environment, log)
        by = time.monotonic() + LONGEST
        while "Ray runtime started" not in log.read_text():
            assert self._process.poll() is None, log.read_text()
            assert time.monotonic() < by, "the cluster does not start"
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill it as `ray stop --force` does, but no cluster of anybody else."""
        if self._process is None:
            return
        doomed = [self._process.pid, *children(self._process.pid)]
        for one in doomed:
            with contextlib.suppress(ProcessLookupError):
                os.kill(one, signal.SIGKILL)
        self._process.wait()
        self._process = None

    def __enter__(self) -> "Head":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def head_killed(home: Home, after: int) -> dict[str, Any]:
    """The head is lost after so many shards; a new one is started, and the command given again."""
    out, log = home.folder / "head-killed", home.folder / "head.log"
    more = ("--engine", "ray", "--workers", "2")
    with Head() as head:
        run = start(command(home, home.inputs, out, *more), head.environment, log)
        while made(out) < after:
            assert run.poll() is None, log.read_text()
            time.sleep(POLL)
        head.kill()
        killed, whole_then = time.monotonic(), outputs(out)
        code = run.wait(LONGEST)
        seconds = time.monotonic() - killed
        assert all(home.whole[name] == data for name, data in outputs(out).items())
        head.start()
        again = finish(home, out, *more, **head.environment)
    assert again.returncode == 0, again.stderr
    return compared(home, out) | {
        "exit code": code,
        "said": log.read_text().strip().splitlines()[-1],
        "seconds until it was said": round(seconds, 1),
        "shards before": len(whole_then),
        "said again": again.stdout.splitlines()[0].replace(str(out), "DIR"),
        "halves": len(halves(out)),
    }


def store_kills(home: Home, s3: Mapping[str, str], kills: int, seed: int = 0) -> dict[str, Any]:
    """Runs from one bucket to another that are killed with all their processes, at any moment."""
    rng, source = Random(seed), make_bucket(s3, "tars")
    for tar in sorted(home.inputs.iterdir()):
        storage.write_whole(storage.join(source, tar.name), tar)
    unbroken = storage.join(make_bucket(s3, "unbroken"), "out")
    done = finish(home, unbroken, "--workers", "2", inputs=source, **s3)
    assert done.returncode == 0, done.stderr
    identical, left, buckets = outputs(unbroken) == home.whole, list[int](), 0
    while len(left) < kills:
        out, buckets = storage.join(make_bucket(s3, f"broken-{buckets}"), "out"), buckets + 1
        for _ in range(rng.randint(2, 4)):
            if _store_kill(home, s3, source, out, rng):
                there = outputs(out)
                left.append(len(there))
                assert all(home.whole[name] == data for name, data in there.items())
        done = finish(home, out, "--workers", "2", inputs=source, **s3)
        assert done.returncode == 0, done.stderr
        identical &= outputs(out) == home.whole and names(out) == names(unbroken)
    return {
        "kills": len(left),
        "buckets": buckets,
        "shards whole after each kill": left,
        "identical": identical,
    }


def _store_kill(home: Home, s3: Mapping[str, str], source: str, out: str, rng: Random) -> bool:
    """A run that is killed as soon as so many shards are there, or a moment later."""
    log = home.folder / "s3.log"
    there = len(outputs(out))  # all of them, if it was killed in its last moment
    wanted = rng.randint(there, max(there, home.shards - 1))
    run = start(command(home, source, out, "--workers", "2"), s3, log)
    while run.poll() is None and len(storage.list_under(out, [".parquet"])) < wanted:
        time.sleep(POLL)
    time.sleep(rng.uniform(0, 0.3))
    if run.poll() is not None:
        assert run.returncode == 0, log.read_text()
        return False
    os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    return True


def names(bucket: str) -> list[str]:
    """All that is in it, not only outputs."""
    return [one.removeprefix(bucket) for one in storage.list_under(bucket, [""])]


def left() -> list[str]:
    """What runs, and was started by one of these trials, by whatever way."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if MARK.encode() in (entry / "environ").read_bytes():
                found.append((entry / "cmdline").read_bytes().decode().replace("\0", " "))
    return found
