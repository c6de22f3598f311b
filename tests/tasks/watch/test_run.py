import errno
import os
import shutil
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic import files
from naic.errors import CheckpointError, ConfigError, Problem, StoreError, WriteError
from naic.resume import locked
from naic.tasks.caption.find import Found
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.output import digest
from naic.tasks.watch import run as module
from naic.tasks.watch.arrivals import Arrivals
from naic.tasks.watch.options import WatchOptions
from naic.tasks.watch.record import NAME, hold
from tests.tasks.caption.small import says
from tests.tasks.watch.small import JPEG, PNG, Night, Opening, Step, drop, nothing, run, texts

REQUEST = digest(WatchOptions(Path("in")).captioning())
CUT = "the JPEG file is cut short"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with an empty one for photos."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    return tmp_path


def test_photos_are_captioned_as_they_come(home: Path) -> None:
    drop("in/a.jpg")()
    fake = Opening()
    heard = run("in", nothing, drop("in/b.png", PNG), nothing, fake=fake)
    assert heard.lines == [f"in/{name}: {says(name).text}" for name in ("a.jpg", "b.png")]
    assert Path("in/a.txt").read_text() == f"{says('a.jpg').text}\n"
    assert texts("in") == {"a.txt", "b.txt"}
    assert heard.problems == []
    assert heard.said == ["watching in, a look every 5 s"]
    assert heard.done == module.Watched(2, 0)
    assert (fake.loaded, fake.batches) == (1, [1, 1])
    assert not Path("in", NAME).exists()  # there is nothing to remember


