import asyncio
import base64

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from naic.errors import ImageError, NaicError
from naic.serve.reading import as_upload, as_uploads, captions_of
from naic.serve.service import Refused, Upload
from tests.serve.fake import FakeService, data_url, encoded, sentence


@given(content=st.binary(min_size=1))
def test_bytes_come_back_however_they_are_written(content: bytes) -> None:
    wanted = Upload("a", content)
    assert as_upload(encoded(content), "a") == wanted
    assert as_upload(base64.encodebytes(content).decode(), "a") == wanted  # in lines
    assert as_upload(data_url(content), "a") == wanted
    assert as_upload(f" DATA:;charset=x;BASE64,{encoded(content)}\n", "a") == wanted


@settings(max_examples=50)
@given(text=st.text())
@example("\ud800")
@example("data:,")
@example("A" * 1000 + ":")
def test_any_other_text_is_refused_in_words(text: str) -> None:
    told: NaicError | None = None
    try:
        content = as_upload(text, "it").content
    except (ImageError, Refused) as error:
        told = error
    assert content if told is None else (str(told).startswith("it: ") and told.hint)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "it is empty"),
        (" \n", "it is empty"),
        ("data:image/png;base64,", "it is empty"),
        ("abc", "it is not base64"),
        ("AAAA!AAAA", "it is not base64"),
        ("AA==AAAA", "it is not base64"),
        ("_-_-", "it is not base64"),
        ("/photos/cat.jpg", "it is not base64"),
        ("data:image/png;base64,a", "it is not base64"),
        ("data:image/svg+xml,<svg/>", "it is a data URL without base64"),
        ("data:image/png;base64", "it is a data URL without base64"),
    ],
)
def test_what_is_no_base64_is_no_image(text: str, why: str) -> None:
    with pytest.raises(ImageError) as caught:
        as_upload(text, "a")
    assert caught.value.why == why


@pytest.mark.parametrize(
    "address",
    ["http://169.254.169.254/", "HTTPS://a/b.jpg", "file:///etc/passwd", " ftp://a", "gopher:a"],
)
def test_an_address_is_not_followed(address: str) -> None:
    with pytest.raises(Refused, match="URLs are never fetched") as caught:
        as_upload(address, "a")
    assert (caught.value.status, caught.value.retry_after) == (422, None)


def test_a_name_cannot_write_on_a_terminal() -> None:
    assert as_upload("AAAA", "\x1b[2J<script>").name == "\\x1b[2J<script>"


def test_photos_are_called_by_their_place() -> None:
    first, second = as_uploads([encoded(b"1"), data_url(b"2")])
    assert (first, second) == (Upload("image 1", b"1"), Upload("image 2", b"2"))
    with pytest.raises(ImageError, match="image 2: it is not base64"):
        as_uploads([encoded(b"1"), "?"])
    with pytest.raises(Refused, match="it has no image") as caught:
        as_uploads([])
    assert caught.value.status == 400


def test_one_that_fails_is_told_of() -> None:
    service = FakeService(bad=[b"bad"])
    good = as_uploads([encoded(b"1")])
    captions = asyncio.run(captions_of(service, good))
    assert [caption.text for caption in captions] == [sentence(b"1")]
    with pytest.raises(ImageError, match="image 2: it is not an image"):
        asyncio.run(captions_of(service, as_uploads([encoded(b"1"), encoded(b"bad")])))
