"""docs/results/serving_page.py: what was asked for is told to hold only where it does."""

import copy
import json
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

RESULTS = Path(__file__).parents[1] / "docs" / "results"
with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(RESULTS)  # its modules import each other by name
    serving: Callable[..., str] = runpy.run_path(str(RESULTS / "serving_page.py"))["serving"]
    TESTS: dict[str, str] = runpy.run_path(str(RESULTS / "serving_faults_page.py"))["TESTS"]

Runs = dict[str, dict[str, Any]]


@pytest.fixture
def runs() -> Runs:
    """Runs in which all was well."""
    names = ("load", "faults")
    found = {
        name: json.loads((RESULTS / "serving" / f"{name}.json").read_text(encoding="utf-8"))
        for name in names
    }
    row = copy.deepcopy(found["load"]["levels"][0])
    row |= {"captions a second": 10.0, "p99, s": 7.9, "statuses": {"200": 300, "429": 2}}
    found["load"]["levels"] = [row]
    found["load"]["turns"] = [{"naic caption": 10.0, "naic serve": 9.0}]
    found["load"]["memory"]["MiB, the most of each tenth"] = [500.0] * 10
    stop = found["faults"]["stops"][0]
    found["faults"]["stops"] = [{**stop, "why": {"the server: it is being stopped.": 3}}]
    found["faults"]["temporary files"] = 0
    return found


def test_all_is_well(runs: Runs) -> None:
    page = serving(runs["load"], runs["faults"])
    assert "**no**" not in page
    assert "7.90 s of 8.00 s" in page


def _change(path: str, value: object) -> Callable[[Runs], None]:
    def change(runs: Runs) -> None:
        where: Any = runs
        *names, last = path.split("/")
        for name in names:
            where = where[int(name) if isinstance(where, list) else name]
        where[int(last) if isinstance(where, list) else last] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        _change("load/levels/0/wrong", 1),
        _change("load/levels/0/broken", 1),
        _change("load/levels/0/statuses", {"200": 1, "500": 1}),
        _change("load/levels/0/p99, s", 8.1),
        _change("load/levels/0/too large", 1),
        _change("load/turns/0/naic serve", 7.9),
        _change("load/memory/MiB, the most of each tenth/9", 526.0),
        _change("faults/stops/0/code", 1),
        _change("faults/stops/0/seconds", 10.1),
        _change("faults/stops/0/why", {"the server: it was stopped before this was answered.": 1}),
        _change("faults/mutations/kinds/json/500", 1),
        _change("faults/documented/well", False),
        _change("faults/temporary files", 1),
    ],
)
def test_what_does_not_hold_is_told(runs: Runs, change: Callable[[Runs], None]) -> None:
    change(runs)
    assert "**no**" in serving(runs["load"], runs["faults"])


@pytest.mark.parametrize("name", TESTS.values())
def test_the_tests_of_the_faults_are_there(name: str) -> None:
    file, _, test = name.partition("::")
    text = (RESULTS.parents[1] / "tests" / "serve" / file).read_text(encoding="utf-8")
    assert f"\ndef {test}(" in text


def test_a_short_run_is_told(runs: Runs) -> None:
    runs["load"]["plan"]["seconds"] = 5.0
    assert "count for nothing" in serving(runs["load"], runs["faults"])
    runs["load"]["plan"] |= {"seconds": 30.0, "memory": 600.0, "stops": 20, "mutations": 2000}
    assert "count for nothing" not in serving(runs["load"], runs["faults"])
