import asyncio
import math
import threading
import time
from collections.abc import Callable, Coroutine, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from naic.serve.batcher import LONGEST_RETRY, Batcher
from naic.serve.service import Refused

SOON = 30.0  # seconds within which what has to happen happens, however busy the machine is


class Worker:
    """Doubles numbers; it is held until it is let go, and can be made to fail."""

    def __init__(
        self, fails: Callable[[Sequence[int]], BaseException | None] | None = None
    ) -> None:
        self.batches: list[tuple[Hashable, list[int]]] = []
        self.free = threading.Event()
        self.free.set()
        self.begun = threading.Semaphore(0)
        self._fails = fails or (lambda items: None)

    def __call__(self, key: Hashable, items: Sequence[int]) -> list[int]:
        self.batches.append((key, list(items)))
        self.begun.release()
        assert self.free.wait(SOON)
        if error := self._fails(items):
            raise error
        return [2 * item for item in items]

    @property
    def sizes(self) -> list[int]:
        return [len(items) for _, items in self.batches]


@contextmanager
def batching(
    worker: Worker, batch: int = 4, queue: int = 100, within: float = math.inf
) -> "Iterator[Batcher[int, int]]":
    batcher = Batcher(worker, batch=batch, queue=queue, within=within)
    yield batcher
    worker.free.set()
    batcher.close()
    assert batcher.join(SOON)


def run(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 2 * SOON))


async def until(so: Callable[[], bool]) -> None:
    """Wait until it is so."""
    by = time.monotonic() + SOON
    while not so():
        assert time.monotonic() < by
        await asyncio.sleep(0.001)


async def hold(batcher: "Batcher[int, int]", worker: Worker) -> "asyncio.Task[list[int]]":
    """Keep the worker at one item, so that what comes then has to wait."""
    worker.free.clear()
    task = asyncio.create_task(batcher([0]))
    await until(lambda: worker.begun.acquire(blocking=False))
    return task


def test_what_came_meanwhile_is_one_batch() -> None:
    async def work() -> None:
        worker = Worker()
        with batching(worker) as batcher:
            first = await hold(batcher, worker)
            others = [asyncio.create_task(batcher([number])) for number in range(1, 11)]
            await until(lambda: batcher.waiting == 10)
            assert batcher.running == 1
            assert batcher.at_work > 0
            worker.free.set()
            assert await asyncio.gather(first, *others) == [[2 * number] for number in range(11)]
            assert worker.sizes == [1, 4, 4, 2]  # never above its limit
            await until(lambda: batcher.running == 0)
            assert (batcher.waiting, batcher.at_work) == (0, 0.0)

    run(work)


def test_a_batch_has_one_key_and_nobody_is_passed_over() -> None:
    async def work() -> None:
        worker = Worker()
        with batching(worker, batch=3) as batcher:
            tasks = [await hold(batcher, worker)]
            for number, key in enumerate("abbabba", 1):
                tasks.append(asyncio.create_task(batcher([number], key)))
            tasks.append(asyncio.create_task(batcher.turn(lambda: [99])))
            await until(lambda: batcher.waiting == 8)
            worker.free.set()
            assert (await asyncio.gather(*tasks))[-1] == [99]
            assert worker.batches[1:] == [("a", [1, 4, 7]), ("b", [2, 3, 5]), ("b", [6])]

    run(work)


def test_a_full_queue_refuses_and_says_when_to_come_again() -> None:
    async def work() -> None:
        worker = Worker()
        with batching(worker, queue=3) as batcher:
            first = await hold(batcher, worker)
            waits = asyncio.create_task(batcher([1, 2]))
            await until(lambda: batcher.waiting == 2)
            with pytest.raises(Refused) as caught:  # all of a request, or nothing of it
                await batcher([3, 4])
            assert caught.value.status == 429
            assert caught.value.retry_after is not None
            assert 1 <= caught.value.retry_after <= LONGEST_RETRY
            assert batcher.waiting == 2
            with pytest.raises(Refused) as caught:
                await batcher([1, 2, 3, 4])
            assert caught.value.status == 413  # it never fits
            fits = asyncio.create_task(batcher([3]))
            await until(lambda: batcher.waiting == 3)
            worker.free.set()
            assert [*await asyncio.gather(first, waits, fits)] == [[0], [2, 4], [6]]

    run(work)


def test_those_who_are_refused_come_one_after_the_other() -> None:
    async def work() -> None:
        worker = Worker()
        with batching(worker, queue=2) as batcher:
            await learn(batcher, worker, 0.6)
            await hold(batcher, worker)
            waits = asyncio.create_task(batcher([1, 2]))
            await until(lambda: batcher.waiting == 2)
            told: list[int] = []
            for _ in range(200):
                with pytest.raises(Refused) as caught:
                    await batcher([3])
                told.append(caught.value.retry_after or 0)
            assert told == sorted(told)
            assert told[:1] == [1]
            assert len({*told[:20]}) > 5  # they do not all come at once
            assert told[-1] == LONGEST_RETRY
            worker.free.set()
            await waits

    run(work)


async def learn(batcher: "Batcher[int, int]", worker: Worker, seconds: float) -> None:
    """Have one item take so long at least."""
    task = await hold(batcher, worker)
    await asyncio.sleep(seconds)
    worker.free.set()
    await task


def test_what_could_not_be_done_in_time_is_not_taken_on() -> None:
    async def work() -> None:
        worker = Worker()
        with batching(worker, queue=100, within=2.0) as batcher:
            await learn(batcher, worker, 0.5)  # so four at most, and one is worked at
            first = await hold(batcher, worker)
            tasks = [asyncio.create_task(batcher([1, 2, 3]))]
            await until(lambda: batcher.waiting == 3)
            with pytest.raises(Refused, match=r"3 of at most [123] images wait already"):
                await batcher([4])
            worker.free.set()
            await asyncio.gather(first, *tasks)
            assert len(await batcher([*range(50)])) == 50  # where nothing waits, all is taken on

    run(work)


