"""Whole runs: what is asked, which shards are left, where it stands; processes that are real."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from naic.cli.main import main
from naic.data.features import FeatureStore
from naic.errors import ConfigError, StoreError
from naic.progress import SILENT
from naic.resume import locked
from naic.tasks.shards import folder, run
from naic.tasks.shards.folder import OutFolder, keep_plan, read_plan
from naic.tasks.shards.inputs import Shard, named
from naic.tasks.shards.making import Worker
from naic.tasks.shards.options import CaptionShards, PrepareShards
from naic.tasks.shards.processes import given_up
from naic.tasks.shards.run import ShardsDone, run_shards
from naic.tasks.shards.status import Status, StatusOptions, status
from tests.runtime.small import NETWORK, PIXELS
from tests.tasks.shards.made import captions, make_tar

SHARDS = 4


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Shards are made in this process; which ones is kept."""
    made: list[str] = []

    def in_this(asked: Any, out: Any, shards: Sequence[Shard], done: Any, tell: Any) -> None:
        worker = Worker(asked, tell)
        for shard in shards:
            made.append(shard.name)
            done(worker(shard))

    monkeypatch.setattr(run, "in_processes", in_this)
    return made


def shards(folder: Path) -> str:
    for number in range(SHARDS):
        make_tar(folder / f"in/{number}.tar", range(3 * number, 3 * number + 3))
    return str(folder / "in")


def asked(folder: Path, models: Path, **others: Any) -> CaptionShards:
    both = {"inputs": (str(folder / "in"),), "out": str(folder / "out"), "device": "cpu"}
    return CaptionShards(**(both | {"model": models / "seeing"} | others))


def looked(folder: Path) -> Status:
    return status(StatusOptions(out=str(folder / "out"), images=True))


def test_a_run_goes_on_and_makes_nothing_twice(
    tmp_path: Path, models: Path, here: list[str]
) -> None:
    shards(tmp_path)
    options = asked(tmp_path, models)
    damaged = tmp_path / "in/1.tar"
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:1000])
    done = run_shards(options)
    assert (done.shards, done.made, done.images, len(done.failed)) == (SHARDS, 3, 9, 1)
    found = looked(tmp_path)
    assert [len(own) for own in (found.done, found.failed, found.missing)] == [3, 1, 0]
    assert found.counted()["images"] == 9
    damaged.write_bytes(whole)
    here.clear()
    again = run_shards(options)
    assert here == ["1"]
    assert (again.made, again.resumed, again.failed) == (1, 3, [])
    assert [len(own) for own in (looked(tmp_path).done, looked(tmp_path).failed)] == [SHARDS, 0]
    here.clear()
    assert run_shards(options).resumed == SHARDS
    assert here == []


