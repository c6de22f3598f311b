"""Ray with real workers and real clusters, and an object store: minutes, in `make check-slow`."""

import importlib.util
import time
from collections.abc import Iterator

import pytest

from tests.s3 import reach, serving_s3
from tests.tasks.shards import faults
from tests.tasks.shards.faults import Home

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="no Ray")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return faults.make_home(tmp_path_factory.mktemp("shards"), shards=12, per_shard=100)


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    yield
    by = time.monotonic() + 30
    while left := faults.left():
        assert time.monotonic() < by, left
        time.sleep(0.1)


@needs_ray
def test_two_workers_make_the_bytes_of_one_process(home: Home) -> None:
    found = faults.two_workers(home)
    assert found == {"shards": 12, "identical": True, "different": [], "halves": 0}


@needs_ray
def test_workers_that_are_killed_are_replaced(home: Home) -> None:
    found = faults.workers_killed(home, kills=3)
    assert found["kills"] == 3
    assert found["told"] >= 1  # one that is killed twice over a shard is told of once
    assert found["identical"]
    assert found["halves"] == 0


@needs_ray
def test_when_the_head_is_gone_the_same_command_finishes(home: Home) -> None:
    found = faults.head_killed(home, after=3)
    assert found["exit code"] == 1
    assert "naic shards: the Ray cluster" in found["said"]
    assert "give the same command again" in found["said"]
    assert f"({found['shards before']} from before)" in found["said again"] or (
        found["shards before"] >= 3
    )
    assert found["identical"]
    assert found["halves"] == 0


@needs_ray
def test_a_damaged_shard_is_named_and_the_rest_is_done(home: Home) -> None:
    found = faults.shard_damaged(home)
    assert found["exit code"] == 3
    assert f"{faults.DAMAGED:03d}.tar" in found["named"]
    assert found["shards"] == 11
    assert found["identical"]


def test_runs_to_a_bucket_that_are_killed_ten_times(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving_s3() as environment:
        reach(environment, monkeypatch)
        found = faults.store_kills(home, environment, kills=10)
    assert found["kills"] >= 10
    assert found["identical"]
    assert any(0 < shards < 12 for shards in found["shards whole after each kill"])
