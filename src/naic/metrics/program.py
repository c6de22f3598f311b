"""Runs another program so that it cannot hang, and never outlives us.

Java metrics are where public evaluation code hangs most: a full pipe, a waiting reader, a process
left behind. Here nothing is waited for beyond a time limit, every pipe is read and written as
soon as it can be, and the whole process group is ended however we leave: normally, by an
exception, by Ctrl-C, and even by a kill that gives us no chance to act.
"""

import contextlib
import errno
import os
import selectors
import signal
import subprocess
import time
from typing import IO

from naic.errors import MetricError

SECONDS_TO_END = 2.0  # for its last words, and to be gone after a kill
MOMENT = 0.05  # seconds between two looks at whether the program has ended
CHUNK = 1 << 16  # bytes of one read or write
LONGEST_LINE = 1 << 16  # bytes; neither program prints such a line
KEPT_ERRORS, KEPT_ERROR_LINES = 1 << 14, 20  # bytes and lines
OUT_OF_MEMORY_STATUS = 3  # what Java exits with under ExitOnOutOfMemoryError
# They could undo the options that make Java read and print the same everywhere.
OPTION_VARIABLES = ("_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS")
REPAIR_JAVA = "Run it by hand to see what is wrong; JAVA_HOME and PATH say which Java is used."


