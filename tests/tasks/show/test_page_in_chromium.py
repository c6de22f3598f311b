"""The page of runs in a real browser: light and dark, wide and narrow; axe has no objections."""

from pathlib import Path
from typing import Any

import pytest

from naic.cli.main import main
from tests import chromium
from tests.tasks.show.runs import LINES, make_run

pytestmark = pytest.mark.slow


def test_axe_finds_nothing_and_nothing_is_asked_for(tmp_path: Path) -> None:
    tools = chromium.find_tools()
    for number in range(9):
        make_run(tmp_path / "runs" / f"a run with a long name {number}", [*LINES], seed=number)
    axe = ["axe", str(tools[0] / "axe-core" / "axe.min.js")]
    wider = ["value", "document.documentElement.scrollWidth - innerWidth"]
    visits = list[dict[str, Any]]()
    for name, folder in (("one", "runs/a run with a long name 1"), ("all", "runs")):
        page = tmp_path / f"{name}.html"
        assert main(["show", str(tmp_path / folder), "--html", str(page)]) == 0
        screens = [(scheme, width) for scheme in ("light", "dark") for width in (1280, 360)]
        steps = [
            step
            for scheme, width in screens
            for step in (["screen", None, width, scheme], axe, wider)
        ]
        visits.append({"url": page.as_uri(), "steps": steps})
    found = chromium.drive(tools, visits=visits)
    for given in found["steps"]:
        assert given[1::3] == [[]] * 4
        assert all(value <= 0 for value in given[2::3])
    assert found["console"] == []
    assert found["requests"] == [visit["url"] for visit in visits]
