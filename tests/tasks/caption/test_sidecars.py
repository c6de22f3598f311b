import errno
import fcntl
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic import files
from naic.errors import ConfigError, StoreError, WriteError
from naic.resume import locked
from naic.tasks.caption import folders
from naic.tasks.caption.find import Found
from naic.tasks.caption.sidecars import _added, sidecar
from tests.tasks.caption.small import Fake, run, says, touch


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return touch(Path("photos"), "1.jpg", "b/2.png", "b/3.jpg")


def texts(folder: Path) -> dict[str, str]:
    found = sorted(folder.rglob("*.txt"))
    return {str(path.relative_to(folder)): path.read_text() for path in found}


EXPECTED = {
    "1.txt": f"{says('1.jpg').text}\n",
    "b/2.txt": f"{says('2.png').text}\n",
    "b/3.txt": f"{says('3.jpg').text}\n",
}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("p/a.jpg", "p/a.txt"),
        ("p/a.b.jpg", "p/a.b.txt"),
        ("p.d/a", "p.d/a.txt"),
        (".jpg", ".jpg.txt"),
        ("/x/a.JPG", "/x/a.txt"),
    ],
)
def test_where_the_text_goes(path: str, text: str) -> None:
    assert sidecar(Found(path, "n/m.jpg"), None) == text
    assert sidecar(Found(path, "n/m.jpg"), Path("out")) == "out/n/m.txt"


def test_beside_each_image(photos: Path) -> None:
    done, heard = run(photos, format="txt")
    assert texts(photos) == EXPECTED
    assert (done.captions, done.kept, done.bad) == (3, 0, 0)
    assert heard.out == ""


def test_in_a_folder_that_mirrors(photos: Path) -> None:
    run(photos, "photos/b/3.jpg", "photos/[b]/2.png", format="txt", out=Path("new/out"))
    assert texts(Path("new/out")) == EXPECTED
    assert texts(photos) == {}
    run("photos/b/3.jpg", format="txt", out=Path("named"))
    assert texts(Path("named")) == {"3.txt": EXPECTED["b/3.txt"]}


def test_images_that_have_a_text_are_not_captioned(photos: Path) -> None:
    Path("photos/b/2.txt").write_text("by hand")
    fake = Fake()
    done, _ = run(photos, format="txt", fake=fake)
    assert fake.seen == ["photos/1.jpg", "photos/b/3.jpg"]
    assert texts(photos) == EXPECTED | {"b/2.txt": "by hand"}
    assert (done.captions, done.kept) == (2, 1)
    again = Fake()
    done, _ = run(photos, format="txt", fake=again)
    assert (again.batches, done.captions, done.kept) == ([], 0, 3)  # no model is needed


def test_overwrite(photos: Path) -> None:
    Path("photos/b/2.txt").write_text("by hand")
    run(photos, format="txt", existing="overwrite")
    assert texts(photos) == EXPECTED


def test_append_puts_new_lines_after_the_old_ones_and_nothing_twice(photos: Path) -> None:
    Path("photos/b/2.txt").write_text("by hand")
    for _ in range(2):  # a run that was killed may be given again
        run(photos, format="txt", existing="append")
        assert texts(photos) == EXPECTED | {"b/2.txt": f"by hand\n{EXPECTED['b/2.txt']}"}


@given(st.binary(), st.text(min_size=1).filter(lambda text: text.isprintable() and text.strip()))
def test_appending_keeps_what_is_there_and_is_done_once(before: bytes, text: str) -> None:
    line = text.encode()
    after = _added(before, line)
    assert after.startswith(before)
    assert line in after.splitlines()
    assert _added(after, line) == after


def test_a_run_that_was_cut_off_goes_on(photos: Path) -> None:
    for number, seen in ((1, 1), (0, 0), (1, 1)):
        fake = Fake(breaks_at=number)
        with pytest.raises(KeyboardInterrupt):
            run(photos, format="txt", fake=fake)
        assert len(fake.seen) == seen
    run(photos, format="txt")
    assert texts(photos) == EXPECTED


def test_two_images_with_one_text_are_refused_before_anything_is_done(photos: Path) -> None:
    touch(Path("other"), "3.jpg")
    fake = Fake()
    with pytest.raises(ConfigError) as caught:
        run("photos/b/3.jpg", "other/3.jpg", format="txt", out=Path("out"), fake=fake)
    assert str(caught.value) == (
        "photos/b/3.jpg: other/3.jpg would have the same text file, out/3.jpg.txt. "
        "Use --format jsonl or csv, or give one of the two another name."
    )
    assert (fake.seen, texts(Path())) == ([], {})
    run("photos/b/3.jpg", "other/3.jpg", "photos/b/3.jpg", format="txt")  # one twice: no matter


