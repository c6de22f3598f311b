"""Bodies of requests: how large, how slow and how many they may be, and clients that go away.

A body is read whole, into memory, before anything is done with it: what is refused has cost nothing
else, and nothing is written to a disk.
"""

import asyncio
import contextlib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from naic.serve.batcher import stopping
from naic.serve.doors import ErrorBody, header
from naic.serve.replies import reply
from naic.serve.service import Refused
from naic.serve.uploads import FORM

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from naic.serve.metrics import Metrics
    from naic.serve.options import ServeOptions
    from naic.serve.worker import Worker

# What is asked for there needs no place in the queue.
_WITHOUT_PHOTOS = ("/v1/xmp", "/v1/advantage", "/api/show")
_FORMS = ("/v1/caption", "/v1/agents")
_READS = ("GET", "HEAD", "OPTIONS")
MOST_VALUES = 100_000  # of JSON: a megabyte of empty lists would be thirty of memory
_SMALLER = "Send fewer or smaller images, or raise --max-body."
LINGER = 2.0  # seconds in which a client that still sends can hear that it was refused
LAST_LINGER = 0.3  # the same when the server is being stopped
LINGER_BYTES = 64_000_000


class Gone(Exception):  # noqa: N818 - nobody hears of it
    """The client has gone away."""


@dataclass(slots=True)
class Arrivals:
    """Hands over whole bodies, of no more requests at once than there is room for.

    Attributes:
        held: bytes of the bodies that are here.
        here: requests that are here, without those that only read.
    """

    app: "ASGIApp"
    worker: "Worker"
    options: "ServeOptions"
    error_body: ErrorBody
    metrics: "Metrics"
    held: int = 0
    here: int = 0
    _coming: set[asyncio.Timeout] = field(default_factory=set)

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        """As ASGI has it."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        try:
            self._admit(scope)
            await self._answer(scope, receive, send)
        except Gone:
            return None
        except Refused as refused:
            await self._refuse(refused, scope, receive, send)
        return None

    def _admit(self, scope: "Scope") -> None:
        """Refuse what need not even be read.

        Raises:
            Refused: the server is being stopped, or busy, or the body says that it is too large.
        """
        if scope["method"] in _READS:  # health and numbers are told however much there is to do
            return
        if self.worker.draining:
            raise stopping()
        if scope["path"] not in _WITHOUT_PHOTOS:
            self.worker.check_room()
        if self.here >= self.options.max_requests:
            why = f"{self.options.max_requests} requests are worked at or wait already"
            raise self._too_much(why)
        length = header(scope, b"content-length") or ""
        if length.isdecimal() and int(length) > self.options.body_bytes:
            raise self._too_large()

    async def _answer(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        arrived = bytearray()
        counts = scope["method"] not in _READS
        self.here += counts
        size = 0
        try:
            await self._take_in_time(receive, arrived)
            size, body = len(arrived), bytes(arrived)
            arrived.clear()
            _check_values(scope, body)
            answering = _while_there(self.app, scope, body, receive, send)
            del body
            await answering
        finally:
            self.here -= counts
            self.held -= size or len(arrived)

    async def _take_in_time(self, receive: "Receive", arrived: bytearray) -> None:
        """Receive the body, unless it takes too long or the server is being stopped."""
        limit = asyncio.timeout(self.options.timeout)
        self._coming.add(limit)
        try:
            async with limit:
                await self._take(receive, arrived)
        except TimeoutError:
            if self.worker.draining:
                raise stopping() from None
            why = f"it did not arrive within {self.options.timeout:g} seconds"
            raise Refused(408, "the request", why, "Send it faster.") from None
        finally:
            self._coming.discard(limit)

    async def _take(self, receive: "Receive", arrived: bytearray) -> None:
        """Receive the body into `arrived`, which counts as held.

        Raises:
            Refused: it is too large, or there are too many.
            Gone: the client went away in the middle.
        """
        more = True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise Gone
            part, more = message.get("body", b""), message.get("more_body", False)
            if len(arrived) + len(part) > self.options.body_bytes:
                raise self._too_large()
            if self.held + len(part) > self.options.memory_bytes:
                raise self._too_much(f"requests of {self.held:,} bytes are here already")
            arrived += part
            self.held += len(part)
            self.metrics.received.inc(len(part))

    def hurry(self) -> None:
        """Wait for no more bodies: what they ask for would be refused."""
        for limit in self._coming:
            if not limit.expired():
                limit.reschedule(asyncio.get_running_loop().time())

    def _too_much(self, why: str) -> Refused:
        return Refused(429, "the server", why, "Try again later.", self.worker.later())

    def _too_large(self) -> Refused:
        why = f"it has more than {self.options.body_bytes:,} bytes"
        return Refused(413, "the request", why, _SMALLER)

    async def _refuse(
        self, refused: Refused, scope: "Scope", receive: "Receive", send: "Send"
    ) -> None:
        """Answer at once, and close; but not before the client has had time to listen.

        A connection that is closed while data arrive is reset, and with it goes the answer.
        """
        headers = [(b"connection", b"close")]
        if refused.retry_after is not None:
            headers.append((b"retry-after", str(refused.retry_after).encode()))
        body = self.error_body(scope["path"], refused.status, str(refused))
        await reply(send, refused.status, body, headers, more=True)
        with contextlib.suppress(TimeoutError):
            seconds = LAST_LINGER if self.worker.draining else LINGER
            await asyncio.wait_for(_pour_away(receive), seconds)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def _check_values(scope: "Scope", body: bytes) -> None:
    """Refuse JSON that is small as text and large as objects.

    Raises:
        Refused: it has too many values.
    """
    kind = (header(scope, b"content-type") or "").lower()
    # Others read JSON, whatever it is said to be.
    form = kind.startswith(FORM) and scope["path"] in _FORMS
    if not form and sum(map(body.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise Refused(413, "the request", f"it has more than {MOST_VALUES:,} values", _SMALLER)


async def _pour_away(receive: "Receive") -> None:
    left = LINGER_BYTES
    while left > 0:
        message = await receive()
        if message["type"] == "http.disconnect" or not message.get("more_body", False):
            return
        left -= len(message.get("body", b""))


async def _while_there(
    app: "ASGIApp", scope: "Scope", body: bytes, receive: "Receive", send: "Send"
) -> None:
    """Let the app answer, as long as there is somebody who waits for the answer."""
    bodies = [body]
    del body  # it is let go when it has been read

    async def whole() -> "Message":
        if bodies:
            return {"type": "http.request", "body": bodies.pop(), "more_body": False}
        return await asyncio.Future()  # that the client is gone ends all of this

    async def until_gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    answer = asyncio.ensure_future(app(scope, whole, send))
    gone = asyncio.ensure_future(until_gone())
    try:
        await asyncio.wait((answer, gone), return_when=asyncio.FIRST_COMPLETED)
        if not answer.done():
            answer.cancel()
        await answer
    except asyncio.CancelledError:
        if not gone.done():
            raise  # the server ends
        raise Gone from None
    finally:
        answer.cancel()
        gone.cancel()
