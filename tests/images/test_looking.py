"""`look_at` refuses what `open_image` refuses, and decodes few images for it."""

import pytest

from naic.errors import ImageError
from naic.images import opening
from naic.images.formats import HAS_AVIF
from naic.images.opening import look_at, open_image
from tests.images.images import encode, photo

FORMATS = ["JPEG", "PNG", "WEBP", "GIF", "BMP", "TIFF", "PPM", *["AVIF"] * HAS_AVIF]


def refused(data: bytes) -> str:
    """What `look_at` has to say; nothing if it is an image."""
    try:
        look_at(data, name="x")
    except ImageError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("format_name", FORMATS)
def test_a_whole_image_is_fine_and_a_cut_one_is_not(format_name: str) -> None:
    data = encode(photo(200, 150), format_name)
    assert refused(data) == ""
    for share in (0.02, 0.3, 0.7, 0.97):
        with pytest.raises(ImageError) as caught:
            open_image(data[: int(len(data) * share)], name="x")
        assert refused(data[: int(len(data) * share)]) == str(caught.value)


@pytest.mark.parametrize("data", [b"", b"no image", b"GIF89a", bytes(1000)])
def test_what_is_no_image(data: bytes) -> None:
    assert refused(data)


def test_photos_are_not_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = {name: encode(photo(), name) for name in FORMATS}

    def decode(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(opening, "_decode", decode)
    for name in ("JPEG", "PNG", "WEBP"):
        assert refused(whole[name]) == ""
        assert refused(whole[name] + b"what a phone adds") == ""
    for name in ("GIF", "BMP"):
        with pytest.raises(ImageError, match="damaged"):
            look_at(whole[name], name="x")


def test_an_image_within_the_metadata_is_not_taken_for_its_end() -> None:
    """The small one in EXIF has an end of its own."""
    small = encode(photo(16, 12), "JPEG")
    exif = b"Exif\0\0" + small
    segment = b"\xff\xe1" + (len(exif) + 2).to_bytes(2) + exif
    data = encode(photo(200, 150), "JPEG")
    data = data[:2] + segment + data[2:]
    assert refused(data) == ""
    assert "cut short" in refused(data[:-500])


def test_too_many_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(opening, "MAX_PIXELS", 100)
    for name in ("JPEG", "PNG", "WEBP"):
        assert "the limit is 100 in all" in refused(encode(photo(), name))