def said_of(*names: str) -> dict[str, str]:
    return {f"{name}.txt": f"{says(name.rpartition('/')[2]).text}\n" for name in names}


TWINS = {**EXPECTED, **said_of("b/2.jpg", "b/2.png")}
del TWINS["b/2.txt"]


@pytest.mark.parametrize("out", [None, Path("out")])
def test_images_that_differ_in_their_suffix_get_a_text_each(photos: Path, out: Path | None) -> None:
    touch(photos, "b/2.jpg")
    done, heard = run(photos, format="txt", out=out)
    assert texts(out or photos) == TWINS
    assert (done.captions, done.bad, heard.problems) == (4, 0, [])
    fake = Fake()
    done, _ = run(photos, format="txt", out=out, existing="skip", fake=fake)
    assert (done.captions, done.kept, fake.seen) == (0, 4, [])
    (out or photos).joinpath("b/2.jpg.txt").unlink()
    run(photos, format="txt", out=out, fake=fake)
    assert fake.seen == ["photos/b/2.jpg"]


def test_which_of_them_a_command_names_is_no_matter(photos: Path) -> None:
    touch(photos, "b/2.jpg")
    run("photos/b/2.png", format="txt")
    run("photos/b/2.jpg", format="txt")
    assert texts(photos) == said_of("b/2.jpg", "b/2.png")
    Path("photos/b/2.png").unlink()  # the text that the other one got is still its own
    done, _ = run("photos/b", format="txt")
    assert (done.captions, done.kept) == (1, 1)
    assert "b/2.txt" not in texts(photos)


def later(*paths: str) -> None:
    """Let files come after those that are there, even on a disk that counts in seconds."""
    for path in paths:
        before = max(found.stat().st_ctime_ns for found in Path("photos").rglob("*"))
        while not Path(path).exists() or Path(path).stat().st_ctime_ns <= before:
            Path(path).unlink(missing_ok=True)
            Path(path).write_bytes(b"")


def test_an_image_that_came_later_gets_a_text_of_its_own(photos: Path) -> None:
    run(photos, format="txt")
    later("photos/b/2.jpg")
    fake = Fake()
    done, heard = run(photos, format="txt", fake=fake)
    assert fake.seen == ["photos/b/2.jpg"]
    assert texts(photos) == EXPECTED | said_of("b/2.jpg")
    assert (done.captions, done.kept, heard.problems) == (1, 3, [])
    assert run(photos, format="txt")[0].kept == 4
    later("photos/b/2.txt")  # now it may be of either
    for _ in range(2):
        done, heard = run(photos, format="txt")
    assert (done.kept, heard.problems) == (4, [])
    assert Path("photos/b/2.txt").read_bytes() == b""


@pytest.mark.parametrize("existing", ["skip", "overwrite", "append"])
def test_a_text_that_may_be_of_either_is_left_and_told_of(photos: Path, existing: str) -> None:
    touch(photos, "b/2.jpg")
    later("photos/b/2.txt")
    _, heard = run("photos/b", format="txt", existing=existing)
    (problem,) = heard.problems
    assert (problem.where, problem.why) == (
        "photos/b/2.txt",
        "several images are called so, and it is left as it is: each gets a text of its own",
    )
    assert Path("photos/b/2.txt").read_bytes() == b""
    assert said_of("b/2.jpg", "b/2.png").items() <= texts(photos).items()


def test_a_short_name_may_be_the_whole_name_of_another(photos: Path) -> None:
    touch(Path("odd"), "a.jpg", "a.png", "a.jpg.png", "b.jpg", "b.jpg.png")
    run("odd", format="txt")
    names = ["a.jpg.txt", "a.png.txt", "a.jpg.png.txt", "b.txt", "b.jpg.txt"]
    assert set(texts(Path("odd"))) == set(names)
    assert run("odd", format="txt")[0].kept == 5


def test_images_of_two_folders_in_one(photos: Path) -> None:
    touch(Path("other"), "3.png")
    run("photos/b/3.jpg", "other/3.png", format="txt", out=Path("out"))
    assert texts(Path("out")) == said_of("3.jpg", "3.png")


def test_two_images_get_a_text_each_however_they_are_spelt(photos: Path) -> None:
    touch(photos, "1.png")
    Path("link").symlink_to("photos")
    for other in (f"{Path.cwd()}/photos/1.png", "photos/b/../1.png", "link/1.png"):
        done, _ = run("photos/1.jpg", other, format="txt", existing="overwrite")
        assert done.captions == 2
        assert texts(photos) == said_of("1.jpg", "1.png")
    done, _ = run("photos/1.jpg", f"{Path.cwd()}/photos/1.jpg", format="txt", existing="overwrite")
    assert done.captions == 1


