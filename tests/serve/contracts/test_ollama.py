import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from tests.serve.fake import FULL, MOST, FakeService, data_url, encoded, make_app, sentence

GENERATE, CHAT = "/api/generate", "/api/chat"


def post(path: str, body: Any, service: FakeService | None = None) -> Any:
    client = TestClient(make_app(service or FakeService()))
    return client.post(path, json=body)


def lines(response: Any) -> list[dict[str, Any]]:
    assert response.headers["Content-Type"] == "application/x-ndjson"
    return [json.loads(line) for line in response.text.splitlines()]


def user(*images: str, role: str = "user") -> dict[str, Any]:
    return {"role": role, "content": "What is this?", "images": list(images)}


def test_a_stream_unless_it_is_asked_for_at_once() -> None:
    body = {"model": "llava", "prompt": "Describe it.", "images": [encoded(b"1"), data_url(b"2")]}
    wanted = f"{sentence(b'1')}\n{sentence(b'2')}"
    for stream in ({}, {"stream": True}, {"stream": None}):
        first, last = lines(post(GENERATE, body | stream))
        assert (first["response"], first["done"]) == (wanted, False)
        assert (last["response"], last["done"], last["done_reason"]) == ("", True, "stop")
    whole = post(GENERATE, body | {"stream": False}).json()
    assert (whole["response"], whole["done"], whole["model"]) == (wanted, True, "naic")
    assert whole.keys() == last.keys()


def test_durations_are_measured() -> None:
    body = {"images": [encoded(bytes(1 << 20))], "stream": False}
    told = post(GENERATE, body).json()
    assert told["prompt_eval_duration"] > 10_000  # nanoseconds: a mebibyte is not decoded sooner
    assert told["eval_duration"] > 0
    parts = told["prompt_eval_duration"] + told["eval_duration"] + told["load_duration"]
    assert told["total_duration"] == parts
    assert (told["prompt_eval_count"], told["eval_count"]) == (1, 6)


def test_the_latest_images_of_a_user_are_meant() -> None:
    talk = [
        user(encoded(b"old")),
        user(encoded(b"new")),
        user(encoded(b"not this"), role="tool"),
        {"role": "user", "content": "Are you sure?"},
    ]
    whole = post(CHAT, {"messages": talk, "stream": False}).json()
    assert whole["message"] == {"role": "assistant", "content": sentence(b"new")}
    first, last = lines(post(CHAT, {"messages": talk}))
    assert (first["message"]["content"], last["message"]["content"]) == (sentence(b"new"), "")


@pytest.mark.parametrize(("path", "key"), [(GENERATE, "response"), (CHAT, "message")])
def test_nothing_asks_whether_the_model_is_loaded(path: str, key: str) -> None:
    for body in ({"model": "naic"}, {"model": "naic", "prompt": "", "images": [], "messages": []}):
        told = post(path, body).json()
        assert (told["done"], told["done_reason"]) == (True, "load")
        assert key in told


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
def test_a_body_is_json_whatever_it_says(kind: str | None) -> None:
    body = json.dumps({"images": [encoded(b"1")], "stream": False}).encode()
    client = TestClient(make_app(FakeService()))
    headers = {} if kind is None else {"Content-Type": kind}
    assert client.post(GENERATE, content=body, headers=headers).json()["response"] == sentence(b"1")


def test_the_model_is_told_of() -> None:
    client = TestClient(make_app(FakeService()))
    (model,) = client.get("/api/tags").json()["models"]
    (running,) = client.get("/api/ps").json()["models"]
    assert running["digest"] == model["digest"]
    assert len(model["digest"]) == 64
    assert model["modified_at"] == "2023-11-14T22:13:20+00:00"
    for asked in ({"model": "naic"}, {"name": "naic"}, {"model": "naic:latest"}):
        assert client.post("/api/show", json=asked).json()["capabilities"] == [
            "completion",
            "vision",
        ]
    numbers = client.get("/api/version").json()["version"].split(".")
    assert all(number.isdigit() for number in numbers)
    gone = client.post("/api/show", json={"model": "<script>\x07"})
    assert gone.status_code == 404
    assert gone.json() == {
        "error": "the model <script>\\x07: this server has naic only. Ask for that."
    }


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [GENERATE, CHAT])
def test_a_refusal_comes_before_any_stream(path: str, stream: bool) -> None:
    body = {"images": [encoded(b"1")], "messages": [user(encoded(b"1"))], "stream": stream}
    response = post(path, body, FakeService(refusal=FULL))
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    assert response.json() == {"error": str(FULL)}


BAD: list[tuple[str, Any, int, str]] = [
    (GENERATE, {"prompt": "Why is the sky blue?"}, 400, "it has no image"),
    (GENERATE, {"prompt": "x", "images": []}, 400, "it has no image"),
    (GENERATE, {"images": ["not base64"]}, 422, "image 1: it is not base64"),
    (GENERATE, {"images": [""]}, 422, "image 1: it is empty"),
    (GENERATE, {"images": [encoded(b"bad")]}, 422, "image 1: it is not an image"),
    (GENERATE, {"images": [encoded(b"1")] * (MOST + 1)}, 413, "5 images are more than 4"),
    (GENERATE, {"images": ["http://127.0.0.1/a.jpg"]}, 422, "URLs are never fetched"),
    (GENERATE, {"images": ["file:///etc/passwd"]}, 422, "URLs are never fetched"),
    (GENERATE, {"images": "AAAA"}, 422, "body.images"),
    (GENERATE, {"images": [1]}, 422, "body.images"),
    (GENERATE, {"images": [None]}, 422, "body.images"),
    (GENERATE, {"prompt": 1}, 422, "body.prompt"),
    (GENERATE, [], 422, "body"),
    (GENERATE, None, 422, "body"),
    (CHAT, {"messages": [{"content": "x"}]}, 422, "body.messages.0.role"),
    (CHAT, {"messages": [{"role": "user", "content": "x"}]}, 400, "it has no image"),
    (CHAT, {"messages": "x"}, 422, "body.messages"),
    ("/api/show", {}, 404, "this server has naic only"),
    ("/api/show", {"model": []}, 422, "body.model"),
]


@pytest.mark.parametrize(("path", "body", "status", "why"), BAD)
def test_bad_requests_are_told_why(path: str, body: Any, status: int, why: str) -> None:
    response = post(path, body, FakeService(bad=[b"bad"]))
    assert response.status_code == status
    assert list(response.json()) == ["error"]
    assert why in response.json()["error"]


def test_broken_json_is_told_of() -> None:
    client = TestClient(make_app(FakeService()))
    response = client.post(GENERATE, content=b'{"images": [')
    assert response.status_code == 422
    assert "JSON" in response.json()["error"]
