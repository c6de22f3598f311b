import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from naic.data.decoding import ImageDecoder
from naic.errors import ImageError
from naic.images import sources as images_module
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.images.sources import as_source
from tests.images.images import encode, exif, photo


def refused(image: object) -> str:
    with pytest.raises(ImageError) as caught:
        as_source(image, 3)
    return str(caught.value)


def test_an_image_is_the_same_however_it_is_handed_over(tmp_path: Path) -> None:
    data = encode(photo(), "PNG")
    path = tmp_path / "a.png"
    path.write_bytes(data)
    opened = Image.open(io.BytesIO(data))
    expected = np.asarray(photo())
    for form in (path, str(path), data, opened, np.asarray(photo()), np.asarray(photo())[:]):
        assert np.array_equal(np.asarray(as_source(form, 1).load(32)), expected)


def test_images_can_be_decoded_in_another_process(tmp_path: Path) -> None:
    """As on a machine with a GPU, where there are many."""
    data = encode(photo(), "PNG")
    sources = [as_source(image, 1) for image in (data, np.asarray(photo()), photo())]
    sources.append(as_source(b"torn", 4))
    pixels = np.zeros((4, 32, 32, 3), np.uint8)
    with ImageDecoder(1, 32, isolated=True) as decoder:
        tasks = zip(sources, pixels, strict=True)
        errors = [result.result() for result in [decoder.submit(*task) for task in tasks]]
    assert [error and error.what for error in errors] == [None, None, None, "image 4"]
    assert np.array_equal(pixels[:3], np.stack([square_pixels(photo(), 32)] * 3))


def test_a_pillow_image_is_turned_as_its_file_would_be() -> None:
    data = encode(photo(), "JPEG", exif=exif(6))
    by_file = open_image(data)
    assert by_file.size == (36, 48)
    by_pillow = as_source(Image.open(io.BytesIO(data)), 1).load()
    assert np.array_equal(np.asarray(by_pillow), np.asarray(by_file))


def test_what_is_transparent_is_white_and_the_object_stays_as_it_is() -> None:
    image = Image.new("RGBA", (2, 1), (9, 8, 7, 255))
    image.putpixel((1, 0), (9, 8, 7, 0))
    before = image.tobytes()
    expected = [[[9, 8, 7], [255, 255, 255]]]
    assert np.asarray(as_source(image, 1).load()).tolist() == expected
    assert np.asarray(as_source(np.asarray(image), 1).load()).tolist() == expected
    assert (image.mode, image.tobytes()) == ("RGBA", before)


def test_grey_arrays_become_rgb() -> None:
    grey = np.array([[0, 128], [255, 7]], np.uint8)
    loaded = np.asarray(as_source(grey, 1).load())
    assert loaded.tolist() == np.repeat(grey[..., None], 3, axis=2).tolist()


def test_what_is_no_image_is_refused_by_its_number() -> None:
    assert refused(7) == (
        "image 3: int is no image. Give a path, bytes, a Pillow image or an array."
    )
    floats = refused(np.zeros((4, 4, 3)))
    assert floats.startswith("image 3: an array of float64 (4, 4, 3) is no image. Give uint8")
    assert "(3, 8, 8) is no image" in refused(np.zeros((3, 8, 8), np.uint8))
    assert "has no pixels" in refused(np.zeros((0, 4, 3), np.uint8))
    assert "0 × 4 pixels" in refused(Image.new("RGB", (0, 4)))


def test_a_file_that_pillow_cannot_decode_is_refused() -> None:
    data = encode(photo(), "PNG")
    torn = Image.open(io.BytesIO(data[: len(data) // 2]))
    assert refused(torn).startswith("image 3: Pillow cannot decode it (")


def test_too_many_pixels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_module, "MAX_PIXELS", 12)
    assert as_source(Image.new("RGB", (4, 3)), 1).load().size == (4, 3)
    assert "13 × 1 pixels, and 1 to 12 in all" in refused(Image.new("RGB", (13, 1)))


def test_torn_bytes_fail_when_they_are_loaded_and_by_number() -> None:
    source = as_source(b"\x89PNG\r\n\x1a\n", 2)
    with pytest.raises(ImageError) as caught:
        source.load()
    assert caught.value.what == "image 2"


@given(
    st.lists(st.integers(0, 5), min_size=0, max_size=4),
    st.sampled_from(["uint8", "int8", "uint16", "float32", "bool", "O"]),
)
def test_any_array_is_an_image_of_its_size_or_refused(shape: list[int], kind: str) -> None:
    array = np.zeros(shape, kind)
    fits = len(shape) == 2 or (len(shape) == 3 and shape[2] in (3, 4))
    if kind == "uint8" and fits and 0 not in shape:
        loaded = as_source(array, 1).load()
        assert (loaded.mode, loaded.size) == ("RGB", (shape[1], shape[0]))
    else:
        refused(array)


def test_a_process_that_decodes_them_needs_no_torch() -> None:
    code = "import sys, naic.images.sources; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
