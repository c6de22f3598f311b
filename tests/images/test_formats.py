import struct

import pytest

from naic.errors import ImageError
from naic.images.formats import IMAGE_SUFFIXES, UNSUPPORTED_SUFFIXES
from naic.images.opening import open_image
from tests.images.images import encode, photo

FTYP = b"\0\0\0\x18ftyp"
FOREIGN = [
    (FTYP + b"heic\0\0\0\0mif1heic", "an HEIC image", "Convert it to JPEG or PNG."),
    (FTYP + b"mif1\0\0\0\0mif1heic", "an HEIC image", "Convert it to JPEG or PNG."),
    (FTYP + b"crx \0\0\0\x01crx isom", "a camera RAW file", "Export it as JPEG or PNG."),
    (FTYP + b"isom\0\0\x02\0isomiso2", "an MP4 or QuickTime video", "Extract a frame"),
    (b"RIFF\x24\0\0\0AVI LIST", "a RIFF sound or video file", "Extract a frame"),
    (b"\x1aE\xdf\xa3" + bytes(20), "a Matroska or WebM video", "Extract a frame"),
    (b"II*\0\x10\0\0\0CR\x02\0", "a camera RAW file", "Export it as JPEG or PNG."),
    (b"IIU\0\x18\0\0\0", "a camera RAW file", "Export it as JPEG or PNG."),
    (b"8BPS\0\x01", "a Photoshop document", "Export it as JPEG or PNG."),
    (b"%PDF-1.7\n", "a PDF document", "Export it as JPEG or PNG."),
    (b"%!PS-Adobe-3.0 EPSF-3.0\n", "a PostScript or EPS drawing", "Export it as JPEG or PNG."),
    (b"\xc5\xd0\xd3\xc6\x20\0\0\0", "a PostScript or EPS drawing", "Export it as JPEG or PNG."),
    (b'<?xml version="1.0"?>\n<svg width="9">', "an SVG drawing", "Export it as JPEG or PNG."),
    (b"\0\0\x01\0\x01\0", "a Windows icon", "Convert it to JPEG or PNG."),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 image", "Convert it to JPEG or PNG."),
    (b"\xff\x0a\xfa\x7f", "a JPEG XL image", "Convert it to JPEG or PNG."),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL image", "Convert it to JPEG or PNG."),
    (b"\n<!DOCTYPE html><html>", "a web page saved under an image's name", "Download"),
    (b"\xff\xfe" + "<html>".encode("utf-16-le"), "a web page saved under", "Download"),
    (b'{"error": "not found"}', "a JSON text, perhaps a server's", "Download the image itself"),
    (b"<?xml version='1.0'?><Error>", "an XML document, perhaps a", "Download"),
    ("drei Bären am Fluß\n".encode(), "plain text", "Download the image itself"),
    (("ä" * 3000).encode()[1:], "data of an unknown kind", "Convert"),
    (b"x" + ("ä" * 3000).encode(), "plain text", "Download"),
    (b"PK\x03\x04\x14\0", "a ZIP archive or an office document", "Unpack it first."),
    (b"version https://git-lfs.github.com/spec/v1\n", "a Git LFS pointer", "Run `git lfs pull`."),
    (b"\0\x05\x16\x07\0\x02\0\0Mac OS X", "macOS metadata that goes with a file", "Delete it."),
    (bytes(5000), "a file full of zeros", "Copy or download it again."),
    (bytes(range(128, 256)) * 4, "data of an unknown kind", "Convert it to JPEG or PNG."),
]


@pytest.mark.parametrize(("data", "kind", "hint"), FOREIGN)
def test_other_files_are_named_and_the_hint_helps(data: bytes, kind: str, hint: str) -> None:
    with pytest.raises(ImageError) as caught:
        open_image(data, name="photo.jpg")
    assert caught.value.what == "photo.jpg"
    assert caught.value.why.startswith(f"it is {kind}")
    assert caught.value.why.endswith(", not one of the formats that naic opens")
    assert caught.value.hint.startswith(hint)


@pytest.mark.parametrize("tag", [{50706: b"\x01\x04\0\0"}, {254: 1}])
def test_raw_files_that_look_like_tiff(tag: dict[int, object]) -> None:
    data = encode(photo(), "TIFF", tiffinfo=tag)
    with pytest.raises(ImageError, match="it is a camera RAW file"):
        open_image(data)


def test_the_content_decides_not_the_name() -> None:
    assert open_image(encode(photo(), "PNG"), name="photo.jpg").size == (48, 36)


def test_a_text_that_begins_like_a_bitmap() -> None:
    with pytest.raises(ImageError, match="plain text"):
        open_image(b"BMW makes cars and motorcycles.")
    header = b"BM" + struct.pack("<LHHL", 0, 0, 0, 54) + struct.pack("<L", 99)
    with pytest.raises(ImageError, match="unknown kind"):
        open_image(header + bytes(40))


def test_suffixes() -> None:
    every = IMAGE_SUFFIXES | UNSUPPORTED_SUFFIXES
    assert not IMAGE_SUFFIXES & UNSUPPORTED_SUFFIXES
    assert all(suffix == suffix.lower() and suffix[0] == "." for suffix in every)
    assert {".jpg", ".jpeg", ".png", ".webp", ".gif", ".bmp", ".tif", ".pgm"} <= IMAGE_SUFFIXES
    assert {".heic", ".svg", ".psd", ".pdf", ".eps", ".cr3", ".jxl"} <= UNSUPPORTED_SUFFIXES
    assert ".avif" in every
