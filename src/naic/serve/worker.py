"""The model behind its queue: photos are decoded while others are captioned, and fail alone."""

import asyncio
import os
import threading
import time
from collections.abc import Awaitable, Callable, Hashable, Iterator, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

import numpy as np
import numpy.typing as npt

from naic.data.decoding import ImageDecoder
from naic.decode.decoding import Decoding
from naic.decode.wishes import Wishes, as_decoding
from naic.errors import ImageError
from naic.files import printable
from naic.images.sources import BytesImage
from naic.serve.agents import View
from naic.serve.batcher import Batcher, gone, late, stopping
from naic.serve.service import PLAIN, Asked, Refused, Upload

if TYPE_CHECKING:
    from naic.runtime.captioner import Caption, Captioner
    from naic.serve.metrics import Metrics
    from naic.serve.options import ServeOptions

T = TypeVar("T")
Pixels = npt.NDArray[np.uint8]
LONGEST_NAME = 100  # characters of a photo's name in messages
_SURE = 0.8  # of the time for draining: what was taken on must not take longer
_STARTING = ("the model", "it is being loaded", "Try again in a moment.")


@dataclass(slots=True, eq=False)
class _Photo:
    """A photo on its way: its pixels (P, P, 3), which are there when the future is."""

    pixels: Pixels
    error: "Future[ImageError | None]"


