"""`POST /v1/xmp`: the files of `naic caption --write xmp`, and what a person wrote in them."""

import contextlib
import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from naic.serve.app import make_routes
from naic.serve.contracts import xmp
from naic.serve.options import ServeOptions
from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION
from naic.tasks.caption.metadata.sidecar import PLACES, held, without_caption
from tests.serve import standing
from tests.serve.contracts.test_pages import blocks, needs_curl
from tests.serve.contracts.test_pages import run as run_command
from tests.serve.fake import FakeService, make_app, serving
from tests.tasks.caption.metadata.packets import ALL, DARKTABLE, DIGIKAM, LIGHTROOM
from tests.tasks.caption.small import run, says, touch

MODEL = Path("no-such-model")
SAID = {"name": "a/1.jpg", "caption": "a cat & <a dog>", "confidence": 0.25}


def post(options: ServeOptions | None = None, /, **body: Any) -> Any:
    app = FastAPI()
    app.include_router(xmp.router(options or ServeOptions(MODEL)))
    return TestClient(app).post("/v1/xmp", json=SAID | body)


def made(**body: Any) -> bytes:
    answer = post(**body)
    assert answer.status_code == 200
    text: str = answer.json()["xmp"]
    return text.encode()


@pytest.mark.parametrize("existing", [None, DARKTABLE])
def test_it_is_the_file_that_caption_writes(
    existing: bytes | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    touch(Path("p"), "1.jpg")
    if existing is not None:
        Path("p/1.xmp").write_bytes(existing)
    run("p", write="xmp")
    own = Path("p/1.xmp").read_bytes()
    said = says("1.jpg")
    got = made(
        caption=said.text,
        confidence=said.confidence,
        existing=None if existing is None else existing.decode(),
    )
    date = re.compile(rb'naic:Date="[^"]*"')
    assert date.sub(b"", got) == date.sub(b"", own)
    # What it wrote is done, for naic caption and for itself, until something else is to be said.
    Path("p/1.xmp").write_bytes(got)
    done, _ = run("p", write="xmp")
    assert (done.captions, done.kept) == (0, 1)
    assert made(caption=said.text, existing=got.decode()) == got
    assert post(caption=said.text, existing=got.decode()).json()["said"] is True
    again = held(made(caption="a bird", existing=got.decode()), "x")
    assert [*again.texts.values()] == ["a bird"] * 2


@pytest.mark.parametrize("confidence", [0.5, None])
@pytest.mark.parametrize("data", ALL.values(), ids=ALL)
def test_what_a_person_wrote_stays(data: bytes, confidence: float | None) -> None:
    before = held(data, "x").texts
    written = made(confidence=confidence, existing=data.decode())
    for place, text in held(written, "x").texts.items():
        assert text == (before[place] or SAID["caption"])
    told = post(confidence=confidence, existing=data.decode()).json()
    assert told["said"] == (not all(before.values()))
    if all(before.values()):
        assert written == data
    assert (held(written, "x").mark is None) == (confidence is None or written == data)


def test_what_a_person_corrected_is_not_taken_for_naics() -> None:
    """It has no mark, so nothing writes over it, and no undo takes it out."""
    written = made(confidence=None)
    assert held(written, "x").texts == dict.fromkeys(PLACES, SAID["caption"])
    assert without_caption(written, "x") == written
    assert made(caption="a bird", existing=written.decode()) == written


def test_a_correction_takes_the_place_of_naics_own_caption() -> None:
    first = made(existing=LIGHTROOM.decode())
    corrected = made(caption="no cat", confidence=None, existing=first.decode())
    there = held(corrected, "x")
    assert there.mark is None
    assert there.texts == {DESCRIPTION: "Ours & theirs", ALT_TEXT: "no cat"}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"caption": ""}, "caption: "),
        ({"caption": " \n"}, "its caption is blank"),
        ({"caption": "x" * 10_001}, "caption: "),
        ({"caption": "a\0b"}, r"'\x00'"),
        ({"caption": "a\x1b"}, r"'\x1b'"),
        ({"caption": "a\ud800"}, "caption: "),
        ({"caption": "a\uffff"}, r"'\uffff'"),
        ({"confidence": 1.5}, "confidence: "),
        ({"confidence": float("nan")}, "confidence: "),
        ({"confidence": "sure"}, "confidence: "),
        ({"name": 5}, "name: "),
        ({"colour": 1}, "colour: "),
        ({"existing": ""}, "XML"),
        ({"existing": "<a/>"}, "no XMP"),
        ({"existing": "\ud800"}, "existing: "),
        ({"existing": "<!DOCTYPE x><x/>"}, "document type"),
        ({"existing": "x" * 4_000_001}, "existing: "),
        ({"existing": "<a>" * 100_001}, "100,000 tags"),
    ],
)
def test_bad_requests_say_what_is_wrong(body: dict[str, Any], why: str) -> None:
    app = make_app(FakeService())
    sent = json.dumps(SAID | body)
    answer = TestClient(app).post(
        "/v1/xmp", content=sent, headers={"content-type": "application/json"}
    )
    assert answer.status_code == 422
    assert why in answer.json()["error"]["message"]


