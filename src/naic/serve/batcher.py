"""A bounded queue in front of one worker, who takes what waits in batches; knows nothing of HTTP.

Nobody waits for a batch to fill: one is what came while the one before was at work. All that can
happen to one of a batch happens to it alone: it cannot be used, its client goes away, or the whole
batch fails and it is tried again by itself.
"""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from naic.serve.service import Refused

In = TypeVar("In")
Out = TypeVar("Out")
T = TypeVar("T")
Answer = tuple[Any, Exception | None]
Told = Callable[[int, float], None]  # of each batch: how many there were, and the seconds it took

LONGEST_RETRY = 60  # seconds that a client is told to stay away
_WEIGHT = 0.2  # of the newest batch in the mean of what one item takes


@dataclass(slots=True, eq=False)
class _Job:
    """An item, or work of its own, and who waits for it."""

    key: Hashable
    item: Any
    alone: Callable[[], Any] | None = None  # work that is no part of a batch
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    answer: "asyncio.Future[Any]" = field(init=False)

    def __post_init__(self) -> None:
        self.answer = self.loop.create_future()

    def tell(self, outcome: Any, error: Exception | None) -> None:  # noqa: ANN401
        """From any thread; nobody may be left to hear it, nor a loop to say it in."""

        def told() -> None:
            if self.answer.done():
                return
            if error is None:
                self.answer.set_result(outcome)
            else:
                self.answer.set_exception(error)

        try:
            self.loop.call_soon_threadsafe(told)
        except RuntimeError:  # the loop has ended
            return