def test_an_image_that_cannot_be_opened_anyway_gives_way(photos: Path) -> None:
    touch(photos, "1.CR2", "1.heic", "b/4.heic")
    done, heard = run(photos, format="txt")
    assert heard.problems == []
    assert texts(photos)["1.txt"] == EXPECTED["1.txt"]
    assert (done.captions, done.bad, done.skipped) == (4, 0, 2)
    names = [f"photos/{name}" for name in ("1.CR2", "1.heic", "1.jpg")]
    done, heard = run(*names, format="txt", existing="overwrite")  # of named ones it is told
    assert [problem.where for problem in heard.problems] == names[:2]
    assert heard.problems[0].why == "its text file would be that of photos/1.jpg"
    assert (done.captions, done.bad) == (1, 2)


def test_letters_of_two_cases_are_one_file_on_macos(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ["photos/a.jpg", "photos/A.png"]
    touch(photos, "a.jpg", "A.png")
    run(*paths, format="txt")
    assert set(texts(photos)) == {"a.txt", "A.txt"}
    monkeypatch.setattr(sys, "platform", "darwin")
    run(*paths, format="txt", existing="overwrite")
    assert set(texts(photos)) == {"a.txt", "A.txt", "a.jpg.txt", "A.png.txt"}


def test_an_image_is_never_written_over(photos: Path) -> None:
    Path("photos/1.txt").write_bytes(b"an image with an odd name")
    with pytest.raises(ConfigError, match=r"photos/1\.txt: the text file of an image would be"):
        run("photos/1.txt", format="txt", existing="overwrite")
    with pytest.raises(ConfigError, match="would be written over it"):
        run("photos/1.jpg", "photos/1.txt", format="txt")
    Path("link").symlink_to("photos")
    absolute = Path("photos/1.txt").absolute()
    for out in (None, Path("link")):
        with pytest.raises(ConfigError, match="would be written over it"):
            run("photos/1.jpg", absolute, format="txt", existing="overwrite", out=out)
    assert Path("photos/1.txt").read_bytes() == b"an image with an odd name"


def test_bad_images_get_no_text(photos: Path) -> None:
    touch(photos, "bad.jpg")
    done, heard = run(photos, format="txt")
    assert [problem.why for problem in heard.problems] == ["it is torn"]
    assert texts(photos) == EXPECTED
    assert (done.captions, done.bad) == (3, 1)


def failing(kind: int, folder: str) -> Any:
    """As `_write_and_rename`, in a folder that cannot be written to: root may write anywhere."""
    write = files._write_and_rename

    def fail(target: Path, chunks: Any) -> None:
        if target.parent.name == folder:
            raise OSError(kind, os.strerror(kind))
        write(target, chunks)

    return fail


def test_a_folder_that_may_not_be_written_to(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "_write_and_rename", failing(errno.EACCES, "b"))
    done, heard = run(photos, format="txt")
    assert [(problem.where, problem.why) for problem in heard.problems] == [
        (f"photos/b/{n}.txt", "cannot be written (Permission denied)") for n in (2, 3)
    ]
    assert heard.problems[0].hint == "Use --out DIR to put it elsewhere."
    assert texts(photos) == {"1.txt": EXPECTED["1.txt"]}
    assert (done.captions, done.bad) == (1, 2)


def test_something_else_of_that_name(photos: Path) -> None:
    Path("photos/1.txt").mkdir()
    for existing in ("overwrite", "append"):
        done, heard = run(photos, format="txt", existing=existing)
        assert [problem.where for problem in heard.problems] == ["photos/1.txt"]
        assert done.captions == 2


def test_a_pipe_of_that_name_is_not_waited_for(photos: Path) -> None:
    os.mkfifo("photos/1.txt")
    for existing in ("overwrite", "append"):
        done, heard = run(photos, format="txt", existing=existing)
        (problem,) = heard.problems
        assert (problem.where, problem.why) == (
            "photos/1.txt",
            "it is there, and is no regular file",
        )
        assert done.captions == 2


def test_a_full_disk_stops_the_run(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Fake()
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_and_rename", failing(errno.ENOSPC, "b"))
        with pytest.raises(WriteError, match=r"photos/b/2\.txt: the disk is full"):
            run(photos, format="txt", fake=fake)
    assert len(fake.seen) == 2
    run(photos, format="txt")
    assert texts(photos) == EXPECTED


def test_what_a_kill_left_half_written_is_removed(photos: Path) -> None:
    left = ["b/2.txt.123-456.part", "1.txt.1-2.part"]
    others = ["b/9.txt.123-456.part", "b/2.txt.part", "b/2.txt.x.part", "2.txt.123-456.part"]
    touch(photos, *left, *others)
    run(photos, format="txt")
    assert {str(path.relative_to(photos)) for path in photos.rglob("*.part")} == set(others)


def test_two_runs_into_one_folder_are_refused(photos: Path) -> None:
    Path("out").mkdir()
    with locked(Path("out")), pytest.raises(StoreError, match="out: another run is writing"):
        run(photos, format="txt", out=Path("out"))
    with locked(Path("photos/b")), pytest.raises(StoreError, match="photos/b: another run"):
        run(photos, format="txt")
    assert texts(photos) == {"1.txt": EXPECTED["1.txt"]}
    run(photos, format="txt")
    assert texts(photos) == EXPECTED


def test_an_out_that_is_a_file(photos: Path) -> None:
    Path("out").touch()
    with pytest.raises(ConfigError, match="out: it is no folder, which --format txt needs"):
        run(photos, format="txt", out=Path("out"))


@pytest.mark.parametrize("target", ["photos/b/3.jpg", "elsewhere.txt", "none", "photos/b"])
def test_a_link_is_not_followed(photos: Path, target: str) -> None:
    Path("photos/b/3.jpg").write_bytes(b"an image")
    Path("elsewhere.txt").write_bytes(b"precious")
    Path("photos/1.txt").symlink_to(Path(target).absolute())
    for existing in ("overwrite", "append"):
        done, heard = run("photos/1.jpg", "photos/b/2.png", format="txt", existing=existing)
        (problem,) = heard.problems
        assert (problem.where, problem.why) == (
            "photos/1.txt",
            "it is a link, and what it leads to is not written over",
        )
        assert (done.captions, done.bad) == (1, 1)
    assert Path("photos/1.txt").readlink() == Path(target).absolute()
    assert Path("photos/b/3.jpg").read_bytes() == b"an image"
    assert Path("elsewhere.txt").read_bytes() == b"precious"
    assert not Path("none").exists()
    done, heard = run("photos/1.jpg", format="txt")
    assert (done.kept, heard.problems) == (1, [])


def test_a_name_that_leaves_no_room_for_a_temporary(photos: Path) -> None:
    names = ["x" * 251, "é" * 125, "y" * 200]
    touch(Path("long"), *(f"{name}.jpg" for name in names))
    for existing in ("skip", "overwrite", "append"):
        done, heard = run("long", format="txt", existing=existing)
        assert heard.problems == []
        assert done.captions + done.kept == 3
    assert texts(Path("long")) == {f"{n}.txt": f"{says(f'{n}.jpg').text}\n" for n in names}
    assert len(list(Path("long").iterdir())) == 6


def test_what_a_kill_left_of_a_long_name_is_removed(photos: Path) -> None:
    touch(photos, "b/.naic-caption-123", "b/.naic-caption-123.123-456.part")
    touch(photos, ".naic-caption-notes", "b/.naic-captions.toml", "b/.naic-caption-cache/1")
    done, heard = run(photos, format="txt")
    assert (done.captions, heard.problems) == (3, [])
    strangers = [".naic-caption-cache", ".naic-caption-notes", ".naic-captions.toml"]
    assert sorted(path.name for path in photos.rglob(".*")) == strangers


def test_a_name_too_long_for_a_text_is_a_problem(photos: Path) -> None:
    touch(Path("long"), "x" * 253)
    done, heard = run("long/" + "x" * 253, photos, format="txt")
    (problem,) = heard.problems
    assert problem.why == "cannot be written (File name too long)"
    assert done.captions == 3
    assert [path.name for path in Path("long").iterdir()] == ["x" * 253]


def test_a_disk_without_locks_is_told_of_once_and_written_to(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(file: object, flags: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    touch(photos, "b/2.txt.123-456.part")  # of another run, perhaps: it is left alone
    done, heard = run(photos, format="txt")
    assert texts(photos) == EXPECTED
    assert [(problem.where, problem.why) for problem in heard.problems] == [
        ("photos", "cannot be locked against other runs (No locks available)")
    ]
    assert (done.captions, done.bad) == (3, 0)
    assert Path("photos/b/2.txt.123-456.part").exists()
    done, heard = run(photos, format="txt", out=Path("out"))
    assert [problem.where for problem in heard.problems] == ["out"]
    assert texts(Path("out")) == EXPECTED


@pytest.mark.skipif(sys.platform == "darwin", reason="its file names are UTF-8")
def test_odd_names_get_texts_of_odd_names(photos: Path) -> None:
    odd = [os.fsdecode(b"caf\xe9"), "new\nline", "[x]", "=1"]
    touch(Path("odd"), *(f"{name}.jpg" for name in odd))
    run("odd", format="txt")
    assert {path.stem for path in Path("odd").glob("*.txt")} == set(odd)


def test_the_pattern_of_what_is_left_is_that_of_the_writer(
    photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(Path, "replace", lambda self, target: seen.append(self.name))
    monkeypatch.setattr(files, "sync_folder", lambda folder: None)
    files.write_atomically(Path("photos/1.txt"), b"x")
    found = folders._LEFT_BEHIND.fullmatch(seen[0])
    assert found
    assert found[1] == "1.txt"