def test_any_name_can_be_told() -> None:
    answer = TestClient(make_app(FakeService())).post(
        "/v1/xmp", json={**SAID, "name": "\n" + "n" * 300, "existing": "<a"}
    )
    assert answer.status_code == 422
    assert "\\n" + "n" * 198 + ":" in answer.json()["error"]["message"]


def test_letters_beyond_unicodes_first_plane_and_lines_survive() -> None:
    text = 'ein „Käfer“ 🐞\n"zwei" \t Zeilen'
    assert held(made(caption=f" {text} ", existing=DARKTABLE.decode()), "x").texts == {
        DESCRIPTION: text,
        ALT_TEXT: text,
    }
    assert made(caption=text, existing=DIGIKAM.decode()) == DIGIKAM


@pytest.fixture
def held_up(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[threading.Semaphore, Event]]:
    """Files take until the event: how many were begun, and the event."""
    begun, free = threading.Semaphore(0), threading.Event()

    def slowly(*_: object) -> xmp.Written:
        begun.release()
        free.wait()
        return xmp.Written(xmp="made", said=True)

    monkeypatch.setattr(xmp, "written", slowly)
    yield begun, free
    free.set()


def test_one_that_takes_too_long_is_refused_and_stays_the_only_one(
    held_up: tuple[threading.Semaphore, Event],
) -> None:
    begun, free = held_up
    timer = threading.Timer(standing.SOON, free.set)  # a test that fails ends
    timer.start()
    with TestClient(make_routes(FakeService(), ServeOptions(timeout=0.1))) as client:
        for _ in range(2):
            answer = client.post("/v1/xmp", json=SAID)
            assert answer.status_code == 429
            assert answer.headers["retry-after"]
            assert "within 0.1 seconds" in answer.json()["error"]["message"]
        assert begun.acquire(timeout=standing.SOON)
        assert not begun.acquire(blocking=False)
        free.set()
        answers = (client.post("/v1/xmp", json=SAID) for _ in range(300))
        assert any(answer.status_code == 200 for answer in answers)
    timer.cancel()


def test_the_end_does_not_wait_for_one(held_up: tuple[threading.Semaphore, Event]) -> None:
    begun, _ = held_up

    def ask(url: str) -> None:
        with contextlib.suppress(httpx.HTTPError):
            httpx.post(f"{url}/v1/xmp", json=SAID, timeout=standing.SOON)

    with standing.serving(drain=0.1) as server:
        asking = threading.Thread(target=ask, args=[server.url])
        asking.start()
        assert begun.acquire(timeout=standing.SOON)
        server.running.stop()
        server.thread.join(standing.SOON)
        assert not server.thread.is_alive()
        asking.join(standing.SOON)
        assert not asking.is_alive()


@needs_curl
def test_the_command_of_its_page_makes_a_file(tmp_path: Path) -> None:
    (command,) = blocks("serve-review.md", "bash")
    with serving(FakeService()) as address:
        assert run_command(command, address, tmp_path).returncode == 0
    there = held((tmp_path / "photo.xmp").read_bytes(), "x")
    assert there.texts == dict.fromkeys(PLACES, "a cat on a table")
    assert there.mark is not None
    assert (there.mark.confidence, there.mark.model) == ("0.71", "that inside naic")
