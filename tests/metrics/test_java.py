"""Every way a Java program can misbehave ends in an error that says so, and in no process left."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from naic.errors import MetricError, MissingExtraError
from naic.metrics import java
from naic.metrics.program import KEPT_ERROR_LINES, REPAIR_JAVA, Program
from tests.metrics.fake_java import FakeJava

WITH_CHILD = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
remember(child.pid)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    return FakeJava(tmp_path, monkeypatch)


def start(seconds: float = 20.0, suspect: str = "") -> Program:
    return java.run("It", ["Main"], heap="1G", seconds=seconds, suspect=suspect, opens="a b")


def test_what_is_sent_comes_back_however_much_it_is(fake: FakeJava) -> None:
    fake.does("for line in sys.stdin: sys.stdout.write(line.upper())")
    with start() as program:
        program.send("abc é\n" * 50_000)  # several times what a pipe holds, both ways
        assert program.lines(50_000) == ["ABC É"] * 50_000
        program.send("more\n")
        assert program.lines(1) == ["MORE"]
        program.finish()
    assert fake.left() == []


def test_java_gets_its_memory_locale_and_opened_packages(fake: FakeJava) -> None:
    fake.does("print(' '.join(sys.argv[1:]))")
    with start() as program:
        (line,) = program.lines(1)
    assert line == (
        "-Xmx1G -XX:+ExitOnOutOfMemoryError -Dfile.encoding=UTF-8 -Duser.language=en "
        "-Duser.country=US --add-opens java.base/a=ALL-UNNAMED --add-opens java.base/b=ALL-UNNAMED "
        "Main"
    )


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ('java version "1.8.0_392"', 8),
        ('openjdk version "11.0.2" 2019-01-15', 11),
        ('openjdk version "21" 2023-09-19', 21),
        ('Picked up _JAVA_OPTIONS: -Xmx1g\nopenjdk version "9-Debian"', 9),
    ],
)
def test_old_and_new_version_numbers(fake: FakeJava, said: str, version: int) -> None:
    fake.path.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\necho \"$@\"\n")
    fake.path.chmod(0o755)
    assert java.java_version(str(fake.path)) == version
    with start() as program:
        (arguments,) = program.lines(1)
    assert ("--add-opens" in arguments) == (version >= 9)


def test_the_users_java_options_and_locale_do_not_reach_it(
    fake: FakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.does(
        "names = ['_JAVA_OPTIONS', 'JAVA_TOOL_OPTIONS', 'JDK_JAVA_OPTIONS', 'LC_ALL', 'KEPT']\n"
        "print([os.environ.get(name) for name in names])"
    )
    for name in ("_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.setenv(name, "-Duser.language=de")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("KEPT", "yes")
    with start() as program:
        assert program.lines(1) == ["[None, None, None, 'C.UTF-8', 'yes']"]


@pytest.mark.parametrize(
    "said", ["Unable to locate a Java Runtime.", "No Java runtime present, requesting install."]
)
def test_the_java_of_a_mac_that_has_none_is_missing(fake: FakeJava, said: str) -> None:
    fake.path.write_text(f"#!/bin/sh\necho '{said}' >&2\nexit 1\n")
    fake.path.chmod(0o755)
    with pytest.raises(MissingExtraError) as caught:
        start()
    assert caught.value.why.endswith(f"{fake.path} only asks to install it")
    assert caught.value.hint == java.INSTALL_JAVA


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"#!/bin/sh\necho broken >&2\nexit 1\n", r"-version: failed \(status 1\). .*: broken$"),
        (b"#!/bin/sh\necho hello >&2\n", r"does not say its version, but: hello. Run it by hand"),
        (b"#!/bin/sh\n", r"does not say its version, but: nothing. Run it by hand"),
        (b"\x7fELF garbage", r"bin/java: cannot be started \(Exec format error\). Run it by hand"),
        (b"#!/gone/interpreter\n", r"bin/java: cannot be started \(No such file or directory\)"),
    ],
)
def test_a_broken_java_is_not_a_missing_one(fake: FakeJava, content: bytes, message: str) -> None:
    fake.path.write_bytes(content)
    fake.path.chmod(0o755)
    with pytest.raises(MetricError, match=message):
        start()
    fake.does("")  # and once it is repaired it is used
    with start() as program:
        program.finish()


def test_a_java_that_hangs_is_waited_for_once(
    fake: FakeJava, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = fake.folder / "asked"
    fake.path.write_text(f"#!/bin/sh\necho once >> '{asked}'\nexec sleep 1000\n")
    fake.path.chmod(0o755)
    assert java.SECONDS_TO_START == 20
    monkeypatch.setattr(java, "SECONDS_TO_START", 0.5)
    for _ in ("METEOR", "SPICE"):
        with pytest.raises(MetricError) as caught:
            start()
        assert str(caught.value) == (
            f"{fake.path} -version: was stopped after 0.5 seconds, unfinished. {REPAIR_JAVA}"
        )
    assert asked.read_text() == "once\n"


@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("number", [errno.EAGAIN, errno.ENOMEM])
def test_a_system_without_room_for_a_process_is_no_missing_java(
    fake: FakeJava, monkeypatch: pytest.MonkeyPatch, after: int, number: int
) -> None:
    fake.does("")
    java.java_version(str(fake.path))
    started: list[subprocess.Popen[bytes]] = []

    class Full(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            if len(started) == after:
                raise OSError(number, os.strerror(number))
            started.append(self)
            super().__init__(*arguments, **options)

    monkeypatch.setattr(subprocess, "Popen", Full)
    with pytest.raises(MetricError, match=r"cannot be started.*Close what else is running"):
        start()
    assert [process.returncode for process in started] == [-signal.SIGKILL] * after


def test_java_home_comes_before_path_and_no_java_says_what_to_install(
    fake: FakeJava, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.does("")
    home = tmp_path / "home" / "bin"
    home.mkdir(parents=True)
    (home / "java").write_text("#!/bin/sh\n")
    (home / "java").chmod(0o755)
    assert java.find_java() == str(fake.path)
    monkeypatch.setenv("JAVA_HOME", str(home.parent))
    assert java.find_java() == str(home / "java")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert java.find_java() == str(fake.path)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingExtraError, match=r"brew install openjdk"):
        java.find_java()


def test_one_that_hangs_is_stopped_with_its_children(fake: FakeJava) -> None:
    fake.does(WITH_CHILD + "time.sleep(1000)")
    started = time.monotonic()
    with start(seconds=1.0) as program:
        program.send("x" * 1_000_000)  # nobody reads it
        with pytest.raises(MetricError) as caught:
            program.lines(1)
    assert str(caught.value) == (
        "It: was stopped after 1 seconds, unfinished. "
        "Give it more time: --java-seconds, or seconds= in Python."
    )
    assert time.monotonic() - started < 10
    assert fake.left() == []


def test_one_that_never_ends_is_stopped(fake: FakeJava) -> None:
    fake.does("while True: print('x' * 1000)")
    with start(seconds=0.5) as program, pytest.raises(MetricError, match=r"after 0.5 seconds"):
        program.finish()
    assert fake.left() == []


def test_one_that_closes_its_streams_and_stays_is_stopped(fake: FakeJava) -> None:
    fake.does("os.close(0); os.close(1); os.close(2); time.sleep(1000)")
    with start(seconds=0.5) as program, pytest.raises(MetricError, match=r"after 0.5 seconds"):
        program.finish()
    assert fake.left() == []


# A process that no group reaches, with our pipes in its hands.
ESCAPED = """
child = subprocess.Popen(["sleep", "8"], start_new_session=True)
remember(child.pid)
"""


@pytest.fixture
def escaped(fake: FakeJava) -> Iterator[FakeJava]:
    yield fake
    pids = (fake.folder / "pids").read_text().split()
    for pid in pids[1::2]:  # each time the program and its child
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def test_a_pipe_held_by_a_process_that_escaped_is_not_waited_for(escaped: FakeJava) -> None:
    escaped.does(ESCAPED + "os.write(1, b'ok\\n'); os.write(2, b'oh no\\n'); os._exit(1)")
    started = time.monotonic()
    with start() as program:
        program.send("x" * 1_000_000)  # nobody reads it
        with pytest.raises(MetricError) as caught:
            program.lines(2)
    assert caught.value.why == "printed 1 of 2 lines (status 1)"
    assert caught.value.hint == "It said: oh no"
    with start() as program, pytest.raises(MetricError, match=r"failed \(status 1\)"):
        program.finish()
    assert time.monotonic() - started < 5


def test_nor_does_it_prolong_the_time_limit(escaped: FakeJava) -> None:
    escaped.does(ESCAPED + "time.sleep(1000)")
    started = time.monotonic()
    with start(seconds=0.5) as program, pytest.raises(MetricError, match=r"after 0.5 seconds"):
        program.lines(1)
    with start(seconds=0.5) as program, pytest.raises(MetricError, match=r"after 0.5 seconds"):
        program.finish()
    assert time.monotonic() - started < 5


def test_a_success_counts_whoever_holds_the_pipes(escaped: FakeJava) -> None:
    escaped.does(ESCAPED + "sys.stderr.write('done')")
    started = time.monotonic()
    with start() as program:
        assert program.finish() == "done"
    assert time.monotonic() - started < 5


def test_one_that_leaves_its_group_is_stopped(fake: FakeJava) -> None:
    fake.does("os.setsid(); time.sleep(1000)")
    with start(seconds=0.5) as program, pytest.raises(MetricError, match=r"after 0.5 seconds"):
        program.finish()
    assert fake.left() == []


def test_a_crash_is_told_in_its_own_last_words(fake: FakeJava) -> None:
    fake.does(
        "null = subprocess.DEVNULL\n"
        "child = subprocess.Popen(['sleep', '1000'], stdin=null, stdout=null, stderr=null)\n"
        "remember(child.pid)\n"
        "os.write(1, b'ok\\n'); os.write(2, b'oh no\\n'); os._exit(7)"
    )
    with start() as program, pytest.raises(MetricError) as caught:
        program.lines(3)
    assert caught.value.why == "printed 1 of 3 lines (status 7)"
    assert caught.value.hint == "It said: oh no"
    assert fake.left() == []
    with start() as program, pytest.raises(MetricError, match=r"It: failed \(status 7\)"):
        program.finish()


def test_a_flooded_error_stream_stops_nobody_and_only_its_end_is_kept(fake: FakeJava) -> None:
    fake.does("for i in range(100_000): sys.stderr.write(f'warning {i} ' + 'x' * 90 + '\\n')")
    with start() as program:
        said = program.finish()
    assert len(said.splitlines()) == KEPT_ERROR_LINES
    assert said.splitlines()[-1].startswith("warning 99999 ")


def test_a_line_without_end_is_not_read_without_end(fake: FakeJava) -> None:
    fake.does("while True: sys.stdout.write('x' * 1000)")
    with start() as program, pytest.raises(MetricError, match=r"printed 0 of 1 lines"):
        program.lines(1)
    assert fake.left() == []


@pytest.mark.parametrize(
    "end", ["os._exit(3)", "os.write(2, b'java.lang.OutOfMemoryError: heap\\n'); os._exit(1)"]
)
def test_too_little_memory_is_said(fake: FakeJava, end: str) -> None:
    fake.does(end)
    with start() as program, pytest.raises(MetricError, match=r"needs more memory.*fewer images"):
        program.finish()
    with start(suspect="It is this.") as program, pytest.raises(MetricError) as caught:
        program.finish()
    assert str(caught.value) == "It: needs more memory than Java was given. It is this."


def test_the_likely_reason_comes_before_more_time(fake: FakeJava) -> None:
    fake.does("time.sleep(1000)")
    with start(seconds=0.1, suspect="It is this.") as program, pytest.raises(MetricError) as caught:
        program.finish()
    assert caught.value.hint.startswith("It is this. Give it more time: --java-seconds")


def test_the_longest_sentence_is_named_if_it_is_unusual() -> None:
    usual = "word " * 100
    assert java.suspect_sentence([usual, "a"], [[usual], ["b", usual]]) == ""
    assert java.suspect_sentence([], []) == ""
    long = "a dog with a very long tail and a hat " + "dog " * 9_990
    assert java.suspect_sentence(["a", usual, long], [["a"]] * 3) == (
        "The likely reason is a caption of 10,000 words, that of image 3 of 3, which begins "
        "'a dog with a very long tail and a hat do': shorten it or leave it out."
    )
    said = java.suspect_sentence(["a", "a"], [["a", "x " * 101], [usual]])
    assert said.startswith("The likely reason is a reference of 101 words, that of image 1 of 2")


@given(st.lists(st.lists(st.integers(0, 300), min_size=2, max_size=4), max_size=5))
def test_nothing_longer_than_what_is_named(lengths: list[list[int]]) -> None:
    sentences = [["w " * length for length in own] for own in lengths]
    said = java.suspect_sentence([own[0] for own in sentences], [own[1:] for own in sentences])
    longest = max((length for own in lengths for length in own), default=0)
    assert (f" of {longest} words" in said) if longest > 100 else not said


def test_killed_from_outside_is_said(fake: FakeJava) -> None:
    fake.does("os.kill(os.getpid(), signal.SIGKILL)")
    with start() as program, pytest.raises(MetricError, match=r"for want of memory"):
        program.finish()


def test_any_exception_ends_it(fake: FakeJava) -> None:
    fake.does(WITH_CHILD + "print('started'); sys.stdout.flush(); time.sleep(1000)")
    with contextlib.suppress(ZeroDivisionError), start() as program:
        program.lines(1)
        raise ZeroDivisionError
    assert fake.left() == []


OURSELVES = """
from naic.metrics import java
with java.run("It", ["Main"], heap="1G", seconds=100, suspect="") as program:
    print(program.lines(1)[0], flush=True)
    program.lines(1)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_it_ends_when_we_are_ended(fake: FakeJava, end: signal.Signals) -> None:
    fake.does(WITH_CHILD + "print('started'); sys.stdout.flush(); time.sleep(1000)")
    with subprocess.Popen(
        [sys.executable, "-c", OURSELVES], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as ourselves:
        assert ourselves.stdout is not None
        assert ourselves.stdout.readline() == b"started\n"
        os.kill(ourselves.pid, end)
    assert ourselves.returncode == -end
    assert fake.left() == []
