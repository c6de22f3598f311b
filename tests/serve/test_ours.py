"""`/v1/caption` and `/v1/info`: what they take, and what comes of each photo."""

import base64
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.serve.standing import SIDE, SOON, Server, StandIn, photo, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(max_images=4, max_pixels=0.01, neutral=True, queue=8) as running:
        yield running


def texts(answer: httpx.Response) -> list[str | None]:
    return [result.get("caption") for result in answer.json()["results"]]


def test_photos_of_a_form_get_their_captions(server: Server) -> None:
    answer = server.post([photo(10, 20, 30), photo(40)])
    assert answer.status_code == 200
    assert answer.json() == {
        "model": "naic",
        "results": [
            {
                "name": f"{number}.png",
                "caption": text,
                "confidence": 0.5,
                "calibrated": True,
                "probability": 0.25,
                "words": [
                    {
                        "text": text,
                        "confidence": 0.5,
                        "alternatives": [
                            {"text": text, "confidence": 0.5},
                            {"text": "grey", "confidence": 0.25},
                        ],
                    }
                ],
                "alternatives": [{"text": text, "confidence": 0.5}],
            }
            for number, text in enumerate(["10 20 30", "40 0 0"])
        ],
    }


def test_photos_in_json(server: Server) -> None:
    plain = base64.b64encode(photo(1)).decode()
    body = {"images": [plain, f"data:image/png;base64,{plain}"], "names": ["one", "two"]}
    answer = httpx.post(f"{server.url}/v1/caption", json=body, timeout=SOON)
    assert texts(answer) == ["1 0 0"] * 2
    assert [result["name"] for result in answer.json()["results"]] == ["one", "two"]
    answer = httpx.post(f"{server.url}/v1/caption", json={"image": plain}, timeout=SOON)
    assert answer.json()["results"][0]["name"] == "image 1"


def test_wishes_of_a_request_go_before_those_of_the_server(server: Server) -> None:
    usual = {"max_words": None, "max_chars": None, "forbid": (), "prefer": (), "style": False}
    server.post([photo(1)])
    assert server.captioner.wishes[-1] == {**usual, "alternatives": 0, "neutral": True}
    form = {"alternatives": "3", "max_words": "4", "forbid": "man,woman", "neutral": "false"}
    assert server.post([photo(1)], data=form).status_code == 200
    assert server.captioner.wishes[-1] == {
        **usual,
        "alternatives": 3,
        "max_words": 4,
        "forbid": ("man", "woman"),
        "neutral": False,
    }


def test_a_bad_photo_fails_alone(server: Server) -> None:
    wide = photo(5, size=(101, 100))  # 10,100 pixels: above the server's limit
    answer = server.post([photo(1), b"no image", wide, photo(2)])
    assert answer.status_code == 200
    assert texts(answer) == ["1 0 0", None, None, "2 0 0"]
    errors = [result.get("error") for result in answer.json()["results"]]
    assert errors[1]["what"] == "1.png"
    assert "10,000" in errors[2]["why"]
    body = {"images": ["***", base64.b64encode(photo(3)).decode()]}
    assert texts(httpx.post(f"{server.url}/v1/caption", json=body, timeout=SOON)) == [None, "3 0 0"]


def test_no_photo_that_can_be_used_is_no_success(server: Server) -> None:
    answer = server.post([b"", b"GIF89a"])
    assert answer.status_code == 422
    assert all("error" in result for result in answer.json()["results"])


@pytest.mark.parametrize("size", [(1, 1), (1, 100), (100, 1)])
def test_a_photo_of_one_pixel_is_one(server: Server, size: tuple[int, int]) -> None:
    assert texts(server.post([photo(7, 8, 9, size)])) == ["7 8 9"]
    assert server.get("/healthz").json()["status"] == "ok"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("<script>alert(1)</script>.png", "<script>alert(1)</script>.png"),
        ("../../etc/passwd", "../../etc/passwd"),
        ("/etc/passwd", "/etc/passwd"),
        ("n" * 300, "n" * 300),
    ],
)
def test_names_are_only_names(server: Server, name: str, shown: str) -> None:
    files = {"files": (name, photo(1))}
    answer = httpx.post(f"{server.url}/v1/caption", files=files, timeout=SOON)
    assert answer.json()["results"][0]["name"] == shown
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_name_that_no_utf8_holds_is_written_as_an_escape(server: Server) -> None:
    image = base64.b64encode(photo(1)).decode()
    body = f'{{"image": "{image}", "names": ["\\ud800\\u0000"]}}'
    kind = {"content-type": "application/json"}
    answer = httpx.post(f"{server.url}/v1/caption", content=body, headers=kind, timeout=SOON)
    assert answer.json()["results"][0]["name"] == "\\ud800\\x00"