def test_work_of_its_own_counts_by_its_own_time() -> None:
    async def work() -> None:
        worker = Worker()
        with batching(worker, queue=100, within=1.0) as batcher:
            free = threading.Event()
            await batcher.turn(lambda: time.sleep(0.4))  # so no more than two in a second
            await batcher([1])
            turns = [asyncio.create_task(batcher.turn(lambda: free.wait(10))) for _ in range(3)]
            await until(lambda: batcher.running + batcher.waiting == 3)
            with pytest.raises(Refused, match="2 of at most 2 images wait already"):
                await batcher([2])
            free.set()
            await asyncio.gather(*turns)

    run(work)


def test_who_goes_away_makes_room_and_harms_nobody() -> None:
    async def work() -> None:
        worker = Worker()
        with batching(worker, queue=4) as batcher:
            first = await hold(batcher, worker)
            leaves = asyncio.create_task(batcher([1, 2]))
            stays = asyncio.create_task(batcher([3, 4]))
            await until(lambda: batcher.waiting == 4)
            leaves.cancel()
            first.cancel()  # in the middle of its batch
            await until(lambda: batcher.waiting == 2)
            worker.free.set()
            assert await stays == [6, 8]
            assert worker.batches == [(None, [0]), (None, [3, 4])]
            assert await batcher([5]) == [10]

    run(work)


def test_one_that_fails_its_batch_fails_alone() -> None:
    async def work() -> None:
        worker = Worker(lambda items: ValueError("bad") if 2 in items else None)
        with batching(worker) as batcher:
            first = await hold(batcher, worker)
            tasks = [asyncio.create_task(batcher([number])) for number in (1, 2, 3)]
            await until(lambda: batcher.waiting == 3)
            worker.free.set()
            one, two, three = await asyncio.gather(*tasks, return_exceptions=True)
            assert (one, three) == ([2], [6])
            assert isinstance(two, ValueError)
            assert await first == [0]
            assert await batcher([4]) == [8]

    run(work)


@pytest.mark.filterwarnings("error")
def test_of_a_worker_that_died_all_are_told() -> None:
    async def work() -> None:
        worker = Worker(lambda items: SystemExit(3))
        batcher = Batcher(worker, batch=4, queue=4)
        first = await hold(batcher, worker)
        waits = asyncio.create_task(batcher([1]))
        await until(lambda: batcher.waiting == 1)
        before = batcher.dead
        worker.free.set()
        for task in (first, waits):
            with pytest.raises(Refused, match="its worker is gone") as caught:
                await task
            assert caught.value.status == 503
        assert (before, type(batcher.dead)) == (None, SystemExit)
        assert (batcher.waiting, batcher.running) == (0, 0)
        with pytest.raises(Refused, match="its worker is gone"):
            await batcher([1])

    run(work)


def test_what_was_taken_on_is_answered_when_it_is_closed() -> None:
    async def work() -> None:
        worker = Worker()
        batcher = Batcher(worker, batch=2, queue=9)
        first = await hold(batcher, worker)
        waits = asyncio.create_task(batcher([1, 2, 3]))
        await until(lambda: batcher.waiting == 3)
        batcher.close()
        with pytest.raises(Refused) as caught:
            await batcher([4])
        assert caught.value.status == 503
        assert not batcher.join(0)
        worker.free.set()
        assert [*await asyncio.gather(first, waits)] == [[0], [2, 4, 6]]
        assert batcher.join(SOON)
        assert batcher.dead is None

    run(work)


def test_too_few_outcomes_are_nobody_elses() -> None:
    async def work() -> None:
        batcher = Batcher[int, int](lambda key, items: [1], batch=4, queue=4)
        worker_is_at = threading.Event()
        hold_it = asyncio.create_task(batcher.turn(lambda: worker_is_at.wait(SOON)))
        tasks = [asyncio.create_task(batcher([number])) for number in (1, 2)]
        await until(lambda: batcher.waiting == 2)
        worker_is_at.set()
        assert await asyncio.gather(*tasks) == [[1], [1]]  # each was asked for alone
        assert await hold_it
        batcher.close()

    run(work)


def test_each_batch_is_told_of() -> None:
    async def work() -> None:
        heard: list[int] = []
        worker = Worker()
        batcher = Batcher(worker, batch=2, queue=9, told=lambda size, seconds: heard.append(size))
        await batcher([1, 2, 3])
        await batcher.turn(lambda: None)
        assert heard == [2, 1]
        batcher.close()

    run(work)


@settings(max_examples=20, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=30),
    batch=st.integers(1, 7),
    queue=st.integers(1, 40),
    gone=st.sets(st.integers(0, 29)),
)
def test_everyone_gets_their_own(sizes: list[int], batch: int, queue: int, gone: set[int]) -> None:
    async def work() -> None:
        worker = Worker()
        with batching(worker, batch, queue) as batcher:
            wanted = [[100 * number + i for i in range(size)] for number, size in enumerate(sizes)]
            tasks = [asyncio.create_task(batcher(items, len(items) % 2)) for items in wanted]
            await asyncio.sleep(0)
            for number in gone & set(range(len(tasks))):
                tasks[number].cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            for items, outcome in zip(wanted, outcomes, strict=True):
                if isinstance(outcome, list):
                    assert outcome == [2 * item for item in items]
                else:
                    assert isinstance(outcome, Refused | asyncio.CancelledError)
            assert max(worker.sizes, default=0) <= batch
            assert batcher.waiting == 0

    run(work)
