"""Bodies that are too large, too slow, too many, or end in the middle."""

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator

import httpx
import pytest

from naic.serve import arrivals
from naic.serve.protocol import PatientProtocol
from tests.serve.standing import SOON, Server, StandIn, photo, serving

LIMIT = 100_000
HEAD = b"POST /v1/caption HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(max_body=LIMIT / 1e6, max_memory=3 * LIMIT / 1e6) as running:
        yield running


@pytest.fixture(scope="module")
def impatient() -> Iterator[Server]:
    with serving(timeout=0.3) as running:
        yield running


def status_of(connection: socket.socket) -> int:
    """The status of the answer that comes."""
    connection.settimeout(SOON)
    answer = b""
    while b"\r\n" not in answer:
        part = connection.recv(4096)
        assert part, "it was closed without an answer"
        answer += part
    return int(answer.split()[1])


def quiet(server: Server) -> None:
    """Nothing runs, waits or is held any more."""
    server.until(lambda: server.number("naic_requests_running") == 1)  # this question itself
    assert server.number("naic_images_waiting") == 0
    assert server.get("/healthz").status_code == 200


def body_of(size: int) -> bytes:
    """JSON of that size that has no image in it."""
    return b'{"image":"' + b" " * (size - 12) + b'"}'


def test_one_byte_over_the_limit(server: Server) -> None:
    kind = {"content-type": "application/json"}
    url = f"{server.url}/v1/caption"
    assert httpx.post(url, content=body_of(LIMIT), headers=kind, timeout=SOON).status_code == 422
    answer = httpx.post(url, content=body_of(LIMIT + 1), headers=kind, timeout=SOON)
    assert answer.status_code == 413
    assert "100,000 bytes" in answer.json()["error"]["message"]
    assert answer.headers["connection"] == "close"
    chunks = iter([body_of(LIMIT + 1)])  # of a length that is not told before
    assert httpx.post(url, content=chunks, headers=kind, timeout=SOON).status_code == 413
    quiet(server)


def test_an_endless_body_is_ended(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "LINGER", 0.2)
    with server.connect() as connection:
        connection.sendall(HEAD + b"transfer-encoding: chunked\r\n\r\n")
        chunk = b"1000\r\n" + b" " * 0x1000 + b"\r\n"
        sent, by = 0, time.monotonic() + SOON
        with contextlib.suppress(OSError):
            while time.monotonic() < by:
                connection.sendall(chunk)
                sent += len(chunk)
        assert time.monotonic() < by, "it took whatever came"
        assert sent > LIMIT
        assert status_of(connection) == 413
    quiet(server)


@pytest.mark.parametrize("start", [b'{"image"', b""])
def test_a_slow_body_is_not_waited_for(impatient: Server, start: bytes) -> None:
    with impatient.connect() as connection:
        connection.sendall(HEAD + b"content-length: 1000\r\n\r\n" + start)
        assert status_of(connection) == 408
    quiet(impatient)


def test_slow_sockets_are_closed(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PatientProtocol, "seconds", 0.3)
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(100)]
        for connection in slow[50:]:
            connection.sendall(b"POST /v1/capt")
        # They are in nobody's way; on a busy machine who asks may be too slow as well.
        server.until(lambda: server.post([photo(1)]).status_code == 200)
        assert [status_of(connection) for connection in slow] == [408] * 100
    monkeypatch.undo()
    quiet(server)


def test_who_keeps_a_connection_is_not_closed_while_it_asks(server: Server) -> None:
    with httpx.Client() as client:
        for _ in range(3):
            assert client.get(f"{server.url}/healthz").status_code == 200


def test_clients_that_vanish_leave_nothing_behind() -> None:
    captioner = StandIn()
    with serving(captioner, queue=200, batch=4) as server:
        captioner.free.clear()
        gone = []
        content = photo(9)
        for number in range(100):
            connection = server.connect()
            boundary = b"--b\r\ncontent-disposition: form-data; name=files; filename=a.png\r\n\r\n"
            body = boundary + content + b"\r\n--b--\r\n"
            head = HEAD.replace(b"application/json", b"multipart/form-data; boundary=b")
            length = len(body) if number % 2 else len(body) + 5  # half of them in the middle
            connection.sendall(head + b"content-length: %d\r\n\r\n" % length + body)
            gone.append(connection)
        server.until(lambda: server.images == 50)
        for connection in gone:
            connection.close()
        server.until(lambda: server.number("naic_images_waiting") == 0)
        captioner.free.set()
        assert server.post([photo(3)]).json()["results"][0]["caption"] == "3 0 0"
        quiet(server)
        assert captioner.batches[-1] == 1  # nothing was captioned for those who went


