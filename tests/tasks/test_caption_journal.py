import errno
import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.data.records import Problem
from naic.errors import ConfigError, StoreError, WriteError
from naic.tasks import caption_journal
from naic.tasks.caption_journal import Start, journal

PLAN = {"pictures": 10, "model": "m"}
OUTCOMES = [Problem("2", "it is torn", "Mend it.") if n == 2 else f"row {n} é\n" for n in range(10)]
WHOLE = "".join(f"row {n} é\n\n" for n in range(10) if n != 2)


def lines(rows: Iterable[str]) -> Iterable[str]:
    return (f"{row}\n" for row in rows)


def work(out: Path, *, upto: int = 10, batch: int = 3, **plan: Any) -> int:
    """A run that ends before outcome `upto`, or finishes; where it began."""
    with journal(out, PLAN | plan, Start, batch) as book:
        began = book.done
        for outcome in OUTCOMES[began:upto]:
            book.add(outcome)
        if upto < len(OUTCOMES):
            raise KeyboardInterrupt
        book.finish(lines)
    return began


def broken(out: Path, upto: int, **plan: Any) -> None:
    with pytest.raises(KeyboardInterrupt):
        work(out, upto=upto, **plan)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "captions.txt"


def part(out: Path) -> Path:
    return out.with_name(out.name + ".part")


def test_a_run_at_one_go(out: Path) -> None:
    assert work(out) == 0
    assert out.read_text() == WHOLE
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_whole_batches_are_taken_up(out: Path) -> None:
    broken(out, 8)
    assert not out.exists()
    assert work(out) == 6
    assert out.read_text() == WHOLE


def test_a_finished_list_is_taken_up_whole(out: Path) -> None:
    with journal(out, PLAN, Start, 3) as book:  # and killed before the file is made
        for outcome in OUTCOMES:
            book.add(outcome)
    with journal(out, PLAN, Start, 3) as book:
        assert (book.done, book.rows, book.problems) == (10, 9, [OUTCOMES[2]])
        book.finish(lines)
    assert out.read_text() == WHOLE


@given(st.integers(0, 600), st.binary(max_size=4), st.integers(1, 11))
def test_a_journal_cut_anywhere_leads_to_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, cut: int, garbage: bytes, batch: int
) -> None:
    out = tmp_path_factory.getbasetemp() / "cut" / "captions.txt"
    out.parent.mkdir(exist_ok=True)
    broken(out, 9)
    header = part(out).read_bytes().index(b"\n") + 1
    whole = part(out).read_bytes()
    # What a power cut may leave in place of a line stands after the header, which was there first.
    part(out).write_bytes(whole[:cut] + (garbage if cut >= header else b""))
    work(out, batch=batch)
    assert out.read_text() == WHOLE
    assert not part(out).exists()
    out.unlink()


def test_a_run_that_was_begun_otherwise_is_refused(out: Path) -> None:
    broken(out, 5)
    before = part(out).read_bytes()
    with pytest.raises(ConfigError, match=r"captions.txt.part: .* begun otherwise \(model\)"):
        work(out, model="other")
    assert part(out).read_bytes() == before
    assert work(out) == 3


@pytest.mark.parametrize(
    "content", [b"download\n", b"download", b'{"naic caption journal": 1, }\n']
)
def test_a_file_of_somebody_else_is_left_alone(out: Path, content: bytes) -> None:
    part(out).write_bytes(content)
    with pytest.raises(WriteError, match="is no journal of naic caption"):
        work(out)
    assert part(out).read_bytes() == content


def test_a_journal_that_is_no_file_is_refused(out: Path) -> None:
    part(out).mkdir()
    with pytest.raises(WriteError, match="it is no regular file"):
        work(out)
    part(out).rmdir()
    os.mkfifo(part(out))
    with pytest.raises(WriteError, match="it is no regular file"):
        work(out)


def test_two_runs_into_one_file_are_refused(out: Path) -> None:
    with journal(out, PLAN, Start, 3) as book:
        book.add(OUTCOMES[0])
        with pytest.raises(StoreError, match=r"captions\.txt: another run is writing to it"):
            work(out)
        assert part(out).exists()
        other = out.with_name("link")
        other.symlink_to(out)
        with pytest.raises(StoreError, match="link: another run is writing to it"):
            work(other)


