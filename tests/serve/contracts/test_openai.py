import json
from typing import Any

import pytest
from fastapi.testclient import TestClient

from naic.serve.contracts.openai import error_body
from tests.serve.fake import FULL, MOST, FakeService, data_url, make_app, sentence

CHAT, RESPONSES = "/v1/chat/completions", "/v1/responses"


def post(path: str, body: Any, service: FakeService | None = None) -> Any:
    client = TestClient(make_app(service or FakeService()))
    return client.post(path, json=body)


def image(content: bytes) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": data_url(content), "detail": "low"}}


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def chat(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"model": "gpt-4o", "messages": list(messages), **more}


def respond(url: Any, **more: Any) -> dict[str, Any]:
    part = {"type": "input_image", "image_url": url}
    return {"model": "gpt-5", "input": [user({"type": "input_text", "text": "?"}, part)], **more}


def message_of(response: Any) -> str:
    """That of an error, which has the shape that clients read."""
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    message: str = error["message"]
    return message


def test_each_image_has_its_line() -> None:
    text = {"type": "text", "text": "What is this?"}
    answer = post(CHAT, chat(user(text, image(b"1"), image(b"2")))).json()
    (choice,) = answer["choices"]
    assert choice["message"]["content"] == f"{sentence(b'1')}\n{sentence(b'2')}"
    assert answer["usage"] == {"prompt_tokens": 2, "completion_tokens": 12, "total_tokens": 14}
    assert answer["model"] == "naic"


def test_the_latest_images_of_a_user_are_meant() -> None:
    talk = [
        {"role": "system", "content": "Be brief."},
        user(image(b"old")),
        {"role": "assistant", "content": "a cat"},
        user(image(b"new")),
        {"role": "assistant", "content": None},
        {"role": "tool", "content": [image(b"not this")], "tool_call_id": "1"},
        {"role": "user", "content": "Are you sure?"},
    ]
    (choice,) = post(CHAT, chat(*talk)).json()["choices"]
    assert choice["message"]["content"] == sentence(b"new")


def test_several_choices_are_alternatives() -> None:
    service = FakeService()
    choices = post(CHAT, chat(user(image(b"1")), n=3), service).json()["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2]
    wanted = [sentence(b"1", other) for other in range(3)]
    assert [choice["message"]["content"] for choice in choices] == wanted
    assert service.requests[0][1].alternatives == 3


@pytest.mark.parametrize(
    ("limit", "wishes"), [(3, {"max_words": 3}), (300, {}), (64, {}), (None, {})]
)
@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens", "max_output_tokens"])
def test_only_a_limit_that_a_caption_can_reach_is_passed_on(
    name: str, limit: int | None, wishes: dict[str, int]
) -> None:
    service = FakeService()
    if name == "max_output_tokens":
        post(RESPONSES, respond(data_url(b"1"), **{name: limit}), service)
    else:
        post(CHAT, chat(user(image(b"1")), **{name: limit}), service)
    ((_, asked),) = service.requests
    assert asked.wishes == wishes


def test_the_models() -> None:
    client = TestClient(make_app(FakeService()))
    (model,) = client.get("/v1/models").json()["data"]
    assert client.get("/v1/models/naic").json() == model
    assert (model["id"], model["object"], model["created"]) == ("naic", "model", 1_700_000_000)
    gone = client.get("/v1/models/other/<script>%07")
    assert gone.status_code == 404
    assert message_of(gone).startswith("the model other/<script>\\x07: this server has naic only")
    assert gone.json()["error"]["code"] == "not_found"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, RESPONSES])
def test_a_refusal_comes_before_any_stream(path: str, stream: bool) -> None:
    service = FakeService(refusal=FULL)
    one = chat(user(image(b"1"))) if path == CHAT else respond(data_url(b"1"))
    response = post(path, one | {"stream": stream}, service)
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    assert response.headers["Content-Type"] == "application/json"
    assert message_of(response) == str(FULL)
    assert response.json()["error"]["code"] == "rate_limit_exceeded"


MANY = [image(bytes([number])) for number in range(MOST + 1)]
BAD: list[tuple[str, Any, int, str]] = [
    (CHAT, chat({"role": "user", "content": "Make a title."}), 400, "it has no image"),
    (CHAT, chat(), 400, "it has no image"),
    (CHAT, chat(user()), 400, "it has no image"),
    (CHAT, chat(user(*MANY)), 413, "5 images are more than 4"),
    (CHAT, chat(user(image(b"bad"))), 422, "image 1: it is not an image"),
    (CHAT, chat(user(image(b"1"), image(b"bad"))), 422, "image 2: it is not an image"),
    (CHAT, chat(user({"type": "image_url"})), 422, "it has no image_url"),
    (CHAT, chat(user({"type": "image_url", "image_url": {}})), 422, "body.messages"),
    (CHAT, chat(user({"type": "image_url", "image_url": 5})), 422, "body.messages"),
    (CHAT, chat(user({"text": "no type"})), 422, "body.messages"),
    (CHAT, chat("hello"), 422, "body.messages"),
    (CHAT, chat(user(image(b"1")), n=0), 422, "body.n"),
    (CHAT, chat(user(image(b"1")), max_tokens=-1), 422, "body.max_tokens"),
    (CHAT, chat(user(image(b"1")), stream="sometimes"), 422, "body.stream"),
    (CHAT, {"model": "naic"}, 422, "body.messages"),
    (CHAT, [], 422, "body"),
    (CHAT, None, 422, "body"),
    (RESPONSES, {"input": "Describe it."}, 400, "it has no image"),
    (RESPONSES, {}, 422, "body.input"),
    (RESPONSES, {"input": 1}, 422, "body.input"),
    (RESPONSES, respond(None), 422, "no files are kept"),
    (RESPONSES, respond("data:image/png;base64,?"), 422, "it is not base64"),
    (RESPONSES, respond("https://example.org/a.jpg"), 422, "URLs are never fetched"),
    (RESPONSES, respond("file:///etc/passwd"), 422, "URLs are never fetched"),
]


@pytest.mark.parametrize(("path", "body", "status", "why"), BAD)
def test_bad_requests_are_told_why(path: str, body: Any, status: int, why: str) -> None:
    service = FakeService(bad=[b"bad"])
    response = post(path, body, service)
    assert response.status_code == status
    assert why in message_of(response)
    assert response.json()["error"]["type"] == "invalid_request_error"


def test_an_image_may_be_a_plain_text() -> None:
    part = {"type": "image_url", "image_url": data_url(b"1")}
    (choice,) = post(CHAT, chat(user(part))).json()["choices"]
    assert choice["message"]["content"] == sentence(b"1")


def test_what_is_not_the_clients_fault_is_not_said_to_be() -> None:
    assert error_body(503, "x")["error"]["type"] == "server_error"
    assert error_body(401, "x")["error"]["code"] == "invalid_api_key"


def test_a_body_is_json_whatever_its_type_says() -> None:
    client = TestClient(make_app(FakeService()))
    body = json.dumps(chat(user(image(b"1"))))
    answer = client.post(CHAT, content=body, headers={"content-type": "text/plain"})
    assert answer.json()["choices"][0]["message"]["content"] == sentence(b"1")
