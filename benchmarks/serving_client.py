"""So many clients of `naic serve` at once, each of which asks for one caption after the other.

python -m benchmarks.serving_client ADDRESS KNOWN.json --clients 64 --seconds 30

KNOWN.json has the paths of photos with their captions. Each answer is compared with the caption of
the photo that was sent. After 429 and 503 a client waits as long as Retry-After says. What happened
is written to standard output as JSON: clients are a program of their own, light enough to leave the
cores to the server.
"""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

OK, BUSY, ENDING = 200, 429, 503
BOUNDARY = "----photo"


class Known(NamedTuple):
    """A photo as a request, and its caption."""

    request: bytes
    caption: str


class Answer(NamedTuple):
    """What a request was answered."""

    status: int
    headers: dict[str, str]
    body: bytes


@dataclass(slots=True)
class Tally:
    """What happened to all requests.

    Attributes:
        statuses: how often each came.
        answered: of the captions, when they came and after how many seconds, from the start on.
        wrong: captions that were not those of their photo.
        waits: seconds that clients were told to stay away.
        broken: answers that ended in the middle, or never came on a connection that was new.
        closed: connections that were closed before an answer began, when they had been used before:
            a client may send when a server that ends has just said all it had to say.
        why: what 503 said, and how often.
    """

    statuses: dict[str, int] = field(default_factory=dict)
    answered: list[tuple[float, float]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    waits: list[int] = field(default_factory=list)
    broken: int = 0
    closed: int = 0
    why: dict[str, int] = field(default_factory=dict)


def request_of(path: Path, host: str) -> bytes:
    """A photo as a form."""
    kind = "content-disposition: form-data"
    head = f'--{BOUNDARY}\r\n{kind}; name="files"; filename="{path.name}"\r\n\r\n'
    body = head.encode() + path.read_bytes() + f"\r\n--{BOUNDARY}--\r\n".encode()
    lines = (
        "POST /v1/caption HTTP/1.1",
        f"host: {host}",
        f"content-type: multipart/form-data; boundary={BOUNDARY}",
        f"content-length: {len(body)}",
    )
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


async def read_answer(reader: asyncio.StreamReader) -> Answer:
    """One answer, whole."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (h.partition(":") for h in head)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Answer(int(head[0].split()[1]), headers, body)


class Client:
    """Asks for one caption after the other."""

    def __init__(self, host: str, port: int, tally: Tally, began: float) -> None:
        self._host, self._port, self._tally, self._began = host, port, tally, began
        self._stream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def __call__(self, photos: Sequence[Known], chance: random.Random, until: float) -> None:
        """Ask until the time is over, or nobody listens any more."""
        while time.monotonic() < until:
            known = chance.choice(photos)
            try:
                wait = await self._ask(known)
            except ConnectionRefusedError:
                return
            await asyncio.sleep(min(wait, max(0.0, until - time.monotonic())))

    async def _ask(self, known: Known) -> float:
        """One request; how long to wait before the next."""
        if self._stream is not None and self._stream[0].at_eof():
            self._leave()  # nobody keeps a connection for ever
        used = self._stream is not None
        if self._stream is None:
            self._stream = await asyncio.open_connection(self._host, self._port)
        reader, writer = self._stream
        sent = time.monotonic()
        try:
            writer.write(known.request)
            answer = await read_answer(reader)
        except (OSError, asyncio.IncompleteReadError) as error:
            begun = isinstance(error, asyncio.IncompleteReadError) and error.partial
            self._tally.closed += used and not begun
            self._tally.broken += not used or bool(begun)
            self._leave()
            return 0.0
        self._count(answer, known, sent)
        if answer.headers.get("connection") == "close":
            self._leave()
        if answer.status not in (BUSY, ENDING):
            return 0.0
        self._tally.waits.append(int(answer.headers["retry-after"]))
        return self._tally.waits[-1]

    def _count(self, answer: Answer, known: Known, sent: float) -> None:
        statuses, status = self._tally.statuses, str(answer.status)
        statuses[status] = statuses.get(status, 0) + 1
        if answer.status == OK:
            now = time.monotonic()
            self._tally.answered.append((now - self._began, now - sent))
            said = json.loads(answer.body)["results"][0]["caption"]
            if said != known.caption:
                self._tally.wrong.append(f"{said!r} is not {known.caption!r}")

        elif answer.status == ENDING:
            words = json.loads(answer.body)["error"]["message"]
            self._tally.why[words] = self._tally.why.get(words, 0) + 1

    def _leave(self) -> None:
        assert self._stream is not None
        self._stream[1].close()
        self._stream = None


async def load(address: str, known: dict[str, str], clients: int, seconds: float) -> Tally:
    """Have so many clients ask for so long."""
    found = urlsplit(address)
    host, port = found.hostname or "127.0.0.1", found.port or 80
    photos = [Known(request_of(Path(path), host), text) for path, text in known.items()]
    tally, began = Tally(), time.monotonic()
    asking = [Client(host, port, tally, began) for _ in range(clients)]
    until = began + seconds
    await asyncio.gather(*(own(photos, random.Random(n), until) for n, own in enumerate(asking)))
    return tally


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("address")
    parser.add_argument("known", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=30.0)
    own = parser.parse_args()
    known = json.loads(own.known.read_text(encoding="utf-8"))
    tally = asyncio.run(load(own.address, known, own.clients, own.seconds))
    json.dump(asdict(tally), sys.stdout)


if __name__ == "__main__":
    main()