def test_a_disk_without_locks_is_told_of(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(file: object, flags: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"cannot be locked .*No locks available"):
        work(out)


def test_a_journal_that_was_finished_while_we_waited_is_not_used(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is gone, or another file's, though we hold a lock on it."""
    lock, tries = caption_journal._lock, []

    def late(file: Any, name: str) -> None:
        tries.append(name)
        if len(tries) == 1:
            part(out).unlink()
        if len(tries) == 2:
            part(out).unlink()
            part(out).touch()
        lock(file, name)

    monkeypatch.setattr(caption_journal, "_lock", late)
    work(out)
    assert len(tries) == 3
    assert out.read_text() == WHOLE


def test_a_run_that_fails_before_its_first_caption_leaves_nothing(out: Path) -> None:
    broken(out, 0)
    assert list(out.parent.iterdir()) == []
    broken(out, 4)
    broken(out, 3)  # of an earlier run something is there
    assert part(out).exists()


def test_a_file_that_somebody_wrote_meanwhile_is_not_lost(out: Path) -> None:
    broken(out, 5)
    out.write_text("precious")
    with pytest.raises(WriteError, match="somebody else has written to it"):
        work(out)
    assert out.read_text() == "precious"
    out.unlink()
    assert work(out) == 10
    assert out.read_text() == WHOLE
    assert [path.name for path in out.parent.iterdir()] == [out.name]


def test_a_kill_between_the_rename_and_the_end(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is there and whole, and so is the journal."""

    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    start = Start(held=["old"], digest=None)
    monkeypatch.setattr(caption_journal, "sync_folder", killed)
    with journal(out, PLAN, lambda: start, 3) as book:
        for outcome in OUTCOMES:
            book.add(outcome)
        with pytest.raises(KeyboardInterrupt):
            book.finish(lines)
    assert out.read_text() == f"old\n{WHOLE}"
    assert part(out).exists()
    monkeypatch.undo()
    assert work(out) == 10
    assert out.read_text() == f"old\n{WHOLE}"  # and not twice
    assert not part(out).exists()


def test_what_was_found_at_the_beginning_is_kept(out: Path) -> None:
    begun = Start(skipped=[1, 4], held=["caf\udce9"], digest=None)
    for start in (begun, Start()):
        with journal(out, PLAN, partial(Start, **asdict(start)), 2) as book:
            assert book.start == begun
            book.add("x")
            book.add("y")
    with journal(out, PLAN, Start, 2) as book:  # asked only at the beginning
        assert (list(book.start.skipped), list(book.start.held)) == ([1, 4], ["caf\udce9"])
        assert book.done == 4
        book.finish(lines)
    assert out.read_bytes() == b"caf\xe9\nx\ny\nx\ny\n"


def test_a_link_is_followed(out: Path) -> None:
    real = out.parent / "real.txt"
    out.symlink_to(real)
    work(out)
    assert out.is_symlink()
    assert real.read_text() == WHOLE


def test_a_full_disk_is_told_of_and_nothing_is_lost(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken(out, 6)
    with monkeypatch.context() as patch:

        def full(descriptor: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        patch.setattr(os, "fsync", full)
        with pytest.raises(WriteError, match="the disk is full"):
            work(out)
    assert [path.name for path in out.parent.iterdir()] == [part(out).name]
    assert work(out) == 10
    assert out.read_text() == WHOLE


def test_a_disk_that_fills_in_the_middle_of_a_line(out: Path) -> None:
    """The part of a line that was written is cut off when the run goes on."""

    class Full:
        def __init__(self, file: Any, space: int) -> None:
            self.file, self.space = file, space

        def write(self, data: memoryview) -> int:
            if not self.space:
                raise OSError(errno.ENOSPC, "No space left on device")
            taken: int = self.file.write(data[: self.space])
            self.space -= taken
            return taken

    with journal(out, PLAN, Start, 1) as book:
        book.add(OUTCOMES[0])
        file: Any = Full(book._file, 7)
        book._file = file
        with pytest.raises(WriteError, match="the disk is full"):
            book.add(OUTCOMES[1])
    assert len(part(out).read_bytes().splitlines()) == 3
    assert work(out, batch=1) == 1
    assert out.read_text() == WHOLE


def test_a_folder_that_is_not_there(out: Path) -> None:
    with pytest.raises(WriteError, match=r"cannot be written \(No such file or directory\)"):
        work(out.parent / "none" / "captions.txt")


def test_the_journal_is_lines_of_json(out: Path) -> None:
    broken(out, 3)
    first, *rest = part(out).read_text().splitlines()
    assert json.loads(first)["plan"] == PLAN
    assert json.loads(rest[0]) == [0, OUTCOMES[0]]
    problem = OUTCOMES[2]
    assert isinstance(problem, Problem)
    assert json.loads(rest[2]) == [2, {"where": "2", "why": "it is torn", "hint": "Mend it."}]
