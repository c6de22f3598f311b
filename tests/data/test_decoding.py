import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from naic.data.decoding import ENOUGH_FOR_PROCESSES, Decoder, decode_batches
from naic.data.records import ImageSource
from naic.errors import ImageError

SIZE = 8


@dataclass(frozen=True)
class Plain:
    """An image of one colour."""

    level: int
    name: str = "plain"

    def load(self, at_least: int | None = None) -> Image.Image:
        return Image.new("RGB", (SIZE, SIZE), (self.level,) * 3)


@dataclass(frozen=True)
class Bad:
    name: str = "bad.jpg"

    def load(self, at_least: int | None = None) -> Image.Image:
        raise ImageError(self.name, "it is bad", "Be good.")


@dataclass(frozen=True)
class Deadly:
    """Stands for a file that brings the decoder down."""

    name: str = "deadly.tif"

    def load(self, at_least: int | None = None) -> Image.Image:
        os.kill(os.getpid(), signal.SIGSEGV)
        raise AssertionError


@dataclass(frozen=True)
class Talkative:
    name: str = "talkative"

    def load(self, at_least: int | None = None) -> Image.Image:
        print("a library that prints", flush=True)
        return Image.new("RGB", (SIZE, SIZE), (3, 3, 3))


def decode(
    images: list[ImageSource], workers: int, *, isolated: bool
) -> tuple[list[int], list[ImageError | None]]:
    """The upper left value of each image, and the errors."""
    places = np.zeros((len(images), SIZE, SIZE, 3), np.uint8)
    with Decoder(workers, SIZE, isolated=isolated) as decoder:
        futures = [decoder.submit(*task) for task in zip(images, places, strict=True)]
        errors = [future.result() for future in futures]
    assert (places == places[:, :1, :1]).all()
    return places[:, 0, 0, 0].tolist(), errors


@pytest.mark.parametrize("isolated", [False, True])
def test_images_and_errors_come_back_in_their_places(isolated: bool) -> None:
    images: list[ImageSource] = [Plain(i) if i % 5 else Bad(f"{i}.jpg") for i in range(1, 60)]
    levels, errors = decode(images, 3, isolated=isolated)
    for i, (level, error) in enumerate(zip(levels, errors, strict=True), 1):
        if i % 5:
            assert (level, error) == (i, None)
        else:
            assert isinstance(error, ImageError)
            assert (error.what, error.why, error.hint) == (f"{i}.jpg", "it is bad", "Be good.")


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("count", [0, 1, 4, 9, ENOUGH_FOR_PROCESSES - 1, ENOUGH_FOR_PROCESSES + 3])
def test_batches_hold_all_images_in_order(count: int, processes: bool) -> None:
    images = (Plain(i) if i % 5 else Bad(f"{i}.jpg") for i in range(count))
    found = list(decode_batches(images, SIZE, batch=4, processes=processes, workers=2))
    assert len(found) == -(-count // 4)
    for number, batch in enumerate(found):
        members = range(4 * number, min(4 * number + 4, count))
        assert batch.positions == [i for i in members if i % 5]
        assert batch.pixels[:, 0, 0, 0].tolist() == batch.positions
        bad = [(i, f"{i}.jpg") for i in members if i % 5 == 0]
        assert [(position, error.what) for position, error in batch.errors] == bad


def test_many_images_are_decoded_in_processes() -> None:
    """In a thread this image would end the program."""
    images: list[ImageSource] = [Plain(i) for i in range(ENOUGH_FOR_PROCESSES - 1)]
    images.append(Deadly())
    found = list(decode_batches(iter(images), SIZE, batch=16, processes=True))
    assert [error.what for batch in found for _, error in batch.errors] == ["deadly.tif"]


def test_a_file_that_kills_the_decoder_is_an_error_and_the_rest_goes_on() -> None:
    images: list[ImageSource] = [Plain(1), Deadly(), Plain(2), Deadly(), Plain(3)]
    levels, errors = decode(images, 1, isolated=True)
    assert [levels[0], levels[2], levels[4]] == [1, 2, 3]
    assert [error is None for error in errors] == [True, False, True, False, True]
    assert str(errors[1]).startswith(
        "deadly.tif: the decoder ended while it read this file (exit code -11)"
    )


def test_what_a_library_prints_does_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    assert decode([Talkative(), Plain(7)], 1, isolated=True) == ([3, 7], [None, None])
    assert "a library that prints" in capfd.readouterr().err


def runs(process: Path) -> bool:
    try:
        return " Z " not in (process / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_workers_end_with_their_parent() -> None:
    """Also when it is killed: their input ends, and so do they."""
    root = Path(__file__).parents[2]
    code = (
        "import numpy as np, time\n"
        "from naic.data.decoding import Decoder\n"
        "from tests.data.test_decoding import Plain, SIZE\n"
        "decoder = Decoder(1, SIZE, isolated=True)\n"
        "decoder.submit(Plain(1), np.zeros((SIZE, SIZE, 3), np.uint8)).result()\n"
        "print(decoder._workers[0]._process.pid, flush=True)\n"
        "time.sleep(60)"
    )
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=root) as parent:
        assert parent.stdout is not None
        worker = Path("/proc", parent.stdout.readline().strip())
        if not worker.exists():
            parent.kill()
            pytest.skip("there is no /proc to watch the worker in")
        parent.kill()
    patience = time.monotonic() + 10
    while runs(worker):
        assert time.monotonic() < patience, "the worker outlived its parent"
        time.sleep(0.02)
