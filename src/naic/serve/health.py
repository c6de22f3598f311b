"""Whether the server can caption: asked of the model itself now and then, not believed."""

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from naic.errors import ImageError, NaicError
from naic.serve.service import Refused

if TYPE_CHECKING:
    from naic.serve.metrics import Metrics
    from naic.serve.worker import Worker

STUCK = 60.0  # seconds at one batch, or without an answer to a check: many times the longest batch
_LOOK = 0.25  # seconds between looks whether the worker lives


@dataclass(slots=True)
class Health:
    """What `/healthz` tells.

    Attributes:
        worker: whose health it is.
        every: seconds without a caption after which the model is asked for one.
        metrics: are told, too.
        why: why the last check failed; empty: it did not.
    """

    worker: "Worker"
    every: float
    metrics: "Metrics"
    why: str = ""
    _proved: float = 0.0  # when a caption was last made, on the monotonic clock
    _asked: float = 0.0  # since when a check waits for its answer; 0: none does
    _ended: float = 0.0  # when the last check had its answer
    _captions: float = field(default=0.0)

    def state(self) -> tuple[str, str]:
        """ok, starting, draining, failing, stuck or dead; and why."""
        if self.worker.draining:
            return "draining", "the server is being stopped"
        if not self.worker.loaded:
            return "starting", "the model is being loaded"
        batcher = self.worker.batcher
        if batcher.dead is not None:
            return "dead", f"the worker ended: {batcher.dead!r}"
        waited = time.monotonic() - self._asked if self._asked else 0.0
        if max(batcher.at_work, waited) > STUCK:
            return "stuck", f"the worker has not answered for {STUCK:g} seconds"
        return ("failing", self.why) if self.why else ("ok", "")

    def told(self) -> tuple[int, dict[str, Any]]:
        """The status and the body of an answer."""
        state, why = self.state()
        body: dict[str, Any] = {"status": state, "model": self.worker.model}
        if why:
            body["why"] = why
        if self.worker.loaded and state != "dead":
            body["waiting"] = self.worker.batcher.waiting
            body["running"] = self.worker.batcher.running
        if self._proved:
            body["seconds_since_a_caption"] = round(time.monotonic() - self._proved, 3)
        self.metrics.healthy.set(state == "ok")
        return (200 if state == "ok" else 503), body

    async def watch(self, died: Callable[[], None]) -> None:
        """Look after the worker until it has died, which `died` is told, or for ever."""
        while not self.worker.loaded:
            await asyncio.sleep(_LOOK)
        check = asyncio.create_task(self._check())
        try:
            while self.worker.batcher.dead is None:
                self._notice()
                if check.done() and time.monotonic() - max(self._proved, self._ended) >= self.every:
                    check = asyncio.create_task(self._check())
                await asyncio.sleep(min(_LOOK, self.every))
            died()
        finally:
            check.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await check

    def _notice(self) -> None:
        """Captions of clients prove as much as a check does."""
        captions = self.metrics.captions()
        if captions > self._captions:
            self._captions = captions
            self._proved, self.why = time.monotonic(), ""

    async def _check(self) -> None:
        """Ask for the caption of a drawn image; a full queue is no fault."""
        side = self.worker.captioner.engine.pixels
        ramp = np.linspace(0, 255, side, dtype=np.uint8)
        pixels = np.stack(
            [*np.broadcast_arrays(ramp[:, None], ramp[None], ramp[::-1, None])], axis=-1
        )
        self._asked = time.monotonic()
        try:
            outcome = await self.worker.check(pixels)
            self.why = str(outcome) if isinstance(outcome, ImageError) else ""
            self._proved = self._proved if self.why else time.monotonic()
        except Refused as refused:
            if refused.status != 429:
                self.why = str(refused)
        except NaicError as error:
            self.why = str(error)
        except Exception as error:
            self.why = f"the model failed: {error!r}"
        finally:
            self._asked, self._ended = 0.0, time.monotonic()
