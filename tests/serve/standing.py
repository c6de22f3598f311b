"""A server in a thread, around a captioner that says what colour it sees, and can be held."""

import io
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx
import numpy as np
from PIL import Image

from naic.device import CPU
from naic.runtime.sentences import Alternative, Caption, Proposals, Word
from naic.serve.options import ServeOptions
from naic.serve.run import Running

SOON = 30.0  # seconds within which what has to happen happens, however busy the machine is
SIDE = 8


@dataclass
class Engine:
    """What is told of it."""

    runtime: str = "onnx"
    precision: str = "float32"
    pixels: int = SIDE
    device: Any = CPU

    def __call__(self, pixels: "np.ndarray[Any, Any]") -> Proposals:
        """Of a model that writes word by word: it has no agents."""
        words = np.zeros((len(pixels), 3, 1), np.int64)
        return Proposals(words, words.astype(np.float32))


class StandIn:
    """A captioner whose captions are the colours of images."""

    def __init__(self) -> None:
        self.engine = Engine()
        self.vocabulary = ["red"]
        self.calibration = None
        self.style = None
        self.free = threading.Event()
        self.free.set()
        self.begun = threading.Semaphore(0)
        self.batches: list[int] = []
        self.wishes: list[dict[str, Any]] = []
        self.fails: Callable[[np.ndarray[Any, Any]], BaseException | None] = lambda pixels: None

    def say(
        self, pixels: "np.ndarray[Any, Any]", *, alternatives: int = 0, **wishes: Any
    ) -> list[Caption]:
        """What it sees."""
        self.batches.append(len(pixels))
        self.wishes.append({"alternatives": alternatives, **wishes})
        self.begun.release()
        assert self.free.wait(SOON)
        if error := self.fails(pixels):
            raise error
        return [_caption(colour_of(image)) for image in pixels]


def _caption(text: str) -> Caption:
    word = Word(text, 0.5, ((text, 0.5), ("grey", 0.25)))
    return Caption(text, (word,), 0.5, (Alternative(text, 0.5),), 0.25, calibrated=True)


def colour_of(image: "np.ndarray[Any, Any]") -> str:
    """Its middle, in words."""
    return " ".join(str(int(level)) for level in image[SIDE // 2, SIDE // 2])


def photo(red: int, green: int = 0, blue: int = 0, size: tuple[int, int] = (16, 16)) -> bytes:
    """A photo of one colour."""
    out = io.BytesIO()
    Image.new("RGB", size, (red, green, blue)).save(out, "PNG")
    return out.getvalue()


@dataclass
class Server:
    """One that runs."""

    url: str
    captioner: StandIn
    running: Running
    told: list[str]
    thread: threading.Thread
    failed: list[BaseException] = field(default_factory=list)

    @property
    def address(self) -> tuple[str, int]:
        """For a socket."""
        url = httpx.URL(self.url)
        return url.host, url.port or 0

    def connect(self) -> socket.socket:
        """A socket to it."""
        return socket.create_connection(self.address, SOON)

    def post(self, contents: Sequence[bytes], **more: Any) -> httpx.Response:
        """Ask for captions."""
        files = [("files", (f"{n}.png", content)) for n, content in enumerate(contents)]
        return httpx.post(f"{self.url}/v1/caption", files=files, timeout=SOON, **more)

    def get(self, path: str, **more: Any) -> httpx.Response:
        """Ask for something else."""
        return httpx.get(f"{self.url}{path}", timeout=SOON, **more)

    def number(self, name: str) -> float:
        """One of the metrics."""
        token = self.running.options.token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        lines = self.get("/metrics", headers=headers).text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    @property
    def images(self) -> float:
        """Images that wait or are worked at: a first one may have been taken alone or not."""
        return self.number("naic_images_waiting") + self.number("naic_images_running")

    def until(self, so: Callable[[], bool]) -> None:
        """Wait until it is so."""
        wait = threading.Event()
        for _ in range(int(SOON / 0.01)):
            if so():
                return
            wait.wait(0.01)
        raise AssertionError("it did not happen")


@contextmanager
def serving(captioner: StandIn | None = None, **options: Any) -> Iterator[Server]:
    """A server that is ended afterwards."""
    captioner = captioner or StandIn()
    # A long time to drain: a busy machine would not take on what a test asks for otherwise.
    chosen = ServeOptions(**{"port": 0, "drain": 600.0, **options})
    chosen.check_values()
    ready, told, failed = threading.Event(), list[str](), list[BaseException]()

    def tell(text: str) -> None:
        told.append(text)
        ready.set()

    running = Running(chosen, tell, lambda _: captioner)  # type: ignore[arg-type, return-value]

    def run() -> None:
        try:
            running()
        except BaseException as error:
            failed.append(error)
            ready.set()

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(SOON)
    if failed:
        raise failed[0]
    server = Server(told[0].split()[0], captioner, running, told, thread, failed)
    try:
        assert captioner.begun.acquire(timeout=SOON)  # the first check of the model's health
        captioner.batches.clear()
        captioner.wishes.clear()
        yield server
    finally:
        captioner.free.set()
        running.stop()
        thread.join(SOON)
        assert not thread.is_alive()
