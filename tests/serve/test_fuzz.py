"""Requests that nobody sends by mistake: none is an error of the server's, or leaves a trace."""

import resource
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.serve.documented import send_documented
from tests.serve.mutations import KINDS, form_of, send_all
from tests.serve.standing import SOON, Server, photo, serving

KIB = 1024


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that can make no temporary file."""
    tmp_path_factory.getbasetemp()  # the tests have theirs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tempfile.tempdir", "/there/is/no/such/folder")
        with serving(max_pixels=1.0) as running:
            yield running


def as_before(server: Server) -> None:
    """It captions, and nothing is left of what was asked before."""
    assert server.post([photo(1, 2, 3)]).json()["results"][0]["caption"] == "1 2 3"
    server.until(lambda: server.number("naic_requests_running") == 1)  # this question itself
    assert server.images == 0
    assert server.get("/healthz").status_code == 200


def mutations(server: Server, count: int) -> None:
    statuses = send_all(server.url, range(count))
    assert sum(statuses.values()) == count
    assert {kind for kind, _ in statuses} == {*KINDS}
    assert {200, 422} <= {status for _, status in statuses}
    as_before(server)


def test_mutated_uploads(server: Server) -> None:
    mutations(server, 120)


@pytest.mark.slow
def test_2000_mutated_uploads(server: Server) -> None:
    mutations(server, 500)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB
    mutations(server, 2000)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB - before < 100e6


def test_requests_made_from_the_openapi_document(server: Server) -> None:
    assert send_documented(server.url, 4).total() > 50
    as_before(server)


@pytest.mark.slow
def test_many_requests_made_from_the_openapi_document(server: Server) -> None:
    assert send_documented(server.url, 300).total() > 3000
    as_before(server)


@pytest.mark.parametrize(
    "name",
    [b"<script>alert(1)</script>", b"../../a.jpg", b"/a.jpg", b"a\x00.jpg", b"n" * 300, b"C:\\a"],
)
def test_a_name_changes_nothing_on_the_disk(
    server: Server, name: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    below = tmp_path / "a" / "b"
    below.mkdir(parents=True)
    monkeypatch.chdir(below)
    kind = {"content-type": "multipart/form-data; boundary=a-boundary"}
    url = f"{server.url}/v1/caption"
    answer = httpx.post(url, content=form_of(photo(5), name=name), headers=kind, timeout=SOON)
    assert answer.headers["content-type"] == "application/json"  # no browser takes it for a page
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.status_code in (200, 422)  # NUL may not stand in a header
    if answer.status_code == 200:
        assert answer.json()["results"][0]["caption"] == "5 0 0"
    assert sorted(tmp_path.rglob("*")) == [tmp_path / "a", below]
    assert not Path("/a.jpg").exists()
