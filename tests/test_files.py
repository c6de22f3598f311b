import os
import pwd
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from naic.errors import CheckpointError, ConfigError, StoreError, WriteError
from naic.files import (
    cache_folder,
    remove_folder,
    remove_temporaries,
    sweep,
    whole_folder,
    write_atomically,
)
from naic.resume import locked


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


def test_ctrl_c_leaves_no_temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stop)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "a.json", b"new")
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "far" / "a.json").write_bytes(b"old")
    link = tmp_path / "link.json"
    link.symlink_to("far/a.json")
    write_atomically(link, b"new")
    assert link.is_symlink()
    assert (tmp_path / "far" / "a.json").read_bytes() == b"new"
    dangling = tmp_path / "dangling.json"
    dangling.symlink_to("far/b.json")
    write_atomically(dangling, b"new")
    assert (tmp_path / "far" / "b.json").read_bytes() == b"new"


def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("pipe")
    for path in (pipe, link, tmp_path, Path(), Path("/dev/null")):
        with pytest.raises(WriteError, match="it is there, and is no regular file"):
            write_atomically(path, b"")
    assert pipe.is_fifo()
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize("length", [250, 255, 256, 5000])
def test_names_that_are_too_long(length: int, tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"cannot be written \(File name too long\)"):
        write_atomically(tmp_path / ("x" * length), b"")
    assert list(tmp_path.iterdir()) == []


def test_only_our_own_temporaries_are_removed(tmp_path: Path) -> None:
    for name in ("a.json.123.part", "a.json", "film.part", "b.json.1.part"):
        (tmp_path / name).touch()
    remove_temporaries(tmp_path, "a.*", "plan.json")
    assert {path.name for path in tmp_path.iterdir()} == {"a.json", "film.part", "b.json.1.part"}


def test_a_locked_folder_refuses_another_process(tmp_path: Path) -> None:
    code = (
        "import sys, pathlib; from naic.resume import locked\n"
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


def test_a_folder_can_be_shared_by_those_who_know_of_each_other(tmp_path: Path) -> None:
    """The kernel looks at descriptors, not at processes: one process can try it."""

    def refused(*, shared: bool) -> bool:
        try:
            with locked(tmp_path, shared=shared):
                return False
        except StoreError as error:
            return "another run is writing to this folder" in error.why

    with locked(tmp_path, shared=True):
        assert (refused(shared=True), refused(shared=False)) == (False, True)
    with locked(tmp_path):
        assert (refused(shared=True), refused(shared=False)) == (True, True)
    assert (refused(shared=True), refused(shared=False)) == (False, False)


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAIC_CACHE", "somewhere")
    assert cache_folder() == Path("somewhere")
    monkeypatch.delenv("NAIC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "caches")
    assert cache_folder() == Path("caches/naic")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == Path.home() / ".cache" / "naic"


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NAIC_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)

    def unknown(_: int) -> None:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    with pytest.raises(ConfigError, match=r"NAIC_CACHE: it is not set, and .* no home folder"):
        cache_folder()


def test_threads_that_write_the_same_file_do_not_meet(tmp_path: Path) -> None:
    path = tmp_path / "table"
    contents = [bytes([i]) * 100_000 for i in range(4)]
    with ThreadPoolExecutor(4) as pool:
        for _ in range(20):
            list(pool.map(lambda content: write_atomically(path, content), contents))
            assert path.read_bytes() in contents
    assert list(tmp_path.iterdir()) == [path]


def test_leftovers_are_swept_and_nothing_else(tmp_path: Path) -> None:
    for name in (".saving-step-1.7", ".removed-step-1.7", "step-1", ".mine"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").touch()
    sweep(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {"step-1", ".mine"}


def test_a_link_is_removed_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "step-1").symlink_to("far")
    remove_folder(tmp_path / "step-1")
    assert [path.name for path in tmp_path.iterdir()] == ["far"]


def test_the_rest_of_a_dead_process_with_our_number_is_no_obstacle(tmp_path: Path) -> None:
    (tmp_path / f".saving-m.{os.getpid()}").mkdir()
    (tmp_path / f".saving-m.{os.getpid()}" / "old").touch()
    with whole_folder(tmp_path / "m") as temporary:
        (temporary / "new").touch()
    assert [path.name for path in (tmp_path / "m").iterdir()] == ["new"]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_folder_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    def stop() -> None:
        with whole_folder(tmp_path / "deep" / "m") as temporary:
            (temporary / "half").touch()
            assert not (tmp_path / "deep" / "m").exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        stop()
    assert list((tmp_path / "deep").iterdir()) == []
    (tmp_path / "m").symlink_to("nowhere")  # a name that is taken, though nothing is there
    with pytest.raises(CheckpointError, match="m: is there already"), whole_folder(tmp_path / "m"):
        pytest.fail("it was entered")


def test_no_half_of_a_removed_folder_has_its_name(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "a").touch()
    seen: list[str] = []

    def look(path: Path) -> None:
        seen.extend(found.name for found in path.parent.iterdir())

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("naic.files.shutil.rmtree", look)
        remove_folder(tmp_path / "m")
    assert seen == [f".removed-m.{os.getpid()}"]
    sweep(tmp_path)
    assert list(tmp_path.iterdir()) == []
