"""Who may ask: tokens, names, foreign pages."""

from collections.abc import Iterator

import httpx
import pytest

from naic.errors import ConfigError
from naic.serve.doors import without_port
from naic.serve.options import ServeOptions
from tests.serve.standing import SOON, Server, photo, serving

TOKEN = "correct horse"
SHARED = "https://photos.example"


@pytest.fixture(scope="module")
def locked() -> Iterator[Server]:
    with serving(token=TOKEN, origins=SHARED, hosts="photos.example") as running:
        yield running


def ask(server: Server, **headers: str) -> httpx.Response:
    return server.post([photo(1)], headers=headers)


@pytest.mark.parametrize(
    "given", ["", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN, f"Bearer {TOKEN}x", "Bearer é"]
)
def test_a_wrong_or_missing_token_gets_401(locked: Server, given: str) -> None:
    headers = [(b"authorization", given.encode())] if given else []
    before = locked.number('naic_images_total{outcome="captioned"}')
    answer = server_post(locked, headers)
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert "Authorization" in answer.json()["error"]["message"]
    assert locked.number('naic_images_total{outcome="captioned"}') == before


def server_post(server: Server, headers: list[tuple[bytes, bytes]]) -> httpx.Response:
    return httpx.post(
        f"{server.url}/v1/caption", files={"files": photo(1)}, headers=headers, timeout=SOON
    )


def test_the_right_token_opens(locked: Server) -> None:
    assert ask(locked, authorization=f"Bearer {TOKEN}").status_code == 200
    assert ask(locked, authorization=f"bearer {TOKEN}").status_code == 200


@pytest.mark.parametrize("path", ["/v1/info", "/metrics", "/openapi.json", "/v1/models"])
def test_what_is_told_needs_the_token_too(locked: Server, path: str) -> None:
    assert locked.get(path).status_code == 401
    known = {"authorization": f"Bearer {TOKEN}"}
    assert locked.get(path, headers=known).status_code == 200


def test_health_and_the_page_need_none(locked: Server) -> None:
    for path in ("/healthz", "/docs"):
        assert locked.get(path).status_code == 200


def test_each_contract_tells_of_401_in_its_own_words(locked: Server) -> None:
    assert (
        "type"
        in httpx.post(f"{locked.url}/v1/chat/completions", json={}, timeout=SOON).json()["error"]
    )
    assert isinstance(
        httpx.post(f"{locked.url}/api/generate", json={}, timeout=SOON).json()["error"], str
    )


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1"])
def test_a_foreign_page_cannot_post(locked: Server, origin: str) -> None:
    answer = ask(locked, origin=origin, authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 403
    assert "--origins" in answer.json()["error"]["message"]
    assert "access-control-allow-origin" not in answer.headers
    preflight = httpx.options(f"{locked.url}/v1/caption", headers={"origin": origin}, timeout=SOON)
    assert "access-control-allow-origin" not in preflight.headers


def test_a_page_that_was_named_can(locked: Server) -> None:
    answer = ask(locked, origin=SHARED, authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-origin"] == SHARED
    preflight = httpx.options(f"{locked.url}/v1/caption", headers={"origin": SHARED}, timeout=SOON)
    assert preflight.status_code == 204
    assert "authorization" in preflight.headers["access-control-allow-headers"]
    refused = ask(locked, origin=SHARED)  # it has to be able to read why
    assert (refused.status_code, "access-control-allow-origin" in refused.headers) == (401, True)


def test_its_own_page_can_whatever_the_server_is_called(locked: Server) -> None:
    token = f"Bearer {TOKEN}"
    own = ask(locked, origin=locked.url, authorization=token)
    assert own.status_code == 200
    proxied = {"host": "photos.example", "origin": "https://photos.example"}
    assert ask(locked, authorization=token, **proxied).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example"])
def test_a_name_that_was_made_to_lead_here_is_refused(locked: Server, host: str) -> None:
    answer = ask(locked, host=host, origin=f"http://{host}", authorization=f"Bearer {TOKEN}")
    assert answer.status_code == 421
    assert "--hosts" in answer.json()["error"]["message"]


def test_names_without_ports() -> None:
    hosts = ["localhost", "localhost:80", "[::1]", "[::1]:8000", "127.0.0.1:8000", ""]
    assert [*map(without_port, hosts)] == [
        *["localhost", "localhost", "[::1]", "[::1]", "127.0.0.1", ""]
    ]


def test_refusals_are_counted(locked: Server) -> None:
    before = locked.number('naic_requests_refused_total{route="/v1/caption",status="401"')
    ask(locked)
    assert (
        locked.number('naic_requests_refused_total{route="/v1/caption",status="401"') == before + 1
    )
    httpx.get(
        f"{locked.url}/{'x' * 50}", headers={"authorization": f"Bearer {TOKEN}"}, timeout=SOON
    )
    known = {"authorization": f"Bearer {TOKEN}"}
    assert "xxxx" not in locked.get("/metrics", headers=known).text


@pytest.mark.parametrize("origin", ["http://[", "null", "http://[::1", "://", "\u00e9"])
def test_an_origin_that_is_no_address_is_a_foreign_one(locked: Server, origin: str) -> None:
    known = [(b"authorization", f"Bearer {TOKEN}".encode()), (b"origin", origin.encode())]
    files = {"files": photo(1)}
    answer = httpx.post(f"{locked.url}/v1/caption", files=files, headers=known)
    assert answer.status_code == 403
    assert httpx.get(f"{locked.url}/v1/info", headers=known).status_code == 200


def test_the_list_of_routes_is_open_and_so_is_its_style(locked: Server) -> None:
    assert locked.get("/docs").status_code == 200
    assert locked.get("/docs/style.css").status_code == 200


@pytest.mark.parametrize("token", ["abc ", " abc", "a\tb", "\u00e9"])
def test_a_token_that_no_client_can_send_is_refused(token: str) -> None:
    with pytest.raises(ConfigError, match="--token"):
        ServeOptions(token=token).check_values()
