import sys
import time

import pytest

from naic.cli import screen
from naic.cli.screen import progress
from naic.progress import Progress


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_lines_say_how_fast_and_how_long(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    assert not sys.stderr.isatty()
    with progress("captions") as update:
        update(Progress(100, 1100, 0))  # those before were done by an earlier run
        clock.now += 5
        update(Progress(110, 1100, 0))  # too soon for a line
        clock.now += 5
        update(Progress(300, 1100, 0))
        clock.now += 10
        update(Progress(302, 1100, 1))
        clock.now += 1980
        update(Progress(303, 1100, 1))
        clock.now += 1
        update(Progress(1100, 1100, 1))
    assert capsys.readouterr().err.splitlines() == [
        "captions: 100/1100",
        "captions: 300/1100, 38/s, 21 s left",
        "captions: 302/1100, 13/s, 62 s left, 1 bad",
        "captions: 303/1100, 0.10/s, 2.3 h left, 1 bad",
        "captions: 1100/1100, 0.50/s, 1 bad",
    ]


def test_what_comes_before_the_first_is_not_held_against_the_others(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    """A model is loaded, and then a whole batch comes at once."""
    with progress("captions") as update:
        update(Progress(0, 48, 0))
        clock.now += 20
        for done in range(1, 17):
            update(Progress(done, 48, 0))
        clock.now += 10
        update(Progress(17, 48, 0))
        for done in range(18, 48):
            clock.now += 0.01
            update(Progress(done, 48, 0))
        update(Progress(48, 48, 0))
    assert capsys.readouterr().err.splitlines() == [
        "captions: 0/48",
        "captions: 1/48",
        "captions: 17/48, 1.60/s, 19 s left",
        "captions: 48/48, 1.60/s",
    ]


def test_a_short_run_has_no_speed(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with progress("captions") as update:
        update(Progress(0, 2, 0))
        clock.now += 0.5
        update(Progress(2, 2, 0))
    assert capsys.readouterr().err == "captions: 0/2\ncaptions: 2/2\n"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (89, "89 s"), (91, "2 min"), (5399, "90 min"), (5400, "1.5 h"), (90000, "25.0 h")],
)
def test_spans(seconds: float, text: str) -> None:
    assert screen._span(seconds) == text