def test_memory_for_bodies_has_an_end() -> None:
    with (
        serving(max_body=0.1, max_memory=0.25) as server,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(2):
            connection = stack.enter_context(server.connect())
            connection.sendall(HEAD + b"content-length: 99999\r\n\r\n" + b" " * 99_000)
        server.until(lambda: server.number("naic_received_bytes_total") >= 2 * 99_000)
        answer = server.post([os.urandom(90_000)])
        assert answer.status_code == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert server.post([photo(1)]).status_code == 200  # a small one fits


def test_requests_at_once_have_an_end() -> None:
    captioner = StandIn()
    with serving(captioner, max_requests=3) as server:
        captioner.free.clear()
        answers: list[int] = []
        threads = [
            threading.Thread(target=lambda: answers.append(server.post([photo(1)]).status_code))
            for _ in range(3)
        ]
        for thread in threads:
            thread.start()
        server.until(lambda: server.images == 3)
        answer = server.post([photo(1)])
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
        assert server.get("/healthz").status_code == 200  # it is busy, not ill
        captioner.free.set()
        for thread in threads:
            thread.join(SOON)
        assert answers == [200] * 3
        assert server.post([photo(1)]).status_code == 200


def test_a_full_queue_answers_429_and_when_to_come_again() -> None:
    captioner = StandIn()
    with serving(captioner, queue=2, max_images=2) as server:
        captioner.free.clear()
        first = threading.Thread(target=lambda: server.post([photo(1)]))
        first.start()
        assert captioner.begun.acquire(timeout=SOON)
        second = threading.Thread(target=lambda: server.post([photo(1), photo(2)]))
        second.start()
        server.until(lambda: server.number("naic_images_waiting") == 2)
        answer = server.post([photo(3)])
        assert answer.status_code == 429
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert server.get("/healthz").status_code == 200  # it is busy, not ill
        captioner.free.set()
        first.join(SOON)
        second.join(SOON)


def test_where_there_is_no_room_no_body_is_waited_for() -> None:
    captioner = StandIn()
    with serving(captioner, queue=1, max_images=1) as server, server.connect() as connection:
        captioner.free.clear()
        threads = [threading.Thread(target=server.post, args=([photo(1)],)) for _ in range(2)]
        threads[0].start()
        assert captioner.begun.acquire(timeout=SOON)
        threads[1].start()
        server.until(lambda: server.number("naic_images_waiting") == 1)
        connection.sendall(HEAD + b"content-length: 1000\r\n\r\n")
        assert status_of(connection) == 429
        show = {"model": "naic"}  # what needs no photo is answered
        assert httpx.post(f"{server.url}/api/show", json=show, timeout=SOON).status_code == 200
        captioner.free.set()
        for thread in threads:
            thread.join(SOON)


def test_json_that_is_large_as_objects_is_refused(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrivals, "MOST_VALUES", 1000)
    url = f"{server.url}/v1/caption"
    for number, status in ((400, 422), (600, 413)):
        answer = httpx.post(url, json={"images": [[]] * number}, timeout=SOON)
        assert answer.status_code == status
    plain = photo(1) + b"," * 1000  # in a form it is nothing
    assert server.post([plain]).status_code == 200


def test_who_waits_too_long_is_told_so(impatient: Server) -> None:
    impatient.captioner.free.clear()
    answers: list[httpx.Response] = []

    def was_told() -> bool:
        answers.append(impatient.post([photo(1)]))
        return answers[-1].status_code != 408  # a busy machine takes as long to receive it

    impatient.until(was_told)
    impatient.captioner.free.set()
    assert answers[-1].status_code == 429
    assert "0.3 seconds" in answers[-1].json()["error"]["message"]
    assert int(answers[-1].headers["retry-after"]) >= 1
    quiet(impatient)


def test_what_is_no_http_is_told_so(server: Server) -> None:
    for nonsense in (b"\x16\x03\x01\x02\x00\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"x" * 100_000):
        with server.connect() as connection:
            connection.sendall(nonsense)
            assert status_of(connection) == 400
    quiet(server)


@pytest.mark.parametrize("kind", ["application/json", "multipart/form-data; boundary=b", ""])
@pytest.mark.parametrize("path", ["/api/generate", "/v1/chat/completions"])
def test_json_of_too_many_values_is_not_read(kind: str, path: str) -> None:
    body = b'{"prompt":"x","images":[' + b"[]," * 100_000 + b"[]]}"
    headers = {"content-type": kind} if kind else {}
    with serving() as server:
        answer = httpx.post(f"{server.url}{path}", content=body, headers=headers, timeout=SOON)
        assert answer.status_code == 413
