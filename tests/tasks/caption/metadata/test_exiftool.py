"""The process: it is never waited for in vain, and never outlives naic."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from naic.errors import ImageError
from naic.tasks.caption.metadata import exiftool as program
from naic.tasks.caption.metadata.exiftool import ExifTool
from tests.tasks.caption.metadata.photos import needs_exiftool


def test_an_exiftool_that_dies_is_started_anew(tmp_path: Path) -> None:
    broken = tmp_path / "exiftool"
    broken.write_text("#!/bin/sh\nread -r line\necho torn\n")
    broken.chmod(0o755)
    with ExifTool(str(broken)) as tool:
        for _ in range(2):
            with pytest.raises(ImageError, match="ExifTool failed"):
                tool.run(["-ver"], "photo.jpg")


def test_an_exiftool_that_hangs_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "_SECONDS", 0.1)
    monkeypatch.setattr(program, "_TO_END", 0.1)
    slow = tmp_path / "exiftool"
    slow.write_text("#!/bin/sh\nsleep 600\n")
    slow.chmod(0o755)
    began = time.monotonic()
    with ExifTool(str(slow)) as tool, pytest.raises(ImageError, match="did not answer within 0"):
        tool.run(["-ver"], "photo.jpg")
    assert time.monotonic() - began < 5


@needs_exiftool
def test_exiftool_ends_when_naic_is_killed() -> None:
    code = (
        "import time\nfrom naic.tasks.caption.metadata.exiftool import *\n"
        "with ExifTool(find_exiftool()) as tool:\n"
        "    tool.run(['-ver'], 'x')\n"
        "    print(tool._process.pid, flush=True)\n    time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        number = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    until = time.monotonic() + 5
    while time.monotonic() < until and _runs(number):
        time.sleep(0.02)
    assert not _runs(number)


def _runs(number: int) -> bool:
    try:
        state = Path(f"/proc/{number}/stat").read_text()
    except FileNotFoundError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
