"""The unit of docs/watch.md is one that systemd takes."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parent.parent / "docs" / "watch.md"


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd is not installed")
def test_the_unit_of_the_page_is_one(tmp_path: Path) -> None:
    unit = re.search(r"```ini\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert unit is not None
    assert unit[1].count("%h/.local/bin/naic ") == 1  # it need not be there on this machine
    text = unit[1].replace("%h/.local/bin/naic ", f"{sys.executable} -m naic ")
    file = tmp_path / "naic-watch@inbox.service"
    for bad in (0, 1):
        file.write_text(text.replace("Restart=on-failure", "Restart=often") if bad else text)
        done = subprocess.run(
            ["systemd-analyze", "--user", "verify", str(file)],
            env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
            capture_output=True,
            text=True,
        )
        assert (
            "Failed to initialize" not in done.stderr
        )  # the program itself, whatever it was given
        ours = [line for line in done.stderr.splitlines() if file.name in line]
        assert bool(ours) == bool(bad), done.stderr