@pytest.mark.parametrize(
    ("sent", "status", "message"),
    [
        ({"json": {}}, 422, "it has no image"),
        ({"json": []}, 422, "valid dictionary"),
        ({"json": {"image": 5}}, 422, "image: "),
        ({"json": {"image": "aaaa", "colour": 1}}, 422, "colour: "),
        ({"json": {"image": "aaaa", "alternatives": 101}}, 422, "alternatives: "),
        ({"json": {"image": "aaaa", "names": ["a", "b"]}}, 422, "2 names"),
        ({"json": {"image": "http://127.0.0.1/a.jpg"}}, 422, "never fetched"),
        ({"json": {"image": "file:///etc/passwd"}}, 422, "never fetched"),
        ({"json": {"images": ["aaaa"] * 5}}, 413, "5 images"),
        ({"content": b"{", "headers": {"content-type": "application/json"}}, 422, "no JSON"),
        ({"content": b"[" * 9999, "headers": {"content-type": "application/json"}}, 422, "JSON"),
        ({"content": b"x", "headers": {"content-type": "image/png"}}, 415, "image/png"),
        ({"content": b"x"}, 415, "nothing"),
        ({"data": {"files": "text"}}, 415, "urlencoded"),
        ({"files": {"file": photo(1)}}, 422, "no such file"),
        ({"files": {"files": photo(1)}, "data": {"max_words": "x"}}, 422, "max_words: "),
        ({"files": {"files": photo(1)}, "data": {"forbid": "a b", "prefer": "a"}}, 422, "'a'"),
        ({"files": [("files", photo(1))] * 5}, 413, "Too many files"),
        (
            {"content": b"x", "headers": {"content-type": "multipart/form-data"}},
            422,
            "boundary",
        ),
    ],
)
def test_bad_requests_say_what_is_wrong(
    server: Server, sent: dict[str, Any], status: int, message: str
) -> None:
    answer = httpx.post(f"{server.url}/v1/caption", timeout=SOON, **sent)
    assert answer.status_code == status
    error = answer.json()["error"]
    assert error["status"] == status
    assert message in error["message"]


def test_requests_that_want_the_same_are_one_batch() -> None:
    captioner = StandIn()
    with serving(captioner, batch=3) as server, httpx.Client(timeout=SOON):
        captioner.free.clear()
        first = _in_thread(lambda: server.post([photo(1)]))
        server.until(lambda: captioner.begun.acquire(blocking=False))
        rest = [_in_thread(lambda n=n: server.post([photo(n)])) for n in (2, 3, 4, 5)]
        server.until(lambda: server.number("naic_images_waiting") == 4)
        captioner.batches.clear()
        captioner.free.set()
        assert [texts(wait())[0] for wait in (first, *rest)] == [f"{n} 0 0" for n in range(1, 6)]
        assert max(captioner.batches) == 3
        assert server.number("naic_batch_images_count") >= 3


def _in_thread(work: Any) -> Any:
    import concurrent.futures

    pool = concurrent.futures.ThreadPoolExecutor(1)
    future = pool.submit(work)
    pool.shutdown(wait=False)
    return lambda: future.result(SOON)


def test_info_tells_of_the_model_and_its_limits(server: Server) -> None:
    told = server.get("/v1/info").json()
    assert told["runtime"] == "onnx"
    assert told["limits"] == {
        "images": 4,
        "body": 64_000_000,
        "pixels": 10_000,
        "alternatives": 100,
    }
    assert told["loaded"] > 1_700_000_000
    assert told["vocabulary"] == 1
    assert server.captioner.engine.pixels == SIDE


def test_the_openapi_document_and_its_page(server: Server) -> None:
    document = server.get("/openapi.json").json()
    kinds = document["paths"]["/v1/caption"]["post"]["requestBody"]["content"]
    assert set(kinds) == {"multipart/form-data", "application/json"}
    page = server.get("/docs")
    assert "<script" not in page.text
    assert "POST /v1/caption" in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert server.get("/docs/style.css").headers["content-type"].startswith("text/css")
    assert json.dumps(document).count("http") == json.dumps(document).count("http-bearer")


@pytest.mark.parametrize("words", ["a " * 6000, ["a"] * 1001, ["a" * 101]])
def test_lists_of_words_have_an_end(server: Server, words: object) -> None:
    image = base64.b64encode(photo(1)).decode()
    body = {"image": image, "forbid": words}
    answer = httpx.post(f"{server.url}/v1/caption", json=body, timeout=SOON)
    assert answer.status_code == 422
    assert "forbid" in answer.json()["error"]["message"]


def test_routes_and_fields_that_are_none_are_told_with_what_to_do(server: Server) -> None:
    answer = server.get("/v1/none")
    assert answer.status_code == 404
    assert "/docs" in answer.json()["error"]["message"]
    answer = server.get("/v1/caption")
    assert answer.status_code == 405
    assert "POST" in answer.json()["error"]["message"]
    answer = server.post([photo(1)], data={"alternative": "3"})
    assert answer.status_code == 422
    assert "alternative: there is no such field" in answer.json()["error"]["message"]
