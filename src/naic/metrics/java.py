"""Runs the reference Java programs so that they cannot hang, and never outlive us.

Java metrics are where public evaluation code hangs most: a full pipe, a waiting reader, a process
left behind. Here every program has a time limit, every pipe has somebody at its other end, and
the whole process group is ended however we leave: normally, by an exception, by Ctrl-C, and even
by a kill that gives us no chance to act.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import threading
from collections import deque
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO

from naic.errors import MetricError, MissingExtraError

SECONDS_TO_START = 60.0  # a cold disk and a busy machine; java -version takes 0.1 s
LONGEST_LINE = 1 << 16  # bytes; neither program prints such a line
KEPT_ERROR_LINES = 20
OUT_OF_MEMORY_STATUS = 3  # what Java exits with under ExitOnOutOfMemoryError
# Both programs read and print numbers and text in the user's locale unless told not to: METEOR
# cannot read back its own "2.0" where the decimal sign is a comma.
SAME_EVERYWHERE = ("-Dfile.encoding=UTF-8", "-Duser.language=en", "-Duser.country=US")
INSTALL_JAVA = (
    "Install Java 8 or newer (Debian, Ubuntu: apt install default-jre-headless; "
    "macOS: brew install openjdk), and put it in PATH or set JAVA_HOME."
)


class Program:
    """A program that is running; use it in a `with`, which ends it.

    A guard process leads its process group: it waits for our end of a pipe to close, which the
    kernel does when we die, however we die, and then kills the group. Unlike Linux's parent-death
    signal this also works on macOS.
    """

    def __init__(self, name: str, command: list[str], *, seconds: float, allow: str = "") -> None:
        """Start `command`.

        Args:
            name: what to call it in messages.
            command: the executable and its arguments.
            seconds: when it is killed.
            allow: what the user can do to give it more time, as a sentence.
        """
        self.name = name
        self.seconds = seconds
        self.allow = allow
        self.expired = False
        self._errors: deque[bytes] = deque(maxlen=KEPT_ERROR_LINES)
        self._writers: list[threading.Thread] = []
        self._ending = threading.Lock()
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", "read -r end; kill -KILL 0"],  # no program of PATH is needed
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            process_group=0,
        )
        try:
            self._process = subprocess.Popen(  # noqa: S603 - our callers build the command
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                process_group=self._guard.pid,
            )
        except BaseException as error:
            self._end_group()
            if isinstance(error, OSError):
                raise MissingExtraError(
                    command[0], f"cannot be run ({error.strerror})", INSTALL_JAVA
                ) from error
            raise
        self._listener = threading.Thread(target=self._keep_last_errors, daemon=True)
        self._listener.start()
        self._clock = threading.Timer(seconds, self._expire)
        self._clock.daemon = True
        self._clock.start()

    def __enter__(self) -> "Program":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._clock.cancel()
        self._end_group()
        self._process.wait()
        for thread in (*self._writers, self._listener):
            thread.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):  # what it did not read is lost: no matter
                _open(pipe).close()

    def send(self, text: str) -> None:
        """Write to the program from a thread, so that we can read what it answers meanwhile."""
        for writer in self._writers:
            writer.join()  # one after the other: what is sent stays in order
        data = text.encode(errors="replace")
        writer = threading.Thread(target=self._write, args=(data,), daemon=True)
        self._writers.append(writer)
        writer.start()

    def lines(self, count: int) -> list[str]:
        """The next `count` lines it prints; raises MetricError if it ends before."""
        found: list[str] = []
        for _ in range(count):
            line = _open(self._process.stdout).readline(LONGEST_LINE)
            if not line.endswith(b"\n"):
                raise self._failure(f"printed {len(found)} of {count} lines")
            found.append(line.decode(errors="replace").rstrip("\r\n"))
        return found

    def finish(self) -> str:
        """Wait for it to end well; gives the last lines it wrote to its error stream."""
        with contextlib.suppress(BrokenPipeError):
            _open(self._process.stdin).close()
        while _open(self._process.stdout).read(LONGEST_LINE):
            pass  # nobody needs it, but the program must be able to print it
        if self._process.wait() != 0:
            raise self._failure("failed")
        self._listener.join()
        return self._last_errors()

    def garbage(self, line: str) -> MetricError:
        """The error for something printed that is not what the program prints."""
        return self._failure(f"printed what is no result: {line[:200]!r}")

    def _failure(self, why: str) -> MetricError:
        if not self.expired:
            # It may be about to end by itself, and then it tells more; if not, it is ended here.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=2.0)
        status = self._process.poll()
        self._end_group()
        self._process.wait()
        self._listener.join()
        if self.expired:
            return MetricError(
                self.name, f"was stopped after {self.seconds:g} seconds, unfinished", self.allow
            )
        said = self._last_errors()
        if status == OUT_OF_MEMORY_STATUS or "OutOfMemoryError" in said:
            return MetricError(
                self.name,
                "needs more memory than Java was given",
                "Score fewer images at a time, or use a machine with more memory.",
            )
        if status == -signal.SIGKILL:
            return MetricError(
                self.name,
                "was killed by another process, or by the system for want of memory",
                "See the system's log, and close what else is running.",
            )
        ended = f" (status {status})" if status else ""
        return MetricError(self.name, f"{why}{ended}", f"It said: {said or 'nothing'}")

    def _end_group(self) -> None:
        """Kill the guard and all in its group, once.

        The clock may want to as well: after the guard is reaped its number may be another's.
        """
        with self._ending:
            if self._guard.returncode is None:
                os.killpg(self._guard.pid, signal.SIGKILL)
                self._guard.wait()
                _open(self._guard.stdin).close()

    def _expire(self) -> None:
        self.expired = True
        self._end_group()

    def _write(self, data: bytes) -> None:
        # A program that has died is reported by whoever reads from it.
        with contextlib.suppress(BrokenPipeError):
            pipe = _open(self._process.stdin)
            pipe.write(data)
            pipe.flush()

    def _keep_last_errors(self) -> None:
        """Read the error stream to its end, or a program that writes much there would stop."""
        while line := _open(self._process.stderr).readline(LONGEST_LINE):
            self._errors.append(line)

    def _last_errors(self) -> str:
        return b"".join(self._errors).decode(errors="replace").strip()


def run(
    name: str, arguments: list[str], *, heap: str, seconds: float, allow: str, opens: str = ""
) -> Program:
    """Start a Java program; use the result in a `with`.

    Args:
        name: what to call it in messages.
        arguments: the class path, the class and its arguments.
        heap: the most memory for its objects, as Java writes it: "2G".
        seconds: when it is killed.
        allow: what the user can do to give it more time, as a sentence.
        opens: packages of java.base, separated by spaces, that it reaches into. Java 9 and later
            refuse that unless told; Java 8 does not know the option.
    """
    java = find_java()
    options = [f"-Xmx{heap}", "-XX:+ExitOnOutOfMemoryError", *SAME_EVERYWHERE]
    if java_version(java) >= 9:
        for package in opens.split():
            options += ["--add-opens", f"java.base/{package}=ALL-UNNAMED"]
    return Program(name, [java, *options, *arguments], seconds=seconds, allow=allow)


def find_java() -> str:
    """The path of java: that of JAVA_HOME, else the first in PATH."""
    home = os.environ.get("JAVA_HOME")
    inside = shutil.which("java", path=Path(home) / "bin") if home else None
    found = inside or shutil.which("java")
    if found is None:
        raise MissingExtraError("Java", "is needed for METEOR and SPICE, and missing", INSTALL_JAVA)
    return found


@cache
def java_version(java: str) -> int:
    """The number that people call a Java by: 8 for "1.8.0_392", 17 for "17.0.15"."""
    try:
        with Program(f"{java} -version", [java, "-version"], seconds=SECONDS_TO_START) as program:
            said = program.finish()
    except MetricError as error:
        # macOS has a /usr/bin/java that only says there is no Java.
        raise MissingExtraError("Java", str(error), INSTALL_JAVA) from error
    if (number := re.search(r'version "(?:1\.)?(\d+)', said)) is None:
        raise MissingExtraError("Java", f"{java} does not say its version: {said}", INSTALL_JAVA)
    return int(number[1])


def package_folder(name: str) -> Path | None:
    """Where a package that carries a program is; its own code is not run."""
    spec = importlib.util.find_spec(name)
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0])


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    """The pipe; we asked for all of them, which the types of subprocess cannot know."""
    assert pipe is not None
    return pipe
