"""ExifTool as one process for a whole run: to start it takes far longer than to write a photo.

It would wait for ever for its next command if naic were killed. So it is in the process group of a
guard, which kills the group when our end of a pipe closes, however we die.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Self

from naic.errors import ConfigError, ImageError

CONFIG = Path(__file__).with_name("exiftool.config")
HOW_TO_GET_IT = (
    "Debian, Ubuntu: apt install libimage-exiftool-perl; Fedora: dnf install "
    "perl-Image-ExifTool; macOS: brew install exiftool; others: https://exiftool.org."
)
_SECONDS = 120.0  # for one command: reading a hundred photos of a slow disk takes a few
_TO_END = 5.0  # seconds


def find_exiftool() -> str:
    """The program.

    Raises:
        ConfigError: it is not installed.
    """
    found = shutil.which("exiftool")
    if found is None:
        raise ConfigError("ExifTool", "it is not installed", HOW_TO_GET_IT)
    return found


def version(program: str) -> str:
    """The version that it says it has."""
    done = subprocess.run([program, "-ver"], capture_output=True, text=True, timeout=_SECONDS)  # noqa: S603
    return done.stdout.strip()


class ExifTool:
    """The program, started when it is entered, and gone when it is left."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._number = 0
        self._printed = bytearray()

    def __enter__(self) -> Self:
        self._start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _start(self) -> None:
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115  # closed in _end
        self._guard = subprocess.Popen(
            ["/bin/sh", "-c", "read -r end; kill -KILL 0"], stdin=subprocess.PIPE, process_group=0
        )
        command = [self._program, "-config", str(CONFIG), "-stay_open", "True", "-@", "-"]
        self._process = subprocess.Popen(  # noqa: S603  # found in PATH
            command,
            bufsize=0,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            process_group=self._guard.pid,
        )

    def _end(self) -> None:
        pipes = (self._process.stdin, self._process.stdout, self._guard.stdin)
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self._send(b"-stay_open\nFalse\n")
            self._process.wait(timeout=_TO_END)
        with contextlib.suppress(PermissionError):  # what macOS says where all have ended
            os.killpg(self._guard.pid, signal.SIGKILL)
        self._process.wait()
        self._guard.wait()
        for pipe in (*pipes, self._complaints):
            if pipe is not None:
                pipe.close()

    def run(self, arguments: Sequence[str], where: str) -> tuple[bytes, str]:
        """What it prints, and what it says of errors, when it gets these arguments.

        Values must have no line breaks: those of -E, HTML's entities, stand for them.

        Raises:
            ImageError: it ended, or took too long; `where` is the image that it was about. For the
                next one it is started anew.
        """
        self._number += 1
        lines = [*arguments, f"-execute{self._number}", ""]
        ready = f"{{ready{self._number}}}\n".encode()
        self._complaints.truncate(0)
        self._complaints.seek(0)
        self._printed.clear()
        try:
            self._send("\n".join(lines).encode("utf-8", "surrogateescape"))
            while not self._printed.endswith(ready):
                self._receive()
        except OSError as error:
            self._end()
            self._start()
            hint = "Try this image alone with exiftool, or use --write xmp."
            raise ImageError(where, f"ExifTool failed ({error})", hint) from error
        self._complaints.seek(0)
        said = self._complaints.read().decode(errors="replace")
        return bytes(self._printed.removesuffix(ready)), said

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self._process.stdin.write(view) :]

    def _receive(self) -> None:
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()
        if not select.select([pipe], [], [], _SECONDS)[0]:
            raise TimeoutError(f"it did not answer within {_SECONDS:g} seconds")
        piece = os.read(pipe, 1 << 16)
        if not piece:
            raise BrokenPipeError("it has ended")
        self._printed += piece
