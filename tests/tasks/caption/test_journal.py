import errno
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic import resume
from naic.errors import ConfigError, Problem, StoreError, WriteError
from naic.tasks.caption import journal as journal_module
from naic.tasks.caption.journal import Start, journal

PLAN = {"format": "text", "model": "m"}
NAMES = [f"{number}.jpg" for number in range(10)]
OUTCOMES = [Problem("2", "it is torn", "Mend it.") if n == 2 else f"row {n} é\n" for n in range(10)]
WHOLE = "".join(f"row {n} é\n\n" for n in range(10) if n != 2)


def lines(rows: Iterable[str]) -> Iterable[str]:
    return (f"{row}\n" for row in rows)


def silent(problem: Problem) -> None:
    raise AssertionError(problem)


def work(
    out: Path,
    *,
    upto: int = 10,
    batch: int = 3,
    names: Sequence[str] = NAMES,
    warn: Callable[[Problem], None] = silent,
    **plan: Any,
) -> int:
    """A run that ends before outcome `upto`, or finishes; where it began."""
    with journal(out, PLAN | plan, Start, warn) as book:
        left = book.take_up(names, batch)
        began = len(names) - len(left)
        assert began == book.rows + len(book.problems)
        for number in left[: upto - began]:
            book.add(number, OUTCOMES[NAMES.index(names[number])])
        if upto < len(OUTCOMES):
            raise KeyboardInterrupt
        book.finish(lines)
    return began


def fill(book: journal_module.Journal, outcomes: Sequence[str | Problem] = OUTCOMES) -> None:
    left = book.take_up([f"{number}.jpg" for number in range(len(outcomes))], 3)
    for number in left:
        book.add(number, outcomes[number])


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
    with journal(out, PLAN, Start, silent) as book:  # and killed before the file is made
        fill(book)
    with journal(out, PLAN, Start, silent) as book:
        assert book.take_up(NAMES, 3) == []
        assert (book.rows, book.problems) == (9, [OUTCOMES[2]])
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
    with pytest.raises(
        ConfigError, match=r"captions.txt.part: it was begun with model = 'm' \(now 'other'\)"
    ):
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
    with journal(out, PLAN, Start, silent) as book:
        fill(book, OUTCOMES[:1])
        with pytest.raises(StoreError, match=r"captions\.txt: another run is writing to it"):
            work(out)
        assert part(out).exists()
        other = out.with_name("link")
        other.symlink_to(out)
        with pytest.raises(StoreError, match="link: another run is writing to it"):
            work(other)


