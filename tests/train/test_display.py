"""What people see: a panel on a terminal, lines elsewhere, nothing from the other ranks."""

import io
import time

import pytest
from rich.console import Console

from naic.train.logs import EXAMPLES_SHOWN, Display, duration


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)


@pytest.fixture(autouse=True)
def no_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def plain() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, soft_wrap=True)


def terminal() -> Console:
    return Console(
        file=io.StringIO(), force_terminal=True, width=100, height=40, _environ={"TERM": "xterm"}
    )


def shown(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_lines_now_and_then(clock: Clock) -> None:
    console = plain()
    with Display("teacher_xe", console=console) as screen:
        screen.update(10, 1000, 0.5, {"epoch": 0.5, "loss": 3.14159, "images_per_second": 12345.6})
        assert shown(console) == (
            "teacher_xe: step 10/1,000, epoch 0.50, loss 3.142, images/s 12,346\n"
        )
        clock.now += 5
        screen.update(20, 1000, 1.0, {"loss": 2.0})
        assert shown(console).count("\n") == 1  # too soon
        clock.now += 5
        screen.update(110, 1000, 1.5, {"loss": 1.0})
        last = shown(console).splitlines()[-1]
        # 100 steps in 10 seconds: 890 more take 89.
        assert last == (
            "teacher_xe: step 110/1,000, epoch 1.50, 1 min 29 s left, loss 1, images/s 12,346"
        )


def test_validations_and_the_end_are_always_told(clock: Clock) -> None:
    console = plain()
    with Display("scst", console=console) as screen:
        screen.update(1, 9, 0.1, {"loss": 1.0, "entropy": 2.0, "reward": 0.5})
        screen.update(2, 9, 0.2, {"cider": 0.987654})
        screen.update(3, 9, 0.3, {"loss": 1.0})
        clock.now += 1
        screen.update(9, 9, 0.9, {"note": "done"})
    lines = shown(console).splitlines()
    assert len(lines) == 3
    assert lines[1].endswith("loss 1, reward 0.5, validation CIDEr 0.9877, entropy 2")
    assert "step 9/9" in lines[2]
    assert "left" not in lines[2]
    assert lines[2].endswith("entropy 2, note done")


def test_examples_and_messages_are_printed_as_they_are(clock: Clock) -> None:
    console = plain()
    with Display("cmal", console=console) as screen:
        screen.message("[bold]not markup[/bold] :smile:")
        screen.example([f"caption {i} [red]" for i in range(9)])
    assert shown(console).splitlines() == [
        "[bold]not markup[/bold] :smile:",
        *(f"  caption {i} [red]" for i in range(EXAMPLES_SHOWN)),
    ]


def test_other_ranks_say_nothing(clock: Clock) -> None:
    for console in (plain(), terminal()):
        with Display("scst", rank=1, console=console) as screen:
            screen.update(9, 9, 1.0, {"cider": 1.0})
            screen.example(["a circle"])
            screen.message("hello")
        assert shown(console) == ""


def test_a_terminal_gets_a_panel(clock: Clock) -> None:
    console = terminal()
    with Display("cmal", console=console) as screen:
        screen.update(1, 10, 0.1, {"loss": 0.5, "reward": 1.25})
        screen.example(["a [red] circle"])
        screen.message("saved")
        clock.now += 4
        screen.update(3, 10, 0.3, {"loss": 0.25, "cider": 1.1})
    last = shown(console)[shown(console).rindex("cmal: step 3/10") :]
    for part in ("epoch 0.30", "14 s left", "0.25", "1.25", "validation CIDEr", "a [red] circle"):
        assert part in last
    assert "saved" in shown(console)


def test_a_dumb_terminal_gets_lines(clock: Clock) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=100, _environ={"TERM": "dumb"})
    with Display("cmal", console=console) as screen:
        screen.update(1, 10, 0.1, {"loss": 0.5})
    assert shown(console) == "cmal: step 1/10, epoch 0.10, loss 0.5\n"


def test_ci_gets_lines(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    console = Console(file=io.StringIO(), force_terminal=True, width=100, color_system=None)
    with Display("cmal", console=console) as screen:
        screen.update(1, 10, 0.1, {"loss": 0.5})
    assert shown(console) == "cmal: step 1/10, epoch 0.10, loss 0.5\n"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.2, "0 s"),
        (59.4, "59 s"),
        (59.6, "1 min 00 s"),
        (125, "2 min 05 s"),
        (3600, "1 h 00 min"),
        (90061, "25 h 01 min"),
    ],
)
def test_durations_as_people_say_them(seconds: float, words: str) -> None:
    assert duration(seconds) == words
