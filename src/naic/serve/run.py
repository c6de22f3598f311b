"""A server from its socket to its end: it starts at once, loads, serves, drains."""

import asyncio
import contextlib
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import uvicorn

from naic.errors import ConfigError, NaicError
from naic.serve.agents import load_view
from naic.serve.app import make_app
from naic.serve.health import Health
from naic.serve.metrics import Metrics
from naic.serve.protocol import PatientProtocol
from naic.serve.threads import aside
from naic.serve.worker import Worker
from naic.tasks.caption.speaker import load_captioner

if TYPE_CHECKING:
    from concurrent.futures import Future

    from naic.errors import Problem
    from naic.runtime.captioner import Captioner
    from naic.serve.agents import View
    from naic.serve.options import ServeOptions

Load = Callable[["ServeOptions"], "Captioner"]
BACKLOG = 1024
LAST = 0.5  # seconds for the last answers to leave
_LOOK = 0.02
_LAST_WORDS = 0.1


class _Server(uvicorn.Server):
    """uvicorn's, without its signals: it would end as if it had been killed."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Those are ours."""
        yield


@dataclass(slots=True)
class Running:
    """One server.

    Attributes:
        options: what it was started with.
        tell: hears a sentence when something has happened.
        stopped_by: the signals that came.
        error: what ended it, if nobody stopped it.
        ready: whether it has been.
    """

    options: "ServeOptions"
    tell: Callable[[str], None]
    load: Load
    stopped_by: list[int] = field(default_factory=list)
    error: Exception | None = None
    ready: bool = False
    _draining: "asyncio.Task[None] | None" = None
    _loading: "Future[tuple[Captioner, View]] | None" = None
    _stopper: Callable[[], object] | None = None

    def __call__(self) -> bool:
        """Serve until it is stopped; whether all of it has ended.

        Raises:
            ConfigError: nobody can listen at this address.
            NaicError: the model cannot be loaded, or has ended.
        """
        listening = listen(self.options)
        with listening:
            ended = asyncio.run(self._run(listening))
        if self.error is not None:
            raise self.error
        return ended

    def stop(self) -> None:
        """As a signal does, from any thread: the first time gently, then at once."""
        if self._stopper is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended
                self._stopper()

    async def _run(self, listening: socket.socket) -> bool:
        metrics = Metrics()
        worker = Worker(self.options, metrics)
        health = Health(worker, self.options.check, metrics)
        metrics.watch(worker)
        config = uvicorn.Config(
            make_app(worker, self.options, metrics, health),
            http=PatientProtocol,
            ws="none",
            lifespan="off",
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=BACKLOG,
            timeout_graceful_shutdown=1,
        )
        server = _Server(config)
        address = _address(listening)
        loop = asyncio.get_running_loop()
        self._stopper = lambda: loop.call_soon_threadsafe(self._stop, server, worker)
        with self._signals(lambda: self._stop(server, worker)):
            tasks = [
                asyncio.create_task(self._begin(worker, server, address)),
                asyncio.create_task(health.watch(lambda: self._died(server, worker))),
            ]
            await server.serve(sockets=[listening])
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        ended = await asyncio.to_thread(worker.close, LAST)
        return ended and (self._loading is None or self._loading.done())

    async def _begin(self, worker: Worker, server: _Server, address: str) -> None:
        """Load the model; meanwhile requests are told to come again."""
        try:
            self._loading = aside(self._load, "naic loads")
            captioner, view = await asyncio.wrap_future(self._loading)
        except Exception as error:
            self.error, server.should_exit = error, True
            return
        worker.begin(captioner, view)
        self.ready = True
        engine = captioner.engine
        self.tell(f"{address} ({engine.runtime}, {engine.precision}, {engine.device})")

    def _load(self) -> "tuple[Captioner, View]":
        """The model, and what its agents' view has."""
        captioner = self.load(self.options)
        return captioner, load_view(self.options, captioner)

    def _died(self, server: _Server, worker: Worker) -> None:
        dead = worker.batcher.dead
        why = f"its worker ended ({dead!r})"
        self.error = NaicError("the model", why, "Start the server again.")
        server.should_exit = True

    def _stop(self, server: _Server, worker: Worker) -> None:
        if self._draining is not None:
            self._draining.cancel()
            server.should_exit = server.force_exit = True
        else:
            self._draining = asyncio.ensure_future(self._drain(server, worker))

    async def _drain(self, server: _Server, worker: Worker) -> None:
        """Answer what was taken on; who comes now is told to go elsewhere."""
        worker.draining = True
        self.tell("stopping; what was taken on is answered first")
        arrivals = server.config.app.app.app  # type: ignore[union-attr]
        arrivals.hurry()

        async def quiet(seconds: float) -> None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    while arrivals.here or any(worker.queued):
                        await asyncio.sleep(_LOOK)

        await quiet(self.options.drain)
        worker.abandon(running=False)
        await quiet(LAST)
        worker.abandon(running=True)
        await quiet(_LAST_WORDS)
        server.should_exit = True

    @contextlib.contextmanager
    def _signals(self, stop: Callable[[], None]) -> Iterator[None]:
        """Let Ctrl-C and SIGTERM stop the server, and at the second time at once."""
        if threading.current_thread() is not threading.main_thread():
            yield  # no other thread hears of them
            return
        loop = asyncio.get_running_loop()

        def heard(number: int) -> None:
            self.stopped_by.append(number)
            stop()

        numbers = [signal.SIGTERM, signal.SIGINT]
        numbers = [n for n in numbers if signal.getsignal(n) != signal.SIG_IGN]
        for number in numbers:
            loop.add_signal_handler(number, heard, number)
        try:
            yield
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)


def load(options: "ServeOptions", tell: "Callable[[Problem], None]") -> "Captioner":
    """The captioner that the options name, ready: first batches take longer than any other."""
    captioner = load_captioner(tell, options.captioning())
    side = captioner.engine.pixels
    for images in (1, min(2, options.batch)):
        captioner.say(np.zeros((images, side, side, 3), np.uint8), **options.wishes)
    return captioner


def listen(options: "ServeOptions") -> socket.socket:
    """A socket at the address of the options.

    Raises:
        ConfigError: the address is not of this machine, in use, or not allowed.
    """
    where = f"--host {options.host} --port {options.port}"
    try:
        found = socket.getaddrinfo(
            options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        made = socket.create_server(
            found[0][4][:2], family=found[0][0], backlog=BACKLOG, reuse_port=False
        )
    except (OSError, UnicodeError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (while")[0]
        why = f"nobody can listen there ({reason})"
        raise ConfigError(where, why, "Choose another one; --port 0 takes a free port.") from error
    made.setblocking(False)
    return made


def _address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