def test_a_watch_goes_on_after_a_restart(home: Path) -> None:
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        drop(Path("in", name))()

    def kill(path: str) -> None:
        if path.endswith("b.jpg"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run("in", nothing, fake=Opening(kill))
    assert texts("in") == {"a.txt"}
    fake = Opening()
    run("in", nothing, fake=fake)
    assert fake.seen == ["b.jpg", "c.jpg"]
    assert texts("in") == {"a.txt", "b.txt", "c.txt"}


def test_a_slow_writer_is_waited_for(home: Path) -> None:
    """The file grows, and is whole only at the end; one that merely looks whole waits too."""
    parts = [JPEG[:100], JPEG[:300], JPEG[:-2], JPEG]
    fake = Opening()
    night = Night()
    heard = run("in", *(drop("in/a.jpg", part) for part in parts), fake=fake, night=night, poll=1.5)
    assert fake.seen == []
    assert heard.problems == []
    heard = run("in", nothing, fake=fake)
    assert fake.seen == ["a.jpg"]
    assert heard.problems == []


def test_a_file_that_stood_still_for_a_while_and_then_was_completed(home: Path) -> None:
    """It is told of once, as it is, and looked at again when it has changed: also by another."""
    drop("in/a.jpg", JPEG[:300])()
    fake = Opening()
    heard = run("in", *[nothing] * 5, fake=fake)
    assert heard.problems == [Problem("in/a.jpg", CUT, "Copy or download it again.")]
    assert fake.seen == ["a.jpg"]
    assert Path("in", NAME).exists()
    assert run("in", nothing, nothing, fake=fake).problems == []
    assert fake.seen == ["a.jpg"]
    heard = run("in", drop("in/a.jpg"), nothing, fake=fake)
    assert heard.lines == [f"in/a.jpg: {says('a.jpg').text}"]
    assert not Path("in", NAME).exists()


def test_what_copies_under_another_name_is_left_alone_until_it_is_renamed(home: Path) -> None:
    for name in (".a.jpg.Xy12", "b.jpg.part", "c.jpg.crdownload", ".d/d.jpg", "e.jpg~"):
        drop(Path("in", name))()
    fake = Opening()
    run("in", nothing, nothing, fake=fake)
    assert fake.seen == []
    steps = [
        lambda: Path("in/.a.jpg.Xy12").rename("in/a.jpg"),
        lambda: Path("in/b.jpg.part").rename("in/b.jpg"),
    ]
    run("in", *steps, *[nothing] * 3, fake=fake)
    assert fake.seen == ["a.jpg", "b.jpg"]


def test_folders_that_come_are_looked_into(home: Path) -> None:
    drop("aside/deep/b.jpg")()
    steps = [drop("in/new/a.jpg"), lambda: Path("aside").rename("in/moved"), *[nothing] * 3]
    heard = run("in", *steps)
    assert texts("in") == {"new/a.txt", "moved/deep/b.txt"}
    assert len(heard.lines) == 2


def test_only_the_folder_itself(home: Path) -> None:
    drop("in/new/a.jpg")()
    drop("in/b.jpg")()
    run("in", nothing, recursive=False)
    assert texts("in") == {"b.txt"}


def test_texts_in_another_folder(home: Path) -> None:
    drop("in/new/a.jpg")()
    fake = Opening()
    for _ in range(2):
        run("in", nothing, out=Path("out"), prefix="a photo: ", max_words=2, fake=fake)
    assert Path("out/new/a.txt").read_text() == f"a photo: {says('a.jpg', 0, 2).text}\n"
    assert texts("in") == set()
    assert fake.seen == ["a.jpg"]


def test_a_photo_that_is_gone_before_it_is_looked_at_is_no_news(home: Path) -> None:
    drop("in/a.jpg")()
    drop("in/b.jpg")()
    fake = Opening(lambda path: Path(path).unlink() if path.endswith("a.jpg") else None)
    heard = run("in", nothing, nothing, fake=fake)
    assert heard.problems == []
    assert texts("in") == {"b.txt"}
    assert fake.seen == ["a.jpg", "b.jpg"]


def test_a_photo_that_changes_while_it_is_looked_at_is_looked_at_again(home: Path) -> None:
    drop("in/a.jpg")()

    def change(path: str) -> None:
        if fake.seen.count("a.jpg") == 1:
            Path(path).write_bytes(PNG)

    fake = Opening(change)
    heard = run("in", nothing, fake=fake)
    assert texts("in") == set()
    assert heard.problems == []
    heard = run("in", nothing, fake=fake)
    assert len(heard.lines) == 1
    assert fake.seen == ["a.jpg"] * 2


def test_a_photo_that_has_its_text_is_left_as_it_is(home: Path) -> None:
    """Also if it changes, or if the text is a person's."""
    drop("in/b.jpg")()
    Path("in/b.txt").write_text("my cat\n")
    fake = Opening()
    run("in", drop("in/a.jpg"), nothing, drop("in/a.jpg", PNG), nothing, nothing, fake=fake)
    assert fake.seen == ["a.jpg"]
    assert Path("in/b.txt").read_text() == "my cat\n"
    Path("in/b.txt").unlink()
    run("in", nothing, fake=fake)
    assert fake.seen == ["a.jpg", "b.jpg"]


def test_photos_that_differ_in_their_suffix_get_a_text_each(home: Path) -> None:
    for name in ("a.jpg", "a.png", "b.jpg", "raw.cr2", "raw.jpg"):
        drop(Path("in", name))()
    fake = Opening()

    def come_later() -> None:
        time.sleep(0.05)  # the clock of a disk is not as fine as ours
        drop("in/b.png", PNG)()

    heard = run("in", nothing, come_later, nothing, fake=fake)
    assert heard.problems == []
    assert fake.seen == ["a.jpg", "a.png", "b.jpg", "raw.jpg", "b.png"]
    made = {"a.jpg.txt", "a.png.txt", "b.txt", "b.png.txt", "raw.txt"}
    assert texts("in") == made
    assert Path("in/b.txt").read_text() == f"{says('b.jpg').text}\n"
    fake = Opening()
    assert run("in", nothing, fake=fake).problems == []
    assert (fake.seen, texts("in")) == ([], made)


def test_two_photos_with_one_text_are_told_of(home: Path) -> None:
    """Neither can be opened, so neither has a claim to a text of its own."""
    for name in ("a.cr2", "a.heic"):
        Path("in", name).write_bytes(b"no photo")
    heard = run("in", nothing, nothing)
    assert heard.problems[0].where == "in/a.heic"
    assert heard.problems[0].why == "it and in/a.cr2 have one text file, a.txt"
    assert run("in", nothing).problems == []


def test_a_second_watch_of_a_folder_is_refused(home: Path) -> None:
    drop("in/a.jpg")()
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(StoreError) as caught:
            run("in", nothing)
        refused.append(str(caught.value))
        run("in", nothing, out=Path("out"))  # it writes elsewhere

    run("in", second)
    assert refused[0].startswith("in: another naic watch is at work there (process ")
    assert f"process {os.getpid()} on " in refused[0]
    assert texts("out") == {"a.txt"}
    run("in", nothing)


def test_naic_caption_in_the_same_folder_goes_first(home: Path) -> None:
    """Its lock is not held while nothing is written, and is waited for."""
    drop("in/a.jpg")()
    drop("in/sub/b.jpg")()
    fake, night = Opening(), Night()
    busy = locked(Path("in"))

    def begin() -> None:
        busy.__enter__()  # does not raise: the watch sleeps, and does not have it

    heard = run(
        "in", begin, nothing, nothing, lambda: busy.__exit__(None, None, None), nothing, nothing,
        nothing, fake=fake, night=night,
    )  # fmt: skip
    hint = "Its photos wait until that has ended."
    assert heard.problems == [Problem("in", "another run is writing to this folder", hint)]
    assert fake.seen == ["b.jpg", "a.jpg"]
    assert texts("in") == {"a.txt", "sub/b.txt"}


def test_another_run_may_begin_while_the_photos_are_looked_at(home: Path) -> None:
    drop("in/a.jpg")()
    busy = locked(Path("in"))
    fake = Opening(lambda path: busy.__enter__() if len(fake.seen) == 1 else None)
    heard = run("in", nothing, nothing, fake=fake)
    assert [problem.where for problem in heard.problems] == ["in"]
    assert texts("in") == set()
    busy.__exit__(None, None, None)
    run("in", nothing, fake=fake)
    assert texts("in") == {"a.txt"}


def test_without_events_a_look_now_and_then_finds_what_came(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sleep is a minute at most, and ends early for a photo that is soon whole."""
    monkeypatch.setattr(module, "_wakes", lambda *_: nullcontext())
    night = Night()
    heard = run("in", drop("in/a.jpg"), nothing, nothing, nothing, night=night, poll=None)
    assert len(heard.lines) == 1
    assert night.slept == [60.0, 2.0, 0.5, 60.0]
    assert heard.said == ["watching in, a look every 60 s"]


def test_a_ring_wakes_it_but_not_at_once_again(home: Path) -> None:
    night = Night()
    run("in", lambda: True, lambda: True, nothing, night=night, poll=30.0)
    assert night.slept == [0.5, 0.5, 30.0]


def test_looks_at_a_large_folder_take_a_tenth_of_the_time(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    night = Night()

    def slow(_: Arrivals) -> list[Found]:
        night.now += 3
        return []

    monkeypatch.setattr(Arrivals, "look", slow)
    run("in", lambda: True, nothing, night=night, poll=5.0)
    assert night.slept == [30.0, 30.0]


def test_a_model_that_cannot_be_loaded_says_so_at_once(home: Path) -> None:
    def load(options: CaptionOptions) -> Opening:
        raise CheckpointError("model", "it is damaged")

    fake = Opening()
    fake.load = load  # type: ignore[method-assign]
    with pytest.raises(CheckpointError):
        run("in", nothing, fake=fake)
    assert list(Path("in").iterdir()) == []
    run("in", once=True, fake=fake)  # nothing is new


def test_once(home: Path) -> None:
    """What is new and whole is captioned; nothing is loaded or told twice."""
    drop("in/a.jpg")()
    drop("in/bad.jpg", JPEG[:300])()
    drop("in/growing.jpg")()
    fake, night = Opening(), Night([drop("in/growing.jpg", PNG)])
    heard = run("in", once=True, fake=fake, night=night, settle=3.0)
    assert fake.seen == ["a.jpg", "bad.jpg"]
    assert night.slept == [3.0]
    assert heard.done == module.Watched(1, 1)
    assert heard.said == []
    heard = run("in", once=True, fake=fake, settle=0.0)
    assert fake.seen == ["a.jpg", "bad.jpg", "growing.jpg"]
    assert (heard.done, fake.loaded) == (module.Watched(1, 0), 2)
    run("in", once=True, fake=fake)
    assert fake.loaded == 2


def test_it_ends_after_the_batch_in_hand(home: Path) -> None:
    for number in range(5):
        drop(f"in/{number}.jpg")()
    night = Night()

    def stop(path: str) -> None:
        night.stopped = True

    fake = Opening(stop)
    heard = run("in", nothing, fake=fake, night=night, batch=2)
    assert fake.batches == [2]
    assert texts("in") == {"0.txt", "1.txt"}
    assert len(heard.lines) == 2


def failing(number: int, *names: str) -> object:
    real = files._write_and_rename

    def write(target: Path, chunks: list[bytes]) -> None:
        if target.name in names:
            raise OSError(number, os.strerror(number))
        real(target, chunks)

    return write


def test_a_full_disk_ends_the_watch_and_what_is_done_is_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a.jpg", "b.jpg"):
        drop(Path("in", name))()
    fake = Opening()
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_and_rename", failing(errno.ENOSPC, "b.txt"))
        with pytest.raises(WriteError, match=r"in/b\.txt: the disk is full"):
            run("in", nothing, fake=fake)
    assert texts("in") == {"a.txt"}
    assert run("in", nothing, fake=fake).lines == [f"in/b.jpg: {says('b.jpg').text}"]


def test_a_text_that_cannot_be_written_is_tried_again_after_a_while(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not the photo's fault: it need not change, and after a restart it is tried at once."""
    for name in ("a.jpg", "b.jpg"):
        drop(Path("in", name))()
    fake, night = Opening(), Night()
    with monkeypatch.context() as patch:
        patch.setattr(files, "_write_and_rename", failing(errno.EACCES, "a.txt"))
        heard = run("in", *[nothing] * 10, fake=fake, night=night, poll=100.0)
    assert night.now > module.UNWRITABLE
    assert [problem.where for problem in heard.problems] == ["in/a.txt"]
    assert fake.seen == ["a.jpg", "b.jpg", "a.jpg"]
    run("in", nothing, fake=fake)
    assert texts("in") == {"a.txt", "b.txt"}


def test_a_folder_that_cannot_be_written_to_is_refused_at_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: str, *words: int) -> int:
        if str(path).endswith(NAME):
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path, *words)

    monkeypatch.setattr(os, "open", refuse)
    fake = Opening()
    with pytest.raises(WriteError, match="cannot be written"):
        run("in", nothing, fake=fake)
    assert fake.loaded == 0


