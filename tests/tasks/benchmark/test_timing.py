"""The clock: medians, turns, and what cannot be timed."""

import itertools
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from naic.tasks.benchmark.timing import LEAST, Timed, machine, milliseconds, summary, take_turns

CPU = torch.device("cpu")


class Clock:
    """Time that passes only when something is run."""

    def __init__(self) -> None:
        self.now = 0.0
        self.ran: list[str] = []

    def takes(self, name: str, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.now += seconds
            self.ran.append(name)

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("naic.tasks.benchmark.timing.time.perf_counter", lambda: made.now)
    return made


def test_a_pass_in_milliseconds(clock: Clock) -> None:
    assert milliseconds(clock.takes("it", 0.25), CPU) == pytest.approx(250)


def test_the_99th_percentile_is_by_rank() -> None:
    assert summary([float(n) for n in range(200, 0, -1)]) == Timed(100.5, 198.0, 200)
    assert summary([3.0, 1.0, 2.0]) == Timed(2.0, 3.0, 3)


@given(st.lists(st.floats(0.001, 1e6), min_size=1, max_size=300))
def test_a_summary_lies_among_its_times(times: list[float]) -> None:
    found = summary(times)
    assert min(times) <= found.median_ms <= found.p99_ms <= max(times)
    assert sum(taken > found.p99_ms for taken in times) <= len(times) / 100


def test_all_get_the_same_time_in_turns(clock: Clock) -> None:
    runs = {"fast": clock.takes("fast", 0.001), "slow": clock.takes("slow", 0.1)}
    found = take_turns(runs, CPU, 1.0)
    assert found["slow"] == pytest.approx((100, 100, 10))
    fast = found["fast"]
    assert isinstance(fast, Timed)
    assert fast.median_ms == pytest.approx(1)
    assert 1000 <= fast.repeats <= 1051  # a turn is 50 passes, and the last one may go over
    turns = [name for name, _ in itertools.groupby(clock.ran[6:])]
    assert len(turns) > 15  # not first all of one


def test_what_is_slow_counts_a_few_times(clock: Clock) -> None:
    found = take_turns({"it": clock.takes("it", 60.0)}, CPU, 0.5)
    assert found["it"] == Timed(60_000.0, 60_000.0, LEAST)
    assert len(clock.ran) == LEAST + 1  # and one to get warm


def test_one_that_fails_is_told_and_the_others_are_timed(clock: Clock) -> None:
    def fails() -> None:
        raise RuntimeError("no kernel")

    later: Iterator[int] = iter(range(5))

    def fails_later() -> None:
        clock.now += 0.1
        next(later)

    runs = {"at once": fails, "good": clock.takes("good", 0.1), "later": fails_later}
    found = take_turns(runs, CPU, 1.0)
    assert str(found["at once"]) == "no kernel"
    assert isinstance(found["later"], StopIteration)
    assert found["good"] == pytest.approx((100, 100, 10))


def test_the_machine_is_described() -> None:
    found = machine(CPU)
    assert found["device"] == "cpu"
    assert found["packages"]["torch"] == torch.__version__
    assert found["threads"] == torch.get_num_threads()
    assert found["cores"] >= 1
    assert found["processor"]


@pytest.mark.gpu
def test_a_gpu_is_described() -> None:
    found = machine(torch.device("cuda"))
    assert found["device"] == torch.cuda.get_device_name()
    assert found["driver"].split(".")[0].isdigit()
    assert found["gpu_memory_gib"] > 1
