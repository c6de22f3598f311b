"""Every way a Java program can misbehave ends in an error that says so, and in no process left."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from naic.errors import MetricError, MissingExtraError
from naic.metrics import java
from tests.metrics.fake_java import FakeJava

WITH_CHILD = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "1000"])
remember(child.pid)
"""


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeJava:
    return FakeJava(tmp_path, monkeypatch)


def start(seconds: float = 20.0) -> java.Program:
    return java.run("It", ["Main"], heap="1G", seconds=seconds, allow="Wait longer.", opens="a b")


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


def test_a_java_that_cannot_say_its_version_is_no_java(fake: FakeJava) -> None:
    fake.path.write_text("#!/bin/sh\necho Unable to locate a Java Runtime >&2\nexit 1\n")
    fake.path.chmod(0o755)
    with pytest.raises(MissingExtraError, match=r"Unable to locate.*default-jre-headless"):
        start()
    fake.path.write_text("#!/bin/sh\necho hello >&2\n")
    with pytest.raises(MissingExtraError, match=r"does not say its version: hello"):
        start()
    fake.path.write_text("no program")
    with pytest.raises(MissingExtraError, match=r"cannot be run"):
        start()


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
    assert str(caught.value) == "It: was stopped after 1 seconds, unfinished. Wait longer."
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
    assert len(said.splitlines()) == java.KEPT_ERROR_LINES
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
    with start() as program, pytest.raises(MetricError, match=r"needs more memory"):
        program.finish()


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
with java.run("It", ["Main"], heap="1G", seconds=100, allow="") as program:
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