def test_a_folder_that_goes_away_ends_the_watch(home: Path) -> None:
    with pytest.raises(StoreError, match="in: the folder is gone"):
        run("in", lambda: shutil.rmtree("in"))
    Path("in").mkdir()
    Path("other").mkdir()

    def swap() -> None:
        Path("in").rename("old")
        Path("other").rename("in")

    with pytest.raises(StoreError, match="or another has its place"):
        run("in", swap)


def test_what_cannot_be_is_refused(home: Path) -> None:
    drop("in/a.jpg")()
    cases: list[tuple[str, dict[str, object], str]] = [
        ("none", {}, "there is no such folder"),
        ("in/a.jpg", {}, "it is no folder"),
        ("in", {"out": Path("in/a.jpg")}, "it is no folder"),
        ("in", {"out": Path("a.jsonl")}, "makes a folder of texts"),
        ("in", {"settle": -1.0}, "-1.0 is not from 0"),
        ("in", {"settle": float("nan")}, "nan is not from 0"),
        ("in", {"poll": 0.0}, "0.0 is not above 0"),
        ("in", {"poll": float("inf")}, "inf is not above 0"),
        ("in", {"batch": 0}, "0 is below 1"),
        ("in", {"rescore_choices": 5}, "none is named"),
    ]
    for folder, wrong, why in cases:
        with pytest.raises(ConfigError, match=why):
            run(folder, **wrong)  # type: ignore[arg-type]
    assert texts("in") == set()


