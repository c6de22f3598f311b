"""Whose folder it is, and whether a run was asked for the same: one way for all tasks."""

import fcntl
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from naic.errors import ConfigError, StoreError
from naic.resume import (
    best_step,
    checkpoints,
    claim,
    is_held,
    keep_request,
    locked,
    refuse_changed,
    refuse_strangers,
    step_name,
)

REQUEST: dict[str, Any] = {"beam": 3, "model": "x" * 64, "limit": None}


def test_a_request_is_kept_and_the_same_one_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    keep_request(path, REQUEST, "store")
    kept = path.read_bytes()
    assert json.loads(kept) == REQUEST
    keep_request(path, REQUEST, "store")
    assert path.read_bytes() == kept


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"beam": 4}, "it was begun with beam = 3 (now 4)"),
        ({"limit": 5}, "it was begun with no limit (now 5)"),
        ({"model": "y" * 64}, "it was begun with another model"),
        ({"beam": 4, "model": ""}, "it was begun with beam = 3 (now 4), another model"),
    ],
)
def test_another_request_is_refused(tmp_path: Path, change: dict[str, Any], told: str) -> None:
    keep_request(tmp_path / "plan.json", REQUEST, "store")
    with pytest.raises(ConfigError) as caught:
        keep_request(tmp_path / "plan.json", REQUEST | change, "store")
    assert (caught.value.what, caught.value.why) == (str(tmp_path), told)


def test_strangers_are_named_and_left_alone(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "plan.json.1-2.part", "shard-1"):
        (tmp_path / name).touch()
    with pytest.raises(StoreError) as caught:
        keep_request(tmp_path / "plan.json", REQUEST, "feature store", ["shard-*"])
    why = "the folder is not empty (a.txt, b.txt) and holds no feature store"
    assert caught.value.why == why
    assert not (tmp_path / "plan.json").exists()
    refuse_strangers(tmp_path, ["*"], "run")
    refuse_strangers(tmp_path / "none", [], "run")
    with pytest.raises(StoreError, match="it is no folder"):
        refuse_strangers(tmp_path / "a.txt", [], "run")


@pytest.mark.parametrize("damaged", [b"", b"{", b"\xff"])
def test_a_request_that_cannot_be_read_is_refused(tmp_path: Path, damaged: bytes) -> None:
    (tmp_path / "plan.json").write_bytes(damaged)
    with pytest.raises(StoreError, match="cannot be read"):
        keep_request(tmp_path / "plan.json", REQUEST, "store")


def test_what_is_no_request_is_another_one() -> None:
    with pytest.raises(ConfigError, match="begun with no beam"):
        refuse_changed("out", ["beam"], {"beam": 3})


def test_one_run_at_a_time(tmp_path: Path) -> None:
    folder = tmp_path / "a" / "b"
    with claim(folder), pytest.raises(StoreError, match="another run"), claim(folder):
        pass
    with claim(folder, shared=True), claim(folder, shared=True):
        pass


def test_a_look_tells_whether_a_folder_is_held(tmp_path: Path) -> None:
    assert is_held(tmp_path) is False
    for shared in (False, True):
        with locked(tmp_path, shared=shared):
            assert is_held(tmp_path) is True
    assert is_held(tmp_path) is False
    assert is_held(tmp_path / "none") is None


def test_a_look_keeps_nobody_out(tmp_path: Path) -> None:
    """Someone who looks has the lock for a moment; a writer tries again, and then has it."""
    descriptor = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    looking = threading.Timer(0.01, os.close, [descriptor])
    looking.start()
    with locked(tmp_path):
        assert is_held(tmp_path) is True
    looking.join()


def test_checkpoints_come_in_the_order_of_their_steps(tmp_path: Path) -> None:
    names = [step_name(step) for step in (100_000_000, 400, 99_999_999)]
    for name in (*names, ".saving-step-00000500.7", "step-1", "step-00000400-2"):
        (tmp_path / "checkpoints" / name).mkdir(parents=True)
    found = checkpoints(tmp_path)
    assert list(found) == [400, 99_999_999, 100_000_000]
    assert found[400] == tmp_path / "checkpoints" / "step-00000400"


@pytest.mark.parametrize(
    ("target", "step"),
    [("models/step-00000400", 400), ("models/step-00000400-2", 400), ("elsewhere", None)],
)
def test_the_step_of_the_best_model(tmp_path: Path, target: str, step: int | None) -> None:
    (tmp_path / "best").symlink_to(target)
    assert best_step(tmp_path) == step


def test_a_copied_best_model_has_no_step(tmp_path: Path) -> None:
    assert best_step(tmp_path) is None
    (tmp_path / "best").mkdir()
    assert best_step(tmp_path) is None
