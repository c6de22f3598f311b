"""What all tests share: markers that depend on the machine, data that may or may not be there."""

import os
import signal
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

# A busy machine must not fail a test by its clock; and what lands is decided by the code, not by
# luck: CI tries the same examples each time, a person's machine tries new ones.
settings.register_profile("naic", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("naic")

# Files of a quarter of a minute or more of processor time, and folders whose tests look at one run
# that takes as long, the longest first. `make test` begins with them: the last files of two workers
# are then short, and neither waits long for the other. A folder goes to one worker as a whole.
LONG = (
    "tasks/reproduce/",
    "train/test_teacher.py",
    "train/test_kill.py",
    "test_docs.py",
    "train/test_launch.py",
    "tasks/test_kill.py",
    "train/test_two_processes.py",
    "metrics/test_meteor.py",
    "cli/test_caption.py",
    "train/test_nodes.py",
    "test_make.py",
    "tasks/test_distil.py",
    "learn/cider/test_rewards.py",
)

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


def _long(test: str) -> int:
    """The place in LONG of a test by its id; behind them all if it is not there."""
    found = (n for n, name in enumerate(LONG) if test.startswith(f"tests/{name}"))
    return next(found, len(LONG))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped, unused-ignore]

    class ByFileOrFolder(LoadFileScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            place = _long(nodeid)
            folder = place < len(LONG) and LONG[place].endswith("/")
            return LONG[place] if folder else nodeid.partition("::")[0]

    return ByFileOrFolder(config, log) if config.getvalue("dist") == "loadfile" else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _long(item.nodeid))
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
