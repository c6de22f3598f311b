"""Bodies of requests: how large, how slow and how many they may be, and clients that go away.

A body is read whole, into memory, before anything is done with it: what is refused has cost nothing
else, and nothing is written to a disk.
"""

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from naic.serve.batcher import stopping
from naic.serve.doors import ErrorBody, header
from naic.serve.replies import reply
from naic.serve.service import Refused

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from naic.serve.metrics import Metrics
    from naic.serve.options import ServeOptions
    from naic.serve.worker import Worker

_SMALLER = "Send fewer or smaller images, or raise --max-body."
LINGER = 2.0  # seconds in which a client that still sends can hear that it was refused
LINGER_BYTES = 64_000_000


class Gone(Exception):  # noqa: N818 - nobody hears of it
    """The client has gone away."""


@dataclass(slots=True)
class Arrivals:
    """Hands over whole bodies, of no more requests at once than there is room for.

    Attributes:
        held: bytes of the bodies that are here.
        here: requests that are here.
    """

    app: "ASGIApp"
    worker: "Worker"
    options: "ServeOptions"
    error_body: ErrorBody
    metrics: "Metrics"
    held: int = 0
    here: int = 0

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
        if self.worker.draining and scope["method"] == "POST":
            raise stopping()
        if self.here >= self.options.max_requests:
            why = f"{self.options.max_requests} requests are worked at or wait already"
            raise Refused(429, "the server", why, "Try again later.", 1)
        length = header(scope, b"content-length") or ""
        if length.isdecimal() and int(length) > self.options.body_bytes:
            raise self._too_large()

    async def _answer(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        parts: list[bytes] = []
        self.here += 1
        try:
            await self._take(receive, parts)
            await _while_there(self.app, scope, b"".join(parts), receive, send)
        finally:
            self.here -= 1
            self.held -= sum(map(len, parts))

    async def _take(self, receive: "Receive", parts: list[bytes]) -> None:
        """Receive the body into `parts`, which count as held.

        Raises:
            Refused: it is too large or too slow, or there are too many.
            Gone: the client went away in the middle.
        """
        by = time.monotonic() + self.options.timeout
        size, more = 0, True
        while more:
            try:
                message = await asyncio.wait_for(receive(), max(0.0, by - time.monotonic()))
            except TimeoutError:
                why = f"it did not arrive within {self.options.timeout:g} seconds"
                raise Refused(408, "the request", why, "Send it faster.") from None
            if message["type"] == "http.disconnect":
                raise Gone
            part, more = message.get("body", b""), message.get("more_body", False)
            size += len(part)
            if size > self.options.body_bytes:
                raise self._too_large()
            if self.held + len(part) > self.options.memory_bytes:
                why = f"requests of {self.held:,} bytes are here already"
                raise Refused(429, "the server", why, "Try again later.", 1)
            parts.append(part)
            self.held += len(part)
            self.metrics.received.inc(len(part))

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
            await asyncio.wait_for(_pour_away(receive), LINGER)
        await send({"type": "http.response.body", "body": b"", "more_body": False})


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
    told = False

    async def whole() -> "Message":
        nonlocal told
        if not told:
            told = True
            return {"type": "http.request", "body": body, "more_body": False}
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
