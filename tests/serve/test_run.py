"""A server's life: it starts, is well, fails, recovers, drains, ends."""

import contextlib
import socket
import threading
import time

import httpx
import numpy as np
import pytest

from naic.errors import CheckpointError, ConfigError, NaicError
from naic.serve import health
from naic.serve.options import ServeOptions
from naic.serve.run import Running, listen
from tests.serve.standing import SOON, StandIn, photo, serving


def test_while_the_model_is_loaded_everybody_is_told_to_come_again() -> None:
    loaded, free = threading.Event(), threading.Event()
    captioner, told = StandIn(), list[str]()

    def slowly(_: ServeOptions) -> StandIn:
        loaded.set()
        assert free.wait(SOON)
        return captioner

    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    running = Running(ServeOptions(port=port), told.append, slowly)  # type: ignore[arg-type]
    thread = threading.Thread(target=running)
    thread.start()
    try:
        assert loaded.wait(SOON)
        url = f"http://127.0.0.1:{port}"
        transport = httpx.HTTPTransport(retries=5)
        with httpx.Client(transport=transport, timeout=SOON) as client:
            answer = client.post(f"{url}/v1/caption", files={"files": photo(1)})
            assert answer.status_code == 503
            assert int(answer.headers["retry-after"]) >= 1
            told_of = client.get(f"{url}/healthz")
            assert (told_of.status_code, told_of.json()["status"]) == (503, "starting")
            free.set()
            by = time.monotonic() + SOON
            while client.get(f"{url}/healthz").status_code != 200:
                assert time.monotonic() < by
            assert told[0].startswith(url)
    finally:
        free.set()
        running.stop()
        thread.join(SOON)
        assert not thread.is_alive()


def test_the_end_does_not_wait_for_a_model_that_is_loaded() -> None:
    begun, free = threading.Event(), threading.Event()

    def slowly(_: ServeOptions) -> StandIn:
        begun.set()
        free.wait(SOON)
        return StandIn()

    ended: list[bool] = []
    running = Running(ServeOptions(port=0), lambda text: None, slowly)  # type: ignore[arg-type]
    thread = threading.Thread(target=lambda: ended.append(running()))
    thread.start()
    assert begun.wait(SOON)
    running.stop()
    thread.join(SOON)
    assert ended == [False]
    free.set()


def test_a_model_that_cannot_be_loaded_ends_the_server() -> None:
    def fail(_: ServeOptions) -> StandIn:
        raise CheckpointError("here", "there is no model", "Name one.")

    running = Running(ServeOptions(port=0), lambda text: None, fail)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="there is no model"):
        running()


