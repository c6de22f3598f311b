import os
import subprocess
import sys
from pathlib import Path

import pytest

from naic.errors import WriteError
from naic.files import cache_folder, locked, remove_temporaries, write_atomically


def test_a_write_replaces_the_file_and_leaves_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_failed_write_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(WriteError, match=r"a\.json: the disk is full\. Free some space"):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="No such file or directory"):
        write_atomically(tmp_path / "gone" / "a.json", b"")


def test_only_our_own_temporaries_are_removed(tmp_path: Path) -> None:
    for name in ("a.json.123.part", "a.json", "film.part", "b.json.1.part"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path, "a.*", "plan.json")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "film.part", "b.json.1.part"}


def test_a_locked_folder_refuses_another_process(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from naic.files import locked\n"
        "with locked(pathlib.Path(sys.argv[1])): print('got it')"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    with locked(tmp_path):
        second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "another run is writing to this folder" in second.stderr
    third = subprocess.run(command, capture_output=True, text=True, check=True)
    assert third.stdout == "got it\n"
    assert list(tmp_path.iterdir()) == []


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAIC_CACHE", "somewhere")
    assert cache_folder() == Path("somewhere")
    monkeypatch.delenv("NAIC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert cache_folder() == Path("caches/naic")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "naic"
