"""Pages in a real browser, through node and the driver of the page of `naic evaluate --html`."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

DRIVER = Path(__file__).parent / "tasks" / "evaluate" / "page.mjs"


def find_tools() -> tuple[Path, str]:
    """Where the npm packages are, and Chromium."""
    folder, chromium = os.environ.get("NAIC_WEB"), shutil.which("chromium")
    modules = Path(folder or "", "node_modules")
    if folder is None or chromium is None or not (modules / "axe-core").is_dir():
        pytest.skip("takes chromium, and NAIC_WEB: where playwright-core and axe-core are")
    return modules, chromium


def drive(tools: tuple[Path, str], **wanted: Any) -> dict[str, Any]:
    """What the driver tells; see there for what can be wanted."""
    modules, chromium = tools
    spec = {"playwright": str(modules / "playwright-core"), "chromium": chromium, **wanted}
    told = subprocess.run(["node", str(DRIVER), json.dumps(spec)], capture_output=True, text=True)
    assert told.returncode == 0, told.stderr
    found: dict[str, Any] = json.loads(told.stdout)
    return found