def test_a_port_that_is_taken_is_told() -> None:
    with listen(ServeOptions(port=0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match="nobody can listen there"):
            listen(ServeOptions(port=port))
    with pytest.raises(ConfigError, match="nobody can listen there"):
        listen(ServeOptions(host="no such host.invalid"))


def test_a_worker_that_died_is_told_and_ends_the_server() -> None:
    captioner = StandIn()
    captioner.fails = lambda pixels: SystemExit(3) if pixels.max() == 66 else None
    with serving(captioner) as server:
        assert server.get("/healthz").status_code == 200
        answer = server.post([photo(66)])
        assert answer.status_code == 503
        with contextlib.suppress(httpx.TransportError):  # it may be gone already
            assert server.get("/healthz").json()["status"] == "dead"
        server.thread.join(SOON)
        assert not server.thread.is_alive()
        [error] = server.failed
        assert isinstance(error, NaicError)
        assert "its worker ended" in str(error)


def test_a_model_that_fails_is_told_by_its_check_and_recovers() -> None:
    captioner = StandIn()
    broken = CheckpointError("the model", "its weights are no numbers")
    captioner.fails = lambda pixels: broken
    with serving(captioner, check=0.1) as server:
        server.until(lambda: server.get("/healthz").status_code == 503)
        told = server.get("/healthz").json()
        assert (told["status"], "no numbers" in told["why"]) == ("failing", True)
        assert server.number("naic_healthy") == 0
        captioner.fails = lambda pixels: None
        server.until(lambda: server.get("/healthz").status_code == 200)
        before = len(captioner.batches)
        server.until(lambda: len(captioner.batches) > before)  # it is asked without clients, too


def test_a_worker_that_hangs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    captioner = StandIn()
    with serving(captioner, check=0.1) as server:
        monkeypatch.setattr(health, "STUCK", 0.2)
        captioner.free.clear()
        server.until(lambda: server.get("/healthz").json()["status"] == "stuck")
        captioner.free.set()
        server.until(lambda: server.get("/healthz").status_code == 200)


def test_one_that_cannot_be_captioned_does_not_fail_its_batch() -> None:
    captioner = StandIn()
    captioner.fails = lambda p: ValueError("13") if (p[:, 4, 4, 0] == 13).any() else None
    with serving(captioner, batch=8) as server:
        answers = _at_once([lambda n=n: server.post([photo(n)]).status_code for n in range(10, 17)])
        assert answers == [500 if n == 13 else 200 for n in range(10, 17)]
        assert server.get("/healthz").status_code == 200


def test_what_was_taken_on_is_answered_before_the_end() -> None:
    captioner = StandIn()
    with serving(captioner, batch=2) as server:
        captioner.free.clear()
        codes: list[str] = []
        threads = [
            threading.Thread(
                target=lambda n=n: codes.append(
                    server.post([photo(n)]).json()["results"][0]["caption"]
                )
            )
            for n in range(6)
        ]
        for thread in threads:
            thread.start()
        server.until(lambda: server.number("naic_images_waiting") >= 4)
        server.until(
            lambda: server.number("naic_images_running") + server.number("naic_images_waiting") == 6
        )
        server.running.stop()
        server.until(lambda: len(server.told) == 2)
        late = server.post([photo(1)])
        assert late.status_code == 503
        assert int(late.headers["retry-after"]) >= 1
        assert server.get("/healthz").json()["status"] == "draining"
        captioner.free.set()
        for thread in threads:
            thread.join(SOON)
        assert sorted(codes) == [f"{n} 0 0" for n in range(6)]
        server.thread.join(SOON)
        assert not server.thread.is_alive()
        assert not server.failed


def test_who_is_still_sending_is_told_of_the_end() -> None:
    with serving() as server, server.connect() as connection:
        head = b"POST /v1/caption HTTP/1.1\r\nhost: localhost\r\ncontent-length: 9\r\n\r\n"
        connection.sendall(head)
        server.until(lambda: server.number('naic_requests_running{route="/v1/caption"}') == 1)
        server.running.stop()
        connection.settimeout(SOON)
        assert connection.recv(4096).startswith(b"HTTP/1.1 503 ")
        server.thread.join(SOON)
        assert not server.thread.is_alive()


def test_the_end_does_not_wait_for_a_model_that_hangs() -> None:
    captioner = StandIn()
    with serving(captioner, batch=1, drain=0.3) as server:
        captioner.free.clear()
        codes: list[int] = []
        threads = [
            threading.Thread(target=lambda: codes.append(_status(server.url))) for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        server.until(lambda: server.number("naic_images_waiting") == 2)
        begun = time.monotonic()
        server.running.stop()
        server.thread.join(SOON)
        assert time.monotonic() - begun < SOON / 2
        for thread in threads:
            thread.join(SOON)
        assert codes == [503] * 3  # all were told


def _status(url: str) -> int:
    try:
        return httpx.post(f"{url}/v1/caption", files={"files": photo(1)}, timeout=SOON).status_code
    except httpx.TransportError:
        return 0


def _at_once(works: list) -> list:  # type: ignore[type-arg]
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(works)) as pool:
        return [*pool.map(lambda work: work(), works)]


def test_no_image_gets_the_caption_of_another() -> None:
    def ask(number: int) -> bool:
        colours = [(number, n, 255 - number) for n in range(number % 4 + 1)]
        answer = server.post([photo(*colour) for colour in colours])
        said = [result["caption"] for result in answer.json()["results"]]
        return said == [" ".join(map(str, colour)) for colour in colours]

    with serving(queue=500, batch=5) as server:
        assert all(_at_once([lambda n=n: ask(n) for n in range(60)]))
        assert max(server.captioner.batches) <= 5


def test_the_image_of_the_check_is_no_flat_one() -> None:
    captioner, seen = StandIn(), list[np.ndarray]()
    captioner.fails = lambda pixels: seen.append(pixels)
    with serving(captioner) as server:
        server.until(lambda: bool(seen))
    assert seen[0].shape == (1, 8, 8, 3)
    assert seen[0].std() > 50
