"""What all tests share: markers that depend on the machine, data that may or may not be there."""

import os
import signal
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from hypothesis import settings

# A busy machine must not fail a test by its clock; and what lands is decided by the code, not by
# luck: CI tries the same examples each time, a person's machine tries new ones.
settings.register_profile("naic", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("naic")

# Files of a quarter of a minute or more of processor time, the longest first. `make test` begins
# with them: the last files of two workers are then short, and neither waits long for the other.
LONG = (
    "train/test_kill",
    "tasks/reproduce/test_going_on",
    "tasks/reproduce/test_together",
    "test_docs",
    "train/test_launch",
    "tasks/test_kill",
    "train/test_two_processes",
    "metrics/test_meteor",
    "cli/test_caption",
    "tasks/reproduce/test_coco_page",
    "train/test_moving_average",
    "test_make",
    "tasks/test_distil",
    "learn/cider/test_rewards",
)
_FIRST = {f"tests/{name}.py": place for place, name in enumerate(LONG)}

# In `make check-slow` a check that could not run has not been passed.
SKIPS_ARE_FAILURES = bool(os.environ.get("NAIC_NO_SKIP"))


def pytest_configure() -> None:
    """Signals as a terminal gives them, so that tests and the programs they start can be stopped.

    A shell starts its background jobs with SIGINT ignored, and `nohup` ignores SIGHUP; whatever a
    process ignores, its children ignore as well. The handler of SIGHUP does nothing (`nohup` keeps
    its meaning for the tests themselves), but is no longer inherited.
    """
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _FIRST.get(item.nodeid.partition("::")[0], len(LONG)))
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no CUDA device"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if SKIPS_ARE_FAILURES and report.skipped and not item.get_closest_marker("gpu"):
        report.outcome = "failed"
        report.longrepr = f"skipped, which is not allowed here: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def coco() -> Path:
    """The folder of `dataset_coco.json.xz` and `images-*.tar`, where there is one."""
    folder = os.environ.get("NAIC_COCO")
    if not folder:
        pytest.skip("NAIC_COCO does not name a folder with MSCOCO")
    return Path(folder)