class Worker:
    """A `Service`: one model, one queue.

    Attributes:
        model: its name.
        loaded: when it was loaded.
        draining: whether no more is taken on.
    """

    def __init__(self, options: "ServeOptions", metrics: "Metrics") -> None:
        self.model = "naic" if options.model is None else printable(options.model.name) or "naic"
        self.loaded = 0
        self.draining = False
        self._options, self._metrics = options, metrics
        self._captioner: Captioner | None = None
        self._view = View()
        self._decoder: ImageDecoder | None = None
        self._batcher: Batcher[_Photo, Caption | ImageError] | None = None

    def begin(self, captioner: "Captioner", view: View) -> None:
        """Take the model into service, and what its agents' view has."""
        options, engine = self._options, captioner.engine
        # As a captioner decodes for itself: a network on a CPU leaves little to decode with.
        self._decoder = ImageDecoder(
            options.decoders or os.cpu_count() or 1,
            engine.pixels,
            isolated=engine.device.type != "cpu",
        )
        self._captioner, self._view = captioner, view
        self._batcher = Batcher(
            self._work,
            batch=options.batch,
            queue=options.queue,
            within=_SURE * options.drain,  # or not all would be answered when it is stopped
            told=self._metrics.batch,
        )
        self.loaded = int(time.time())

    @property
    def captioner(self) -> "Captioner":
        """The model."""
        if self._captioner is None:
            raise Refused(503, *_STARTING, retry_after=2)
        return self._captioner

    @property
    def view(self) -> View:
        """What the agents' view has."""
        if self._captioner is None:
            raise Refused(503, *_STARTING, retry_after=2)
        return self._view

    @property
    def batcher(self) -> "Batcher[_Photo, Caption | ImageError]":
        """Its queue."""
        if self._batcher is None:
            raise Refused(503, *_STARTING, retry_after=2)
        return self._batcher

    async def caption(
        self, photos: Sequence[Upload], asked: Asked = PLAIN
    ) -> "list[Caption | ImageError]":
        """For each photo its caption, or why it has none; see `Service`."""
        batcher, key = self._open(len(photos)), self._key(asked)
        batcher.check_room(len(photos))  # before there is work; nobody comes in between
        waiting = [self._decode(photo) for photo in photos]
        try:
            outcomes = await self._in_time(batcher(waiting, key))
        finally:
            for photo in waiting:
                photo.error.cancel()  # those that nobody waits for any more
        failed = sum(isinstance(outcome, ImageError) for outcome in outcomes)
        self._metrics.images.labels("captioned").inc(len(outcomes) - failed)
        self._metrics.images.labels("unusable").inc(failed)
        return outcomes

    async def look(self, photo: Upload, asked: Asked, work: Callable[[Pixels, Asked], T]) -> T:
        """What `work` gives of a photo's pixels, in the model's thread; see `Service`."""
        batcher = self._open(1)
        self._key(asked)
        batcher.check_room(1)
        waiting = self._decode(photo)
        wishes: Wishes = {**self._options.wishes, **asked.wishes}
        whole = Asked(asked.alternatives, wishes)

        def now() -> T:
            if error := _error(waiting):
                raise error
            return work(waiting.pixels, whole)

        try:
            outcome = await self._in_time(batcher.turn(now))
        except ImageError:
            self._metrics.images.labels("unusable").inc()
            raise
        finally:
            waiting.error.cancel()
        self._metrics.images.labels("captioned").inc()
        return outcome

    async def turn(self, work: Callable[[], T]) -> T:
        """What `work` gives, in the model's thread; see `Service`."""
        return await self._in_time(self._open(1).turn(work))

    async def check(self, pixels: Pixels) -> "Caption | ImageError":
        """The caption of pixels (P, P, 3), as any other's."""
        done: Future[ImageError | None] = Future()
        done.set_result(None)
        [outcome] = await self.batcher(
            [_Photo(pixels, done)], as_decoding({}, 0, self.captioner.style)
        )
        return outcome

    @property
    def queued(self) -> tuple[int, int]:
        """How many wait, and how many are worked at."""
        return (self._batcher.waiting, self._batcher.running) if self._batcher else (0, 0)

    def check_room(self) -> None:
        """Refuse a request whose photos, one at least, would be refused.

        Raises:
            Refused: there is no room, or the server cannot caption now.
        """
        if self.draining:
            raise stopping()
        self.batcher.check_room(1)

    def later(self) -> int:
        """In how many seconds one more request may come again."""
        return self._batcher.later() if self._batcher else 1

    def abandon(self, *, running: bool) -> None:
        """Refuse those that wait, or those that are worked at too."""
        if self._batcher is not None:
            self._batcher.abandon(running=running)

    def close(self, seconds: float) -> bool:
        """End the worker, after the last that was taken on; whether it has ended in time."""
        self.draining = True
        if self._batcher is None or self._decoder is None:
            return True
        self._batcher.close()
        if not self._batcher.join(seconds):
            return False
        # It may be at a photo that nobody waits for any more.
        closing = threading.Thread(target=self._decoder.__exit__, daemon=True)
        closing.start()
        closing.join(seconds)
        return not closing.is_alive()

    def _open(self, number: int) -> "Batcher[_Photo, Caption | ImageError]":
        """The queue, if the server takes on so many."""
        if self.draining:
            raise stopping()
        if number > self._options.max_images:
            why = f"{number} images are more than the {self._options.max_images} of a request"
            raise Refused(413, "the request", why, "Send fewer at a time.")
        return self.batcher

    def _key(self, asked: Asked) -> Decoding:
        """Requests that want the same are one batch; what cannot be is told before it waits."""
        wishes: Wishes = {**self._options.wishes, **asked.wishes}
        return as_decoding(wishes, asked.alternatives, self.captioner.style)

    def _decode(self, photo: Upload) -> _Photo:
        assert self._decoder is not None
        side = self.captioner.engine.pixels
        pixels = np.empty((side, side, 3), np.uint8)
        name = printable(photo.name)[:LONGEST_NAME]
        image = BytesImage(photo.content, name, self._options.image_pixels)
        return _Photo(pixels, self._decoder.submit(image, pixels))

    async def _in_time(self, answer: Awaitable[T]) -> T:
        seconds = self._options.timeout
        try:
            return await asyncio.wait_for(answer, seconds)
        except TimeoutError:
            if self.batcher.dead is not None:
                raise gone() from None
            raise late(seconds) from None

    def _work(self, key: Hashable, photos: Sequence[_Photo]) -> "list[Caption | ImageError]":
        """Captions of a batch, in the worker's thread."""
        assert isinstance(key, Decoding)
        errors = [_error(photo) for photo in photos]
        good = [photo.pixels for photo, error in zip(photos, errors, strict=True) if error is None]
        said: Iterator[Caption] = iter(())
        if good:
            pixels = np.stack(good)
            wishes = {name: getattr(key, name) for name in Wishes.__annotations__}
            wishes["style"] = key.style is not None
            said = iter(
                self.captioner.say(pixels, alternatives=key.alternatives, **cast(Wishes, wishes))
            )
        return [next(said) if error is None else error for error in errors]


def _error(photo: _Photo) -> ImageError | None:
    """Why the photo cannot be used; waits until that is known."""
    try:
        return photo.error.result()
    except CancelledError:  # its client went away while it was taken from the queue
        return ImageError("the photo", "nobody waits for it")
