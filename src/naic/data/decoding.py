"""Images decoded in parallel, into memory that the caller provides.

In processes where there is much to do, because half of the work of opening an image is Python:
sixteen threads decode no faster than three. A process also keeps a crash to itself: a file that
brings the decoder down is an error like any other, and the run goes on. Each process is led by a
thread here, which reads the pixels from a pipe straight into their place.
"""

import contextlib
import itertools
import json
import os
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BufferedReader, BufferedWriter
from pathlib import Path
from typing import TYPE_CHECKING, Self

import numpy as np
import numpy.typing as npt

from naic.data.decode_worker import LENGTH, no_memory, pack
from naic.errors import BackboneError, ImageError
from naic.images.converting import square_pixels

if TYPE_CHECKING:
    from naic.images.sources import ImageSource

Pixels = npt.NDArray[np.uint8]
WORKER = "naic.data.decode_worker"
PIPE_BYTES = 1 << 20  # a whole image of 512 pixels fits, so a worker need not wait for its reader
ENOUGH_FOR_PROCESSES = 64  # images; below that, starting a process takes longer than it saves
BATCHES_AHEAD = 3  # decoded images waiting for the network: enough to ride out a slow file


@dataclass(frozen=True, slots=True)
class Decoded:
    """What came of one batch of images."""

    positions: list[int]  # which images these are the pixels of
    pixels: Pixels  # (len(positions), P, P, 3)
    errors: list[tuple[int, ImageError]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Images on their way: `pixels` is filled in while the futures come true."""

    first: int
    pixels: Pixels  # (b, P, P, 3)
    results: list["Future[ImageError | None]"]


def decode_batches(
    images: "Iterable[ImageSource]",
    pixels: int,
    *,
    batch: int,
    processes: bool,
    workers: int = 0,
) -> Iterator[Decoded]:
    """Images squashed to `pixels` a side, a batch at a time, in order, some batches ahead.

    An image that cannot be read becomes an error of its batch and does not move the others:
    batch b is made of images b·batch to (b+1)·batch-1. Images are taken as they are needed, so
    that there may be millions of them.

    Args:
        images: any number of them.
        pixels: a side.
        batch: how many at once.
        processes: use processes if the images are many.
        workers: the number of decoders; 0 means one for each core.
    """
    coming = iter(images)
    first = list(itertools.islice(coming, ENOUGH_FOR_PROCESSES)) if processes else []
    coming = itertools.chain(first, coming)
    isolated = len(first) == ENOUGH_FOR_PROCESSES
    with ImageDecoder(workers or os.cpu_count() or 1, pixels, isolated=isolated) as decoder:
        yield from decode_with(decoder, coming, batch=batch)


def decode_with(
    decoder: "ImageDecoder", images: "Iterable[ImageSource]", *, batch: int
) -> Iterator[Decoded]:
    """As `decode_batches`, with a decoder that is there: to start its processes takes a while."""
    coming, pixels = iter(images), decoder.pixels
    waiting: deque[_Batch] = deque()
    start = 0
    while chunk := list(itertools.islice(coming, batch)):
        places = np.empty((len(chunk), pixels, pixels, 3), np.uint8)
        results = [decoder.submit(*task) for task in zip(chunk, places, strict=True)]
        waiting.append(_Batch(start, places, results))
        start += len(chunk)
        if len(waiting) > BATCHES_AHEAD:
            yield _finished(waiting.popleft())
    while waiting:
        yield _finished(waiting.popleft())


def _finished(batch: _Batch) -> Decoded:
    outcomes = [(row, result.result()) for row, result in enumerate(batch.results)]
    errors = [(batch.first + row, error) for row, error in outcomes if error is not None]
    good = [row for row, error in outcomes if error is None]
    pixels = batch.pixels[good] if errors else batch.pixels
    return Decoded([batch.first + row for row in good], pixels, errors)


class ImageDecoder:
    """Decodes in `workers` processes of its own if `isolated`, else in threads of this one.

    Attributes:
        pixels: a side of what comes out.
    """

    def __init__(self, workers: int, pixels: int, *, isolated: bool) -> None:
        self.pixels = pixels
        self._isolated = isolated and bool(sys.executable)
        self._pool = ThreadPoolExecutor(workers, "decode", initializer=stand_back)
        self._own = threading.local()
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for worker in self._workers:
            worker.close()

    def submit(self, image: "ImageSource", place: Pixels) -> "Future[ImageError | None]":
        """Have `image` decoded into `place` (pixels, pixels, 3); the future tells if it failed."""
        return self._pool.submit(self._decode, image, place)

    def _decode(self, image: "ImageSource", place: Pixels) -> ImageError | None:
        if self._isolated and (task := pack(image, self.pixels)) is not None:
            return self._worker().decode(image.name, task, place)
        try:
            place[:] = square_pixels(image.load(at_least=self.pixels), self.pixels)
        except ImageError as error:
            return error
        except MemoryError:
            return no_memory(image.name)
        return None

    def _worker(self) -> "_Worker":
        """The process of the calling thread."""
        worker: _Worker | None = getattr(self._own, "worker", None)
        if worker is None or worker.crashed:
            worker = self._own.worker = _Worker()
            self._workers.append(worker)
        return worker


def stand_back() -> None:
    """Let the calling thread (one that writes, say) run when the network's threads pause.

    A layer is done when its slowest thread is done: a helper that pushes one of them off its core
    makes all the others wait. On Linux a thread can have a priority of its own.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)


def _search_path() -> str:
    """Where this program finds its modules, the current folder too if it does."""
    return os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)


class _Worker:
    """One decoding process, used by one thread."""

    def __init__(self) -> None:
        self.crashed = False
        process = subprocess.Popen(  # noqa: S603 - our own module
            # -P: the current folder is not searched, as it is not for the `naic` command.
            [sys.executable, "-P", "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pipesize=PIPE_BYTES if sys.platform == "linux" else -1,
            # A program that extended its path by hand wants its parts to find naic as well.
            env=os.environ | {"PYTHONPATH": _search_path()},
        )
        assert isinstance(process.stdin, BufferedWriter)
        assert isinstance(process.stdout, BufferedReader)
        self._process, self._tasks, self._answers = process, process.stdin, process.stdout

    def decode(self, name: str, task: bytes, place: Pixels) -> ImageError | None:
        """Have a task done; `name` is the image's, `place` where its pixels go."""
        try:
            self._tasks.write(task)
            self._tasks.flush()
            (size,) = LENGTH.unpack(self._answers.read(LENGTH.size))
            if size:
                return ImageError(*json.loads(self._answers.read(size)))
            if self._answers.readinto(place.data) == place.nbytes:
                return None
        except (OSError, ValueError, struct.error):  # it ended in the middle of an answer
            pass
        self.crashed = True
        self.close()
        if self._process.returncode >= 0:  # it was not killed: something is wrong with it itself
            why = f"ended with exit code {self._process.returncode}; its message stands above"
            hint = "Mend what it says, and run the same command again."
            raise BackboneError("the decoding process", why, hint)
        return ImageError(
            name,
            f"the decoder ended while it read this file (exit code {self._process.returncode})",
            "The file is damaged, or memory ran out: convert it to JPEG or PNG, or leave it out.",
        )

    def close(self) -> None:
        """Let the process end by ending its input."""
        for pipe in (self._tasks, self._answers):
            # What was still to be sent to a crashed worker has nobody to go to.
            with contextlib.suppress(OSError):
                pipe.close()
        self._process.wait()