@pytest.mark.parametrize("kind", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOTSUP])
def test_a_disk_without_locks_is_told_of_and_written_to(
    out: Path, monkeypatch: pytest.MonkeyPatch, kind: int
) -> None:
    def refuse(file: object, flags: int) -> None:
        raise OSError(kind, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    told: list[Problem] = []
    work(out, warn=told.append)
    assert out.read_text() == WHOLE
    why = "it cannot be locked against other runs (No locks available)"
    assert [(problem.where, problem.why) for problem in told] == [(str(out), why)]


def test_a_disk_that_fails_to_lock_is_not_written_to(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(file: object, flags: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", fail)
    with pytest.raises(StoreError, match=r"cannot be locked .*Input/output error"):
        work(out)
    assert not out.exists()


def test_a_journal_that_was_finished_while_we_waited_is_not_used(
    out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name is gone, or another file's, though we hold a lock on it."""
    lock, tries = resume._lock, []

    def late(file: Any, name: str) -> Problem | None:
        tries.append(name)
        if len(tries) == 1:
            part(out).unlink()
        if len(tries) == 2:
            part(out).unlink()
            part(out).touch()
        return lock(file, name)

    monkeypatch.setattr(resume, "_lock", late)
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
    monkeypatch.setattr(journal_module, "sync_folder", killed)
    with journal(out, PLAN, lambda: start, silent) as book:
        fill(book)
        with pytest.raises(KeyboardInterrupt):
            book.finish(lines)
    assert out.read_text() == f"old\n{WHOLE}"
    assert part(out).exists()
    monkeypatch.undo()
    assert work(out) == 10
    assert out.read_text() == f"old\n{WHOLE}"  # and not twice
    assert not part(out).exists()


def test_what_was_found_at_the_beginning_is_kept(out: Path) -> None:
    begun = Start(held=["caf\udce9"], digest=None)
    names = ["1", "2", "3", "4"]
    for start in (begun, Start()):  # asked only at the beginning
        with journal(out, PLAN, partial(Start, **asdict(start)), silent) as book:
            assert book.start == begun
            for number in book.take_up(names, 2)[:2]:
                book.add(number, f"row {number}")
    with journal(out, PLAN, Start, silent) as book:
        assert list(book.start.held) == ["caf\udce9"]
        assert book.take_up(names, 2) == []
        book.finish(lines)
    assert out.read_bytes() == b"caf\xe9\nrow 0\nrow 1\nrow 2\nrow 3\n"


def test_images_that_came_and_went_meanwhile(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is said of those that are still there is kept; the file has the order of the new."""
    monkeypatch.chdir(tmp_path)
    before = ["0.jpg", "1.jpg", "3.jpg", "5.jpg", "7.jpg"]
    broken(out, 4, names=before, batch=2)
    after = ["9.jpg", "5.jpg", "2.jpg", "1.jpg", "4.jpg", "3.jpg"]
    broken(out, 5, names=after, batch=2)  # of 0.jpg, 1.jpg, 3.jpg, 5.jpg three are wanted
    assert work(out, names=after, batch=2) == 5
    assert out.read_text() == "".join(f"row {n} é\n\n" for n in (9, 5, 1, 4, 3))


def test_captions_of_images_that_are_there_are_not_lost(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "0.jpg").touch()
    broken(out, 6)
    before = part(out).read_bytes()
    why = r"captions\.txt\.part: it has a caption of 0\.jpg, which this command does not name"
    with pytest.raises(ConfigError, match=why):
        work(out, names=NAMES[1:])
    assert part(out).read_bytes() == before
    (tmp_path / "0.jpg").unlink()
    assert work(out, names=NAMES[1:]) == 5


def test_an_image_of_a_folder_that_is_gone_is_not_taken_for_deleted(
    out: Path, tmp_path: Path
) -> None:
    """Its disk may not be mounted."""
    (tmp_path / "usb").mkdir()
    there = [f"{tmp_path}/usb/1.jpg", f"{tmp_path}/2.jpg"]
    with journal(out, PLAN, Start, silent) as book:
        book.take_up(there, 1)
        book.add(0, "row")
    (tmp_path / "usb").rmdir()
    with (
        journal(out, PLAN, Start, silent) as book,
        pytest.raises(ConfigError, match=r"usb/1\.jpg, and the folder .* is gone") as caught,
    ):
        book.take_up(there[1:], 1)
    assert part(out).exists()
    assert "make an empty folder in its place" in caught.value.hint
    (tmp_path / "usb").mkdir()
    with journal(out, PLAN, Start, silent) as book:
        assert book.take_up(there[1:], 1) == [0]


def test_a_problem_of_an_image_that_is_not_named_any_more_is_no_loss(
    out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a RAW file that has a JPEG beside it by now."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "2.jpg").touch()
    broken(out, 6)
    assert work(out, names=[*NAMES[:2], *NAMES[3:]]) == 5
    assert out.read_text() == WHOLE


def test_a_name_too_long_for_the_whole_file_is_told_of_at_once(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="File name too long"):
        work(tmp_path / ("x" * 247), upto=0)
    work(tmp_path / ("x" * 244))


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

    with journal(out, PLAN, Start, silent) as book:
        book.take_up(NAMES, 1)
        book.add(0, OUTCOMES[0])
        file: Any = Full(book._file, 7)
        book._file = file
        with pytest.raises(WriteError, match="the disk is full"):
            book.add(1, OUTCOMES[1])
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
    assert json.loads(rest[0]) == [0, "0.jpg", OUTCOMES[0]]
    problem = OUTCOMES[2]
    assert isinstance(problem, Problem)
    assert json.loads(rest[2]) == [
        2,
        "2.jpg",
        {"where": "2", "why": "it is torn", "hint": "Mend it.", "kind": ""},
    ]