class Batcher(Generic[In, Out]):
    """Takes items one at a time and gives them to a worker thread in batches.

    Attributes:
        dead: what ended the worker, if anything did.
    """

    def __init__(
        self,
        work: Callable[[Hashable, Sequence[In]], Sequence[Out]],
        *,
        batch: int,
        queue: int,
        within: float = math.inf,
        told: Told = lambda size, seconds: None,
    ) -> None:
        """Start the worker.

        Args:
            work: gives for items of one key an outcome each, in the worker's thread.
            batch: how many items at most are worked at together.
            queue: how many items at most wait.
            within: seconds in which all that was taken on has to be done: of a slow worker fewer
                wait.
            told: hears of each batch.
        """
        self.dead: BaseException | None = None
        self._work, self._batch, self._queue, self._told = work, batch, queue, told
        self._within = within
        self._waiting: deque[_Job] = deque()
        self._running: Sequence[_Job] = ()
        self._began = 0.0
        self._pace = 0.0  # seconds that an item takes, lately; 0: it is not known yet
        self._pace_alone = 0.0  # seconds that work of its own takes; likewise
        self._promised = 0.0  # when there should be room for all who were told to come again
        self._closed = False
        self._change = threading.Condition()  # its lock may be taken again by who has it
        self._thread = threading.Thread(target=self._serve, name="naic batches", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many wait."""
        return len(self._waiting)

    @property
    def running(self) -> int:
        """How many are worked at."""
        return len(self._running)

    @property
    def at_work(self) -> float:
        """For how many seconds the worker has been at what it does now; 0 without any."""
        return time.monotonic() - self._began if self._running else 0.0

    async def __call__(self, items: Sequence[In], key: Hashable = None) -> list[Out]:
        """The outcomes of all of the items; they are taken on together, or refused together.

        Raises:
            Refused: there is no room for them, or the worker is gone or being stopped.
        """
        return await self._all([_Job(key, item) for item in items])

    def check_room(self, number: int) -> None:
        """Refuse what would be refused, before there is work with it.

        Raises:
            Refused: there is no room for so many, or the worker is gone or being stopped.
        """
        with self._change:
            self._admit(number)

    def later(self, number: int = 1) -> int:
        """In how many seconds so many may come again.

        Each who is told so comes after those who were told before: if all of them came at once,
        most would be told again.
        """
        with self._change:
            now = time.monotonic()
            free = max(self._promised, now) + number * self._pace
            self._promised = min(free, now + LONGEST_RETRY)
            return max(1, math.ceil(self._promised - now))

    async def turn(self, work: Callable[[], T]) -> T:
        """What `work` gives in the worker's thread, when it is its turn.

        Raises:
            Refused: likewise.
        """
        (outcome,) = await self._all([_Job(None, None, work)])
        return outcome  # type: ignore[no-any-return]

    async def _all(self, jobs: Sequence[_Job]) -> list[Any]:
        with self._change:
            self._admit(len(jobs))
            self._waiting.extend(jobs)
            self._change.notify()
        try:
            return await asyncio.gather(*(job.answer for job in jobs))
        finally:  # when one has failed or the client is gone, the others wait for nothing
            for job in jobs:
                job.answer.cancel()
            self._forget()

    def _admit(self, number: int) -> None:
        if self.dead is not None:
            raise gone()
        if self._closed:
            raise stopping()
        if number > self._queue:
            why = f"{number} images at once are more than the {self._queue} that may wait"
            raise Refused(413, "the request", why, "Send fewer at a time.")
        if not self._waiting:  # what nobody waits before is never told to come again
            return
        # How many there is time for, at the pace of late, after those who are here.
        here = [*self._waiting, *self._running]
        alone = sum(job.alone is not None for job in here)
        left = self._within - alone * self._pace_alone - (len(here) - alone) * self._pace
        time_for = left / self._pace if self._pace else math.inf
        most = min(self._queue, len(self._waiting) + max(0, math.floor(min(time_for, self._queue))))
        if len(self._waiting) + number > most:
            why = f"{len(self._waiting)} of at most {most} images wait already"
            raise Refused(429, "the queue", why, "Try again later.", self.later(number))

    def _forget(self) -> None:
        """Make room of those whom nobody waits for."""
        with self._change:
            if any(job.answer.cancelled() for job in self._waiting):
                left = [job for job in self._waiting if not job.answer.cancelled()]
                self._waiting = deque(left)

    def close(self) -> None:
        """Take on no more, and end the worker after the last that was taken on."""
        with self._change:
            self._closed = True
            self._change.notify()

    def abandon(self, *, running: bool) -> None:
        """Refuse those that wait still; and with `running` those that are worked at."""
        with self._change:
            left = [*self._waiting, *(self._running if running else ())]
            self._waiting = deque()
        for job in left:
            why = "it was stopped before this was answered"
            job.tell(None, Refused(503, "the server", why, "Try another one.", 1))

    def join(self, seconds: float) -> bool:
        """Wait for the worker's end; whether it has ended."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    def _serve(self) -> None:
        """What the worker does until it is told to end."""
        try:
            while jobs := self._take():
                self._do(jobs)
        except BaseException as error:
            self._die(error)

    def _take(self) -> Sequence[_Job]:
        """The next batch: the oldest, and of those behind it who have its key; none: the end."""
        with self._change:
            while not self._waiting and not self._closed:
                self._change.wait()
            taken, left = list[_Job](), deque[_Job]()
            for job in self._waiting:
                if not taken or self._goes_with(job, taken):
                    taken.append(job)
                else:
                    left.append(job)
            self._waiting, self._running, self._began = left, taken, time.monotonic()
            return taken

    def _goes_with(self, job: _Job, taken: Sequence[_Job]) -> bool:
        alike = job.alone is None and taken[0].alone is None and job.key == taken[0].key
        return alike and len(taken) < self._batch

    def _do(self, jobs: Sequence[_Job]) -> None:
        answers = self._answers(jobs)
        took = time.monotonic() - self._began
        with self._change:
            self._running = ()
        if jobs[0].alone is None:
            self._pace = _mean(self._pace, took / len(jobs))
            self._told(len(jobs), took)
        else:
            self._pace_alone = _mean(self._pace_alone, took)
        for job, answer in zip(jobs, answers, strict=True):
            job.tell(*answer)

    def _answers(self, jobs: Sequence[_Job]) -> list[Answer]:
        try:
            if jobs[0].alone is not None:
                return [(jobs[0].alone(), None)]
            outcomes = self._work(jobs[0].key, [job.item for job in jobs])
            return [(outcome, None) for outcome, _ in zip(outcomes, jobs, strict=True)]
        except Exception as error:
            if len(jobs) == 1:
                return [(None, error)]
        return [answer for job in jobs for answer in self._answers([job])]

    def _die(self, error: BaseException) -> None:
        with self._change:
            self.dead = error
            left = [*self._running, *self._waiting]
            self._waiting, self._running = deque(), ()
        for job in left:
            job.tell(None, gone())


def _mean(before: float, newest: float) -> float:
    """Seconds as they were lately; 0: none are known yet."""
    return before + _WEIGHT * (newest - before) if before else newest


def gone() -> Refused:
    """The refusal of a server that cannot caption any more."""
    return Refused(503, "the model", "its worker is gone", "The server has to be started again.", 5)


def late(seconds: float) -> Refused:
    """The refusal of a request that has waited for as long as it may."""
    why = f"it was not its turn within {seconds:g} seconds"
    return Refused(429, "the request", why, "Try again later.", LONGEST_RETRY)


def stopping() -> Refused:
    """The refusal of a server that is about to end."""
    return Refused(503, "the server", "it is being stopped", "Try another one.", 1)
