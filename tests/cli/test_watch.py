import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.runtime import ready
from naic.tasks.watch import run
from tests.images.images import encode, photo
from tests.runtime.small import LENGTH, NETWORK, make_model

CATS = " ".join(["cat"] * LENGTH)
STOPPED = "\nnaic watch: stopped. The same command goes on.\n"
PATIENCE = 120.0  # seconds: far more than a test needs
QUICK = ["--settle", "0.05"]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(
        tmp_path_factory.mktemp("model") / "cat", "causal", backbone=NETWORK, says="cat"
    )


@pytest.fixture
def home(model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with one for photos; the model inside naic says cat, and nothing else."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(ready, "SHIPPED", model)
    Path("in").mkdir()
    return tmp_path


@pytest.fixture
def meanwhile() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Has something done while the watch is at work; what fails there fails the test."""
    failed: list[BaseException] = []
    threads: list[threading.Thread] = []

    def begin(work: Callable[[], None]) -> None:
        def safely() -> None:
            try:
                work()
            except BaseException as error:
                failed.append(error)
                os.kill(os.getpid(), signal.SIGTERM)

        threads.append(threading.Thread(target=safely))
        threads[0].start()

    yield begin
    for thread in threads:
        thread.join()
    assert failed == []


def drop(name: str, cut: int | None = None) -> None:
    """As programs do that write with care: under another name first."""
    hidden = Path("in", f".{Path(name).name}.part")
    hidden.write_bytes(encode(photo(), "JPEG")[:cut])
    Path("in", name).parent.mkdir(exist_ok=True)
    hidden.rename(Path("in", name))


def wait_for(*names: str) -> None:
    until = time.monotonic() + PATIENCE
    while not all(Path("in", name).exists() for name in names):
        assert time.monotonic() < until
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("how", "every", "number", "code", "end"),
    [
        ([], "60", signal.SIGTERM, 0, ""),
        (["--poll", "0.05"], "0.05", signal.SIGINT, 130, STOPPED),
    ],
)
def test_photos_are_captioned_until_a_signal_comes(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    meanwhile: Callable[[Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
    how: list[str],
    every: str,
    number: signal.Signals,
    code: int,
    end: str,
) -> None:
    monkeypatch.setattr(run, "AT_LEAST", 0.05)
    drop("a.jpg")

    def work() -> None:
        wait_for("a.txt")
        drop("new/b.jpg")
        wait_for("new/b.txt")
        os.kill(os.getpid(), number)

    before = signal.getsignal(number)
    meanwhile(work)
    assert main(["watch", "in", *QUICK, *how]) == code
    assert signal.getsignal(number) is before
    said = capsys.readouterr()
    assert said.out == f"in/a.jpg: {CATS}\nin/new/b.jpg: {CATS}\n"
    assert said.err == f"naic watch: watching in, a look every {every} s.\n{end}"
    assert Path("in/new/b.txt").read_text() == f"{CATS}\n"


def test_once(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    drop("a.jpg")
    drop("torn.jpg", 200)
    assert main(["watch", "in", "--once", *QUICK]) == 3
    said = capsys.readouterr()
    assert said.out == f"in/a.jpg: {CATS}\n"
    assert said.err == (
        "naic watch: in/torn.jpg: the JPEG file is cut short. Copy or download it again.\n"
    )
    assert main(["watch", "in", "--once", *QUICK]) == 0
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")


def test_what_is_wrong_is_said_before_it_begins(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["watch", "none"]) == 2
    assert "naic watch: none: there is no such folder." in capsys.readouterr().err
    assert main(["watch", ""]) == 2
    assert "naic watch: FOLDER: it is empty." in capsys.readouterr().err
    monkeypatch.setattr(ready, "SHIPPED", home / "nowhere")
    assert main(["watch", "in"]) == 1
    assert "this copy of naic has no model inside" in capsys.readouterr().err


def megabytes() -> float:
    """What this process has in memory."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


@pytest.mark.slow
def test_a_thousand_photos_at_once_and_memory_stays_flat(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    meanwhile: Callable[[Callable[[], None]], None],
) -> None:
    held: list[float] = []

    def work() -> None:
        for batch in range(4):
            for number in range(1000):
                drop(f"{batch}-{number:03}.jpg")
            wait_for(*(f"{batch}-{number:03}.txt" for number in range(1000)))
            held.append(megabytes())
        os.kill(os.getpid(), signal.SIGTERM)

    meanwhile(work)
    assert main(["watch", "in", *QUICK]) == 0
    assert len(set(capsys.readouterr().out.splitlines())) == 4000
    assert max(held) < held[0] + 20, held
