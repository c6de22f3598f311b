from typing import Any

import pytest
from fastapi.testclient import TestClient

from naic import __version__
from tests.serve.fake import (
    FULL,
    MOST,
    FakeService,
    confidence,
    data_url,
    encoded,
    make_app,
    sentence,
)

CAPTION = "/api/v1/vision/caption"
# As PhotoPrism's client writes it: all of these fields are there even when they are empty.
SENT = {"id": "3487da77", "model": "naic", "version": "latest", "suffix": "", "stream": False}
FIRST = {**SENT, "prompt": "Describe it.", "options": {"temperature": 0.05}}


def post(body: Any, service: FakeService | None = None, path: str = CAPTION) -> Any:
    return TestClient(make_app(service or FakeService())).post(path, json=body)


@pytest.mark.parametrize("path", [CAPTION, f"{CAPTION}/kosmos-2", f"{CAPTION}/kosmos-2/latest"])
def test_the_answer_is_as_its_client_reads_it(path: str) -> None:
    answer = post(FIRST | {"images": [data_url(b"1")]}, path=path).json()
    assert answer == {
        "id": "3487da77",
        "code": 200,
        "model": {"type": "caption", "name": "naic", "version": __version__},
        "result": {
            "caption": {
                "text": sentence(b"1"),
                "confidence": confidence(b"1"),
                "source": "image",
            }
        },
    }


def test_of_several_pictures_the_surest_is_told() -> None:
    contents = [b"1", b"2", b"3"]
    surest = max(contents, key=confidence)
    assert surest != contents[0]
    answer = post({"images": [data_url(content) for content in contents]}).json()
    assert answer["result"]["caption"]["text"] == sentence(surest)


def test_an_id_is_made_where_there_is_none_and_any_is_given_back() -> None:
    images = {"images": [encoded(b"1")]}
    assert len(post(images).json()["id"]) == 36
    odd = '<script>"\n\u2028</script>'
    assert post(images | {"id": odd}).json()["id"] == odd


def test_a_url_may_hold_the_photo_itself() -> None:
    answer = post({"url": data_url(b"1")}).json()
    assert answer["result"]["caption"]["text"] == sentence(b"1")


def test_a_full_queue_is_a_429_after_which_its_client_tries_again() -> None:
    response = post({"images": [data_url(b"1")]}, FakeService(refusal=FULL))
    assert (response.status_code, response.headers["Retry-After"]) == (429, "7")
    assert response.json() == {"code": 429, "error": str(FULL)}


@pytest.mark.parametrize(
    ("body", "status", "why"),
    [
        (SENT, 400, "it has no image"),
        (SENT | {"images": []}, 400, "it has no image"),
        (SENT | {"videos": [data_url(b"1")]}, 400, "it has no image"),
        (SENT | {"url": "https://photos.example/api/v1/dl/1"}, 422, "URLs are never fetched"),
        (SENT | {"images": ["file:///etc/passwd"]}, 422, "URLs are never fetched"),
        (SENT | {"images": ["?"]}, 422, "image 1: it is not base64"),
        (SENT | {"images": [data_url(b"bad")]}, 422, "image 1: it is not an image"),
        (SENT | {"images": [data_url(b"1")] * (MOST + 1)}, 413, "5 images are more than 4"),
        (SENT | {"images": data_url(b"1")}, 422, "body.images"),
        (SENT | {"images": [{}]}, 422, "body.images"),
        ({"id": 5, "images": [data_url(b"1")]}, 422, "body.id"),
        ([], 422, "body"),
        (None, 422, "body"),
    ],
)
def test_bad_requests_are_told_why(body: Any, status: int, why: str) -> None:
    response = post(body, FakeService(bad=[b"bad"]))
    assert response.status_code == status
    answer = response.json()
    assert answer["code"] == status
    assert why in answer["error"]


def test_half_a_letter_is_given_back_as_a_question_mark() -> None:
    """It cannot be written as UTF-8."""
    client = TestClient(make_app(FakeService()))
    body = f'{{"id": "7\\ud800", "images": ["{encoded(b"1")}"]}}'
    response = client.post(CAPTION, content=body, headers={"Content-Type": "application/json"})
    assert response.json()["id"] == "7?"
