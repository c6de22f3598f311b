"""Checkpoints: they come back as they were, and are refused when they are not what was written."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from naic.errors import CheckpointError, StoreError, WriteError
from naic.resume import locked
from naic.train import checkpoint
from naic.train.checkpoint import latest, load, save
from tests.train.snapshots import FILES, assert_same, names, snapshot


def resave(path: Path, change: Callable[[dict[str, Any]], object]) -> None:
    """Change state.json as somebody would who knows the format: the checksum is right."""
    content = json.loads((path / "state.json").read_text())
    del content["crc32"]
    change(content)
    content["crc32"] = checkpoint._crc32(content)
    (path / "state.json").write_text(json.dumps(content))


def test_a_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    path = save(tmp_path, snapshot(400))
    assert path == tmp_path / "checkpoints" / "step-00000400"
    assert names(path) == set(FILES)
    assert latest(tmp_path) == path
    assert_same(load(path), snapshot(400))


def test_saving_the_same_twice_writes_the_same_bytes(tmp_path: Path) -> None:
    first, second = save(tmp_path / "a", snapshot(1)), save(tmp_path / "b", snapshot(1))
    for name in FILES:
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_no_checkpoint_yet(tmp_path: Path) -> None:
    assert latest(tmp_path) is None
    assert latest(tmp_path / "gone") is None


def test_the_newest_are_kept(tmp_path: Path) -> None:
    for step in (99_999_999, 100_000_000, 100_000_001):  # names of unlike length, too
        path = save(tmp_path, snapshot(step))
        assert latest(tmp_path) == path
    assert names(tmp_path / "checkpoints") == {"step-100000000", "step-100000001"}
    save(tmp_path, snapshot(100_000_002), keep=1)
    assert names(tmp_path / "checkpoints") == {"step-100000002"}


def test_the_one_just_written_is_never_pruned(tmp_path: Path) -> None:
    for step in (500, 600):
        save(tmp_path, snapshot(step))
    assert save(tmp_path, snapshot(100), keep=1).exists()


def test_a_step_is_not_saved_twice(tmp_path: Path) -> None:
    path = save(tmp_path, snapshot(5))
    with pytest.raises(CheckpointError, match="is there already"):
        save(tmp_path, snapshot(5))
    assert_same(load(path), snapshot(5))


def test_state_that_is_no_json_is_not_saved(tmp_path: Path) -> None:
    bad = snapshot(5)
    bad.state["best"] = float("-inf")
    with pytest.raises(ValueError, match="not JSON compliant"):
        save(tmp_path, bad)
    assert names(tmp_path / "checkpoints") == set()


def test_a_full_disk_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = save(tmp_path, snapshot(1))

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(WriteError, match="step-00000002: the disk is full"):
            save(tmp_path, snapshot(2))
    assert names(tmp_path / "checkpoints") == {"step-00000001"}
    assert_same(load(old), snapshot(1))


@pytest.mark.parametrize("name", FILES)
def test_every_cut_of_every_file_is_refused(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, snapshot(1))
    whole = (path / name).read_bytes()
    end = len(whole.rstrip())  # without its last newline, state.json says the same
    for length in {*range(0, end, 7), end - 1}:
        (path / name).write_bytes(whole[:length])
        with pytest.raises(CheckpointError) as caught:
            load(path)
        assert caught.value.what == str(path / name)
    (path / name).write_bytes(whole)
    assert_same(load(path), snapshot(1))


@pytest.mark.parametrize("name", FILES)
def test_every_flipped_byte_of_every_file_is_refused(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, snapshot(1))
    whole = bytearray((path / name).read_bytes())
    refused = 0
    for place in range(len(whole)):
        whole[place] ^= 1 << place % 8
        (path / name).write_bytes(whole)
        try:
            found = load(path)
        except CheckpointError:
            refused += 1
        else:  # a tab for a space between two keys
            assert name == "state.json"
            assert_same(found, snapshot(1))
        whole[place] ^= 1 << place % 8
    assert refused == len(whole) if name != "state.json" else refused > len(whole) // 2


@pytest.mark.parametrize("name", FILES)
def test_missing_files_and_links_are_refused(name: str, tmp_path: Path) -> None:
    path = save(tmp_path, snapshot(1))
    (path / name).rename(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=f"{name}: is missing"):
        load(path)
    (path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(CheckpointError, match=f"{name}: is no regular file"):
        load(path)
    (path / name).unlink()
    os.mkfifo(path / name)  # reading it would never end
    with pytest.raises(CheckpointError, match=f"{name}: is no regular file"):
        load(path)


def test_a_link_to_a_checkpoint_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "far", snapshot(1))
    (tmp_path / "run" / "checkpoints").mkdir(parents=True)
    (tmp_path / "run" / "checkpoints" / path.name).symlink_to(path)
    found = latest(tmp_path / "run")
    assert found is not None
    with pytest.raises(CheckpointError, match="is no folder"):
        load(found)


def _escape(content: dict[str, Any]) -> None:
    content["files"]["../model.safetensors"] = content["files"].pop("model.safetensors")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda c: c.update(format="other"), "is not of a checkpoint"),
        (lambda c: c.update(version=2), "has version 2, and this naic reads 1"),
        (lambda c: c.update(step=2), "is of step 2, which is not its folder's name"),
        (lambda c: c.update(step=[1]), "is of step"),
        (lambda c: c.update(more=1), "does not have the keys of a checkpoint"),
        (lambda c: c.update(state=[]), "does not have the keys of a checkpoint"),
        (lambda c: c["files"].pop("average.safetensors"), "does not have the keys"),
        (lambda c: c["files"].update({"model.safetensors": 3}), "does not have the keys"),
        (lambda c: c["files"]["model.safetensors"].update(bytes="9"), "does not have the keys"),
        (_escape, "does not have the keys of a checkpoint"),
    ],
)
def test_a_foreign_state_is_refused(
    change: Callable[[dict[str, Any]], object], why: str, tmp_path: Path
) -> None:
    path = save(tmp_path, snapshot(1))
    resave(path, change)
    with pytest.raises(CheckpointError, match=why):
        load(path)


@pytest.mark.parametrize("text", ["[]", "3", "null", '{"step": 1}', "[" * 100_000, "NaN", "\xff"])
def test_foreign_json_is_refused(text: str, tmp_path: Path) -> None:
    path = save(tmp_path, snapshot(1))
    (path / "state.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(CheckpointError, match=r"state\.json: is no"):
        load(path)


class Bomb:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def test_a_pickled_part_is_refused_and_not_run(tmp_path: Path) -> None:
    path = save(tmp_path, snapshot(1))
    torch.save({"a.weight": Bomb(tmp_path / "it ran")}, path / "model.safetensors")
    with pytest.raises(CheckpointError, match="safetensors only; nothing in it was run"):
        load(path)
    assert not (tmp_path / "it ran").exists()


def test_a_damaged_newest_is_refused_and_the_older_one_named(tmp_path: Path) -> None:
    for step in (1, 2, 3):
        save(tmp_path, snapshot(step), keep=3)
    found = latest(tmp_path)
    assert found is not None
    (found / "model.safetensors").write_bytes(b"")
    (tmp_path / "checkpoints" / "step-00000002" / "state.json").unlink()
    with pytest.raises(CheckpointError) as caught:
        load(found)
    assert f"delete {found} to go on from step-00000001" in caught.value.hint
    assert latest(tmp_path) == found  # and nobody went back in silence
    shutil.rmtree(tmp_path / "checkpoints" / "step-00000001")
    with pytest.raises(CheckpointError) as caught:
        load(found)
    assert "go on from" not in caught.value.hint


def test_two_runs_cannot_share_a_folder(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from naic.resume import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print('got it')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with locked(tmp_path):
        save(tmp_path, snapshot(1))  # saving does not let go of the lock
        with pytest.raises(StoreError, match="another run is writing"), locked(tmp_path):
            pass
        second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode != 0
    assert "another run is writing to this folder" in second.stderr


def test_all_is_on_the_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync, rename = os.fsync, Path.rename
    synced: set[int] = set()
    before: list[set[int]] = []

    def noted_fsync(descriptor: int) -> None:
        fsync(descriptor)
        synced.add(os.fstat(descriptor).st_ino)

    def noted_rename(path: Path, target: Path) -> Path:
        before.append(set(synced))
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(Path, "rename", noted_rename)
    path = save(tmp_path, snapshot(1))
    assert before == [before[0]]
    assert {found.stat().st_ino for found in (path, *path.iterdir())} <= before[0]
    assert path.parent.stat().st_ino in synced - before[0]  # and then the name itself