def test_shares_together_make_all(tmp_path: Path, models: Path, here: list[str]) -> None:
    shards(tmp_path)
    for part in ("2/3", "1/3"):
        run_shards(asked(tmp_path, models, shard=part))
    assert here == ["1", "0", "3"]
    assert [shard.name for shard in looked(tmp_path).missing] == ["2"]
    assert run_shards(asked(tmp_path, models, shard="3/3")).shards == 1
    assert not looked(tmp_path).missing


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"alternatives": 3}, "alternatives"),
        ({"batch": 4}, "batch"),
        ({"inputs": ("in/0.tar",)}, "another list of shards"),
    ],
)
def test_another_request_into_the_same_folder_is_refused(
    tmp_path: Path,
    models: Path,
    here: list[str],
    monkeypatch: pytest.MonkeyPatch,
    other: dict[str, Any],
    what: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    shards(tmp_path)
    run_shards(asked(tmp_path, models, shard="1/4"))
    with pytest.raises(ConfigError, match=f"begun with .*{what}"):
        run_shards(asked(tmp_path, models, **other))
    assert run_shards(asked(tmp_path, models, workers=3, shard="2/4")).made == 1


def test_a_folder_with_something_else_is_refused(
    tmp_path: Path, models: Path, here: list[str]
) -> None:
    shards(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out/diary.txt").touch()
    with pytest.raises(StoreError, match="holds no shards"):
        run_shards(asked(tmp_path, models))
    with pytest.raises(StoreError, match="no run over shards"):
        looked(tmp_path)


def test_two_who_begin_at_once_agree(tmp_path: Path) -> None:
    (tmp_path / "_naic").mkdir()
    (tmp_path / "_naic/plan.json.7-7.part").touch()  # a third was killed while it wrote
    out, listed = OutFolder(str(tmp_path), "caption"), [Shard("/in/0.tar", "0")]
    keep_plan(out, {"batch": 1}, listed)
    keep_plan(out, {"batch": 1}, listed)
    with pytest.raises(ConfigError, match="batch = 1"):
        keep_plan(out, {"batch": 2}, listed)
    assert read_plan(str(tmp_path))[1] == listed


def test_of_two_who_ask_otherwise_at_once_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, listed = OutFolder(str(tmp_path), "caption"), [Shard("/in/0.tar", "0")]
    keep_plan(out, {"batch": 1}, listed)
    monkeypatch.setattr(folder, "exists", lambda _: False)  # it came after the other had looked
    with pytest.raises(ConfigError, match="batch = 1"):
        keep_plan(out, {"batch": 2}, listed)
    keep_plan(out, {"batch": 1}, listed)
    assert [path.name for path in tmp_path.rglob("*.*")] == ["plan.json"]


def test_signed_urls_may_be_signed_anew_and_are_written_nowhere(tmp_path: Path) -> None:
    out = OutFolder(str(tmp_path), "caption")
    for signature in ("first", "second"):
        signed = f"https://me:{signature}@host/in/0.tar?sign={signature}"
        keep_plan(out, {"batch": 1}, [named(signed)])
        given_up(out, named(signed))
    assert read_plan(str(tmp_path))[1] == [Shard("https://host/in/0.tar", "0")]
    written = [path.read_text() for path in tmp_path.rglob("*.json")]
    assert len(written) == 2
    assert not [text for text in written if "sign" in text or "first" in text or "second" in text]


def test_a_dry_run_writes_nothing(tmp_path: Path, models: Path, here: list[str]) -> None:
    shards(tmp_path)
    done = run_shards(asked(tmp_path, models, dry_run=True, shard="1/2"))
    assert (done.shards, done.resumed, here) == (2, 0, [])
    assert not (tmp_path / "out").exists()


def test_halves_of_a_killed_run_are_removed_unless_another_run_is_there(
    tmp_path: Path, models: Path, here: list[str]
) -> None:
    shards(tmp_path)
    run_shards(asked(tmp_path, models, shard="1/2"))
    half = tmp_path / "out" / "0.parquet.1-1.part"
    half.touch()
    with locked(tmp_path / "out", shared=True):
        run_shards(asked(tmp_path, models, shard="2/2"))
        assert half.exists()
    run_shards(asked(tmp_path, models))
    assert not half.exists()


def test_a_run_in_a_folder_of_the_folder_is_another_run(
    tmp_path: Path, models: Path, here: list[str]
) -> None:
    shards(tmp_path)
    run_shards(asked(tmp_path, models, shard="1/2"))
    inner = tmp_path / "out/inner"
    (inner / "_naic/failed").mkdir(parents=True)
    (inner / "1.parquet").touch()
    (inner / "_naic/failed/3.json").touch()
    found = looked(tmp_path)
    assert [[own.name for own in found.done], found.failed] == [["0", "2"], []]
    here.clear()
    run_shards(asked(tmp_path, models))
    assert here == ["1", "3"]


def test_a_run_that_begins_while_another_one_sweeps_is_not_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as sweeping:
        sweeping.enter_context(locked(tmp_path))
        waited: list[float] = []

        def wait(seconds: float) -> None:
            waited.append(seconds)
            if len(waited) == 3:
                sweeping.close()

        monkeypatch.setattr("naic.resume.time.sleep", wait)
        with run._swept(OutFolder(str(tmp_path), "caption")):
            half = tmp_path / "0.parquet.1-1.part"
            half.touch()
            run._sweep(tmp_path)  # of a third
            assert half.exists()
    assert len(waited) >= 3


def test_features_become_a_store_when_the_last_shard_is_there(
    tmp_path: Path, here: list[str]
) -> None:
    def features(part: str) -> ShardsDone:
        shards(tmp_path)
        out, inputs = str(tmp_path / "out"), (str(tmp_path / "in"),)
        options = PrepareShards(
            inputs=inputs, out=out, backbone=NETWORK, pixels=PIXELS, device="cpu", shard=part
        )
        return run_shards(options, SILENT)

    assert not features("1/2").joined
    with pytest.raises(StoreError):
        FeatureStore(tmp_path / "out")
    assert main(["shards", "join", str(tmp_path / "out")]) == 3
    assert len(FeatureStore(tmp_path / "out")) == 6
    assert features("2/2").joined
    assert len(FeatureStore(tmp_path / "out")) == 12
    assert main(["shards", "join", str(tmp_path / "out")]) == 0


def command(folder: Path, models: Path, *more: str) -> list[str]:
    words = ["shards", "caption", str(folder / "in"), "--out", str(folder / "out")]
    return [*words, "--model", str(models / "seeing"), "--device", "cpu", *more]


def test_the_command_with_a_process_of_its_own(
    tmp_path: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards(tmp_path)
    (tmp_path / "in/2.tar").write_bytes(b"no tar")
    assert main(command(tmp_path, models, "--workers", "1")) == 3
    told = capsys.readouterr()
    assert "2.tar: it cannot be read as a tar" in told.err
    assert "3 of 4" in told.out
    assert [row["key"] for row in captions(tmp_path / "out/1.parquet")] == ["0003", "0004", "0005"]
    assert main(["shards", "status", str(tmp_path / "out")]) == 3
    assert "2.tar: it cannot be read" in capsys.readouterr().out
    assert main(["shards", "status", str(tmp_path / "out"), "--json"]) == 3
    found = json.loads(capsys.readouterr().out)
    assert (found["shards"], found["done"], found["missing"]) == (4, 3, [])
    (tmp_path / "in/2.tar").unlink()
    make_tar(tmp_path / "in/2.tar", range(2))
    assert main(command(tmp_path, models, "--workers", "1")) == 0
    assert main(["shards", "status", str(tmp_path / "out")]) == 0


def test_the_tasks_are_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["shards", "--help"]) == 0
    assert "distil" in capsys.readouterr().out
    assert main(["shards"]) == 2
    assert main(["shards", "captions", "in"]) == 2
    assert "no such task" in capsys.readouterr().err


def test_a_model_that_is_not_there_stops_the_run(
    tmp_path: Path, models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shards(tmp_path)
    words = command(tmp_path, models, "--workers", "1")
    (tmp_path / "broken.onnx").touch()
    words[words.index("--model") + 1] = str(tmp_path / "broken.onnx")
    assert main(words) == 1
    assert "broken" in capsys.readouterr().err


def start(folder: Path, models: Path) -> "subprocess.Popen[bytes]":
    words = [sys.executable, "-m", "naic", *command(folder, models, "--workers", "2")]
    return subprocess.Popen(words, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)


def children(process: int) -> list[int]:
    """Of all its threads: each starts one."""
    lists = Path(f"/proc/{process}/task").glob("*/children")
    return [int(number) for listed in lists for number in listed.read_text().split()]


def outputs(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in (folder / "out").glob("*.parquet")}


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="children are found in /proc")
def test_kills_and_stops_leave_nothing_half_and_the_end_is_the_same(
    tmp_path: Path, models: Path
) -> None:
    """Three workers killed, the run stopped by SIGTERM, and killed itself: then it is finished."""
    for number in range(12):
        make_tar(tmp_path / f"in/{number:02d}.tar", range(40))
    whole = tmp_path / "whole"
    (whole / "in").parent.mkdir()
    (whole / "in").symlink_to(tmp_path / "in")
    with start(whole, models) as process:
        assert process.wait() == 0
    with start(tmp_path, models) as process:
        for _ in range(3):
            before = len(outputs(tmp_path))
            while len(outputs(tmp_path)) == before and process.poll() is None:
                time.sleep(0.05)
            os.kill(children(process.pid)[0], signal.SIGKILL)
        assert process.poll() is None
        process.terminate()
        assert process.wait() == 130
    assert not list((tmp_path / "out").rglob("*.part"))
    with start(tmp_path, models) as process:
        workers: list[int] = []
        while len(workers) < 2:
            workers = children(process.pid)
        process.kill()
    with start(tmp_path, models) as process:
        assert process.wait() == 0
    assert outputs(tmp_path) == outputs(whole)
    assert not list((tmp_path / "out").rglob("*.part"))
