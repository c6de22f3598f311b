"""A service without a model, and servers of it, for tests of what is spoken."""

import base64
import hashlib
import socket
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import uvicorn
from fastapi import APIRouter, FastAPI

from naic.errors import ImageError
from naic.runtime.captioner import Captioner
from naic.runtime.sentences import Alternative, Caption
from naic.serve.agents import View
from naic.serve.app import make_routes
from naic.serve.options import ServeOptions
from naic.serve.service import PLAIN, Asked, Refused, Service, Upload

T = TypeVar("T")

FULL = Refused(429, "the queue", "4 of at most 4 images wait already", "Try again later.", 7)
MOST = 4  # images at once
COLOURS = ("red", "green", "blue", "grey", "white", "black", "brown", "golden")
THINGS = ("cat", "dog", "horse", "boat", "house", "bicycle", "cake", "tree")
PLACES = ("field", "street", "table", "beach", "garden", "kitchen", "hill", "bridge")


def sentence(content: bytes, other: int = 0) -> str:
    """What the fake says of a photo: it depends on every byte of it."""
    digest = hashlib.sha256(content + bytes(other)).digest()
    colour, thing, place = (
        words[digest[i] % len(words)] for i, words in enumerate((COLOURS, THINGS, PLACES))
    )
    return f"a {colour} {thing} near a {place}"


def confidence(content: bytes) -> float:
    """How sure the fake is of it."""
    return (1 + hashlib.sha256(content).digest()[3]) / 512


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def data_url(content: bytes) -> str:
    return f"data:image/jpeg;base64,{encoded(content)}"


class FakeService:
    """Captions that depend on the bytes; some bytes are no image, and it can refuse everything."""

    def __init__(self, *, bad: Collection[bytes] = (), refusal: Exception | None = None) -> None:
        self.model = "naic"
        self.loaded = 1_700_000_000
        self.requests: list[tuple[list[Upload], Asked]] = []
        self.refusal = refusal
        self._bad = bad

    @property
    def captioner(self) -> Captioner:
        raise AssertionError("the contracts ask for captions only")

    @property
    def view(self) -> View:
        raise AssertionError("the contracts ask for captions only")

    async def look(
        self, photo: Upload, asked: Asked, work: Callable[[npt.NDArray[np.uint8], Asked], T]
    ) -> T:
        raise AssertionError("the contracts ask for captions only")

    async def caption(
        self, photos: Sequence[Upload], asked: Asked = PLAIN
    ) -> list[Caption | ImageError]:
        if self.refusal is not None:
            raise self.refusal
        if len(photos) > MOST:
            raise Refused(413, "the request", f"{len(photos)} images are more than {MOST}", "")
        self.requests.append((list(photos), asked))
        return [self._outcome(photo, asked) for photo in photos]

    def _outcome(self, photo: Upload, asked: Asked) -> Caption | ImageError:
        if photo.content in self._bad:
            return ImageError(photo.name, "it is not an image", "Send another one.")
        said = [
            " ".join(sentence(photo.content, other).split()[: asked.wishes.get("max_words")])
            for other in range(max(1, asked.alternatives))
        ]
        sure = confidence(photo.content)
        others = tuple(Alternative(text, sure) for text in said[: asked.alternatives])
        return Caption(said[0], (), sure, others, sure, True)

    async def turn(self, work: Callable[[], T]) -> T:
        return work()


def make_app(service: Service, *more: APIRouter) -> FastAPI:
    """All contracts as the server has them, over this service."""
    app = make_routes(service, ServeOptions())
    for router in more:
        app.include_router(router)
    return app


@contextmanager
def serving(service: Service, *more: APIRouter) -> Iterator[str]:
    """A server on a free port of this machine; its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        config = uvicorn.Config(make_app(service, *more), log_config=None, lifespan="off")
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [free]})
        thread.start()
        by = time.monotonic() + 30
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < by
            time.sleep(0.01)
        yield f"http://127.0.0.1:{free.getsockname()[1]}"
        server.should_exit = True
        thread.join(30)
        assert not thread.is_alive()