class Program:
    """A program that is running; use it in a `with`, which ends it.

    A guard process leads its process group: it waits for our end of a pipe to close, which the
    kernel does when we die, however we die, and then kills the group. Unlike Linux's parent-death
    signal this also works on macOS.

    A descendant that has left the group may hold the pipes open for ever, so nobody waits for
    their end: once the program itself has ended, what is in them is all there will be.
    """

    def __init__(
        self,
        name: str,
        command: list[str],
        *,
        seconds: float,
        more_time: str = REPAIR_JAVA,
        suspect: str = "",
    ) -> None:
        """Start `command`.

        Args:
            name: what to call it in messages.
            command: the executable and its arguments.
            seconds: when it is killed.
            more_time: what the user can do about that, as a sentence.
            suspect: the likely reason, if one is known, should its time or memory not suffice.
        """
        self.name = name
        self.seconds = seconds
        self.more_time = more_time
        self.suspect = suspect
        self._deadline = time.monotonic() + seconds
        self._unsent, self._printed, self._errors = bytearray(), bytearray(), bytearray()
        # The guard needs no program of PATH.
        self._guard = _start(["/bin/sh", "-c", "read -r end; kill -KILL 0"], subprocess.DEVNULL, 0)
        try:
            self._process = _start(command, subprocess.PIPE, self._guard.pid)
        except BaseException:
            self._end_group()
            raise
        self._input = _open(self._process.stdin)
        os.set_blocking(self._input.fileno(), False)
        self._pipes = selectors.DefaultSelector()
        self._pipes.register(_open(self._process.stdout), selectors.EVENT_READ, self._printed)
        self._pipes.register(_open(self._process.stderr), selectors.EVENT_READ, self._errors)

    def __enter__(self) -> "Program":
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._pipes.close()
        for pipe in (self._input, self._process.stdout, self._process.stderr):
            _open(pipe).close()

    @property
    def expired(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() >= self._deadline

    def send(self, text: str) -> None:
        """Have this written to the program, while its answers are read."""
        if not self._unsent:
            self._pipes.register(self._input, selectors.EVENT_WRITE)
        self._unsent += text.encode(errors="replace")

    def lines(self, count: int) -> list[str]:
        """The next `count` lines it prints; raises MetricError if it ends before."""
        found: list[str] = []
        while len(found) < count:
            if (end := self._printed.find(b"\n")) >= 0:
                found.append(self._printed[:end].decode(errors="replace").rstrip("\r"))
                del self._printed[: end + 1]
            elif len(self._printed) >= LONGEST_LINE or self.expired or not self._exchange():
                raise self._failure(f"printed {len(found)} of {count} lines")
        return found

    def finish(self) -> str:
        """Wait for it to end well; gives the last lines it wrote to its error stream."""
        more = True
        while more and not self.expired:
            if not self._unsent:
                self._input.close()
            more = self._exchange()
            self._printed.clear()  # nobody needs it, but the program must be able to print it
        if self._process.returncode != 0:
            raise self._failure("failed")
        return self._last_errors()

    def garbage(self, line: str) -> MetricError:
        """The error for something printed that is not what the program prints."""
        return self._failure(f"printed what is no result: {line[:200]!r}")

    def _exchange(self) -> bool:
        """Write and read what can be, waiting a moment; False if nothing more can come."""
        ended = self._process.poll() is not None  # asked first: its last words are in the pipes
        ready = self._pipes.select(0 if ended else MOMENT)
        for key, _ in ready:
            if key.fileobj is self._input:
                self._write()
            elif chunk := os.read(key.fd, CHUNK):
                key.data.extend(chunk)
            else:
                self._pipes.unregister(key.fileobj)
        del self._errors[:-KEPT_ERRORS]
        return bool(ready) or not ended

    def _write(self) -> None:
        try:
            del self._unsent[: os.write(self._input.fileno(), self._unsent[:CHUNK])]
        except BlockingIOError:
            return
        except BrokenPipeError:  # one that has died is reported by whoever reads from it
            self._unsent.clear()
        if not self._unsent:
            self._pipes.unregister(self._input)

    def _failure(self, why: str) -> MetricError:
        expired = self.expired
        # It may be about to end by itself, and then it tells more; if not, it is ended here.
        until = time.monotonic() + (0 if expired else SECONDS_TO_END)
        while time.monotonic() < until and self._exchange():
            self._printed.clear()
        status = self._process.poll()
        self._end()
        if expired:
            over = f"was stopped after {self.seconds:g} seconds, unfinished"
            return MetricError(self.name, over, f"{self.suspect} {self.more_time}".lstrip())
        said = self._last_errors()
        if status == OUT_OF_MEMORY_STATUS or "OutOfMemoryError" in said:
            return MetricError(
                self.name,
                "needs more memory than Java was given",
                self.suspect or "Score fewer images at a time, or use a machine with more memory.",
            )
        if status == -signal.SIGKILL:
            return MetricError(
                self.name,
                "was killed by another process, or by the system for want of memory",
                "See the system's log, and close what else is running.",
            )
        ended = f" (status {status})" if status else ""
        return MetricError(self.name, f"{why}{ended}", f"It said: {said or 'nothing'}")

    def _end(self) -> None:
        """Kill it, its guard and all in their group."""
        self._end_group()
        self._process.kill()  # it may have left the group
        with contextlib.suppress(subprocess.TimeoutExpired):  # a disk that hangs can hold it
            self._process.wait(timeout=SECONDS_TO_END)

    def _end_group(self) -> None:
        """Once: after the guard is reaped its number may be another's."""
        if self._guard.returncode is None:
            with contextlib.suppress(PermissionError):  # what macOS says where all have ended
                os.killpg(self._guard.pid, signal.SIGKILL)
            self._guard.wait()
            _open(self._guard.stdin).close()

    def _last_errors(self) -> str:
        lines = self._errors.decode(errors="replace").strip().splitlines()
        return "\n".join(lines[-KEPT_ERROR_LINES:])


def _start(command: list[str], output: int, group: int) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - our callers build the command
            command,
            bufsize=0,  # we have our own
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
            env=_environment(),
            process_group=group,
        )
    except OSError as error:
        short = error.errno in (errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE)
        hint = "Close what else is running, and try again." if short else REPAIR_JAVA
        raise MetricError(command[0], f"cannot be started ({error.strerror})", hint) from error


def _environment() -> dict[str, str]:
    """Ours, without what would make Java read and print differently.

    In a locale without UTF-8, Java cannot open a file whose name is not ASCII.
    """
    own = {name: value for name, value in os.environ.items() if name not in OPTION_VARIABLES}
    return own | {"LC_ALL": "C.UTF-8"}


def _open(pipe: IO[bytes] | None) -> IO[bytes]:
    """The pipe; we asked for all of them, which the types of subprocess cannot know."""
    assert pipe is not None
    return pipe
