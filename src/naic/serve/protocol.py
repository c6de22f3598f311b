"""HTTP as uvicorn has it, but nobody holds a connection open without asking for something."""

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol

SECONDS = 15.0  # for the first line and the headers of a request


class PatientProtocol(H11Protocol):
    """Closes a connection whose request does not begin within `SECONDS`.

    uvicorn waits for ever for the first line, and for the rest of one after its first letter.
    """

    seconds = SECONDS
    _waits: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has come."""
        super().connection_made(transport)
        self._wait()

    def data_received(self, data: bytes) -> None:
        """Something has come; if it is no whole head of a request, time goes on."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._waits is None:
            self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Somebody has gone."""
        self._stop()
        super().connection_lost(exc)

    def _wait(self) -> None:
        self._waits = self.loop.call_later(self.seconds, self._too_slow)

    def _stop(self) -> None:
        if self._waits is not None:
            self._waits.cancel()
            self._waits = None

    def _too_slow(self) -> None:
        self._waits = None
        if not self.transport.is_closing():
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
            self.transport.close()