def test_a_folder_that_cannot_be_listed_is_told_of_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drop("in/bad.jpg", JPEG[:300])()
    drop("in/shut/a.jpg")()
    real = os.scandir

    def scandir(path: str) -> object:
        if Path(path).name == "shut":  # not by its permissions, which root may pass over
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", scandir)
        heard = run("in", *[nothing] * 4)
    assert [problem.where for problem in heard.problems] == ["in/shut", "in/bad.jpg"]
    run("in", nothing)
    assert texts("in") == {"shut/a.txt"}


def test_who_is_unsure_is_asked_again_with_a_lower_limit(home: Path) -> None:
    drop("in/a.jpg")()
    sure = says("a.jpg").confidence
    limit = sure + 0.01
    heard = run("in", nothing, once=True, min_confidence=limit)
    (told,) = heard.problems
    assert told.hint == "Lower --min-confidence to have it."
    assert heard.done == module.Watched(0, 0)  # nothing bad: exit code 0
    assert run("in", nothing, once=True, min_confidence=limit).problems == []
    heard = run("in", nothing, once=True, min_confidence=sure - 0.01)
    assert heard.problems == []
    assert heard.done == module.Watched(1, 0)
    assert texts("in") == {"a.txt"}


def test_without_exiftool_nothing_is_begun(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drop("in/a.jpg")()
    monkeypatch.setenv("PATH", "")
    fake = Opening()
    with pytest.raises(ConfigError, match="ExifTool: it is not installed"):
        run("in", nothing, fake=fake, write="exif")
    assert (fake.loaded, fake.seen) == (0, [])


def test_odd_names(home: Path) -> None:
    names = [os.fsdecode(b"caf\xe9.jpg"), "new\nline.jpg", "*.jpg"]
    for name in names:
        drop(Path("in", name), JPEG[:300] if name == "*.jpg" else JPEG)()
    for bad in (1, 0):
        heard = run("in", nothing)
        assert len(heard.problems) == bad
    with hold(Path("in"), REQUEST, heard.problems.append) as record:
        assert not record.empty
    assert len(texts("in")) == 2


PARTS = (b"", JPEG[:300], JPEG[:-40], JPEG)
HAPPENINGS = st.one_of(
    st.tuples(st.sampled_from("abc"), st.sampled_from(PARTS)),
    st.tuples(st.sampled_from("abc"), st.just("gone")),
    st.tuples(st.sampled_from("abc"), st.just("moved")),
    st.just("restart"),
)


@settings(max_examples=25)
@given(story=st.lists(HAPPENINGS, max_size=12))
def test_whatever_happens_all_photos_that_are_whole_get_their_text(
    story: list[tuple[str, str | bytes] | str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("in")
    watches: list[list[Step]] = [[]]

    def happen(name: str, what: str | bytes) -> None:
        path = folder / f"{name}.jpg"
        if isinstance(what, bytes):
            path.write_bytes(what)
        elif path.exists():
            path.unlink() if what == "gone" else path.replace(folder / "sub" / path.name)

    (folder / "sub").mkdir()
    for event in story:
        if isinstance(event, str):
            watches.append([])
        else:
            watches[-1].append(partial(happen, *event))
    for steps in watches:
        run(folder, *steps, poll=1.0, settle=1.5)
    told = run(folder, *[nothing] * 4).problems
    photos = list(folder.rglob("*.jpg"))
    whole = {str(path.relative_to(folder).with_suffix(".txt")) for path in photos if is_whole(path)}
    assert whole <= texts(folder)
    torn = {str(path) for path in photos if not is_whole(path)}
    assert {problem.where for problem in told} <= torn
    assert run(folder, *[nothing] * 4).problems == []


def is_whole(path: Path) -> bool:
    return path.read_bytes() == JPEG


def test_into_metadata_and_not_twice(home: Path) -> None:
    """That a photo has its caption is remembered; what a person wrote afterwards stays."""
    drop("in/a.jpg")()
    drop("in/bad.jpg", JPEG[:300])()
    fake = Opening()
    heard = run("in", *[nothing] * 3, drop("in/b.png", PNG), *[nothing] * 4, write="xmp", fake=fake)
    assert heard.lines == [f"in/{name}: {says(name).text}" for name in ("a.jpg", "b.png")]
    assert fake.seen == ["a.jpg", "bad.jpg", "b.png"]
    found = {path.name: path.read_text() for path in Path("in").glob("*.xmp")}
    assert len(found) == 2
    assert says("a.jpg").text in found["a.xmp"]
    assert texts("in") == set()
    assert run("in", *[nothing] * 3, write="xmp", fake=fake).problems == []
    Path("in", NAME).unlink()
    heard = run("in", *[nothing] * 3, write="xmp", fake=fake)
    assert fake.seen == ["a.jpg", "bad.jpg", "b.png", "bad.jpg"]
    assert [problem.where for problem in heard.problems] == ["in/bad.jpg"]
    assert {path.name: path.read_text() for path in Path("in").glob("*.xmp")} == found
