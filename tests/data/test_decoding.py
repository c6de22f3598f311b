import io
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from naic.data import decoding
from naic.data.decode_worker import LENGTH, pack, unpack
from naic.data.decoding import ENOUGH_FOR_PROCESSES, ImageDecoder, decode_batches
from naic.data.shapes.dataset import SceneImage
from naic.errors import ImageError
from naic.images.sources import (
    BytesImage,
    FileImage,
    ImageSource,
    MemoryImage,
    Mirrored,
    NoImage,
    TarImage,
)

SIZE = 8


def plain(level: int) -> BytesImage:
    """An image of one colour."""
    file = io.BytesIO()
    Image.new("RGB", (SIZE, SIZE), (level,) * 3).save(file, "PNG")
    return BytesImage(file.getvalue(), "plain")


def bad(name: str = "bad.jpg") -> BytesImage:
    return BytesImage(b"GIF89a", name)


@pytest.fixture
def odd_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Workers that die of some files, and print at others."""
    monkeypatch.setattr(decoding, "WORKER", "tests.data.odd_worker")


def decode(
    images: list[ImageSource], workers: int, *, isolated: bool
) -> tuple[list[int], list[ImageError | None]]:
    """The upper left value of each image, and the errors."""
    places = np.zeros((len(images), SIZE, SIZE, 3), np.uint8)
    with ImageDecoder(workers, SIZE, isolated=isolated) as decoder:
        futures = [decoder.submit(*task) for task in zip(images, places, strict=True)]
        errors = [future.result() for future in futures]
    assert (places == places[:, :1, :1]).all()
    return places[:, 0, 0, 0].tolist(), errors


@pytest.mark.parametrize("isolated", [False, True])
def test_images_and_errors_come_back_in_their_places(isolated: bool) -> None:
    images: list[ImageSource] = [plain(i) if i % 5 else bad(f"{i}.jpg") for i in range(1, 60)]
    levels, errors = decode(images, 3, isolated=isolated)
    for i, (level, error) in enumerate(zip(levels, errors, strict=True), 1):
        if i % 5:
            assert (level, error) == (i, None)
        else:
            assert isinstance(error, ImageError)
            assert error.what == f"{i}.jpg"
            assert error.why == "the GIF file is cut short"
            assert error.hint == "Copy or download it again."


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize("count", [0, 1, 4, 9, ENOUGH_FOR_PROCESSES - 1, ENOUGH_FOR_PROCESSES + 3])
def test_batches_hold_all_images_in_order(count: int, processes: bool) -> None:
    images = (plain(i) if i % 5 else bad(f"{i}.jpg") for i in range(count))
    found = list(decode_batches(images, SIZE, batch=4, processes=processes, workers=2))
    assert len(found) == -(-count // 4)
    for number, batch in enumerate(found):
        members = range(4 * number, min(4 * number + 4, count))
        assert batch.positions == [i for i in members if i % 5]
        assert batch.pixels[:, 0, 0, 0].tolist() == batch.positions
        wrong = [(i, f"{i}.jpg") for i in members if i % 5 == 0]
        assert [(position, error.what) for position, error in batch.errors] == wrong


@pytest.mark.usefixtures("odd_worker")
def test_many_images_are_decoded_in_processes() -> None:
    """In a thread this image would end the program."""
    images: list[ImageSource] = [plain(i) for i in range(ENOUGH_FOR_PROCESSES - 1)]
    images.append(FileImage(Path("deadly.tif")))
    found = list(decode_batches(iter(images), SIZE, batch=16, processes=True))
    assert [error.what for batch in found for _, error in batch.errors] == ["deadly.tif"]


@pytest.mark.usefixtures("odd_worker")
def test_a_file_that_kills_the_decoder_is_an_error_and_the_rest_goes_on() -> None:
    images: list[ImageSource] = [
        plain(1),
        FileImage(Path("deadly.tif")),
        plain(2),
        FileImage(Path("deadly.tif")),
        plain(3),
    ]
    levels, errors = decode(images, 1, isolated=True)
    assert [levels[0], levels[2], levels[4]] == [1, 2, 3]
    assert [error is None for error in errors] == [True, False, True, False, True]
    assert str(errors[1]).startswith(
        "deadly.tif: the decoder ended while it read this file (exit code -11)"
    )


@pytest.mark.usefixtures("odd_worker")
def test_what_a_library_prints_does_no_harm(capfd: pytest.CaptureFixture[str]) -> None:
    assert decode([FileImage(Path("talkative")), plain(7)], 1, isolated=True) == (
        [3, 7],
        [None, None],
    )
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
        "from naic.data.decoding import ImageDecoder\n"
        "from tests.data.test_decoding import SIZE, plain\n"
        "decoder = ImageDecoder(1, SIZE, isolated=True)\n"
        "decoder.submit(plain(1), np.zeros((SIZE, SIZE, 3), np.uint8)).result()\n"
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


@pytest.mark.parametrize(
    "image",
    [
        FileImage(Path("a/b.jpg")),
        FileImage(Path("odd \udcff\n name.jpg")),
        TarImage(Path("photos.tar"), "a/\udcff.jpg", 1536, 99),
        BytesImage(bytes(range(256)), "image 1"),
        Mirrored(FileImage(Path("a.jpg"))),
        Mirrored(Mirrored(BytesImage(b"\x00\xff", "image 2"))),
        SceneImage(7, 12),
    ],
)
def test_tasks_are_json_and_bytes_and_say_all_of_an_image(image: ImageSource) -> None:
    task = pack(image, 224)
    assert task is not None
    assert LENGTH.unpack_from(task) == (len(task) - LENGTH.size,)
    assert unpack(task[LENGTH.size :]) == (image, 224)


def test_what_only_this_process_has_is_loaded_by_it() -> None:
    pixels = MemoryImage(Image.new("RGB", (SIZE, SIZE), (5, 5, 5)), "image 1")
    images: list[ImageSource] = [pixels, Mirrored(pixels), NoImage("image 3", "why", "Hint.")]
    assert [pack(image, SIZE) for image in images] == [None, None, None]
    levels, errors = decode(images, 2, isolated=True)
    assert levels[:2] == [5, 5]
    assert [str(error) for error in errors] == ["None", "None", "image 3: why. Hint."]


def test_nothing_is_unpickled() -> None:
    """A stranger who can write to a pipe must not be able to run code."""
    folder = Path(decoding.__file__).parents[1]
    for name in ("data/decoding.py", "data/decode_worker.py", "images/sources.py"):
        assert "pickle" not in (folder / name).read_text()
