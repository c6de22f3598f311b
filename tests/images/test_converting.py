import struct
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageCms

from naic.images.converting import square_pixels, to_rgb
from naic.images.formats import HAS_AVIF
from naic.images.opening import open_image
from tests.images.images import (
    Pixels,
    chunk,
    cyan_is_red,
    display_p3,
    encode,
    exif,
    jpeg_segment,
    photo,
    png,
    srgb,
)


def pixels(data: bytes) -> Pixels:
    image = open_image(data)
    assert image.mode == "RGB"
    return np.asarray(image)


def as_stored(upright: Pixels, orientation: int) -> Pixels:
    """How a camera stores an upright scene for each orientation of the EXIF standard."""
    turned = upright.swapaxes(0, 1)
    return {
        1: upright, 2: upright[:, ::-1], 3: upright[::-1, ::-1], 4: upright[::-1],
        5: turned, 6: turned[::-1], 7: turned[::-1, ::-1], 8: turned[:, ::-1],
    }[orientation]  # fmt: skip


FORMATS = ["JPEG", "PNG", "WEBP", "TIFF", *(["AVIF"] if HAS_AVIF else [])]


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("orientation", range(1, 9))
def test_images_are_turned_upright(format_name: str, orientation: int) -> None:
    scene = np.asarray(photo(48, 32))
    stored = Image.fromarray(np.ascontiguousarray(as_stored(scene, orientation)))
    options: dict[str, Any] = {"exif": exif(orientation), "quality": 95}
    if format_name == "TIFF":
        options = {"tiffinfo": {274: orientation}}
    result = pixels(encode(stored, format_name, **options)).astype(int)
    assert result.shape == scene.shape
    assert np.abs(result - scene).mean() < 6  # the four corners differ by far more


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"II*\0",
        b"XX*\0\x08\0\0\0",
        b"II*\0\xff\xff\xff\xff",
        b"II*\0\x08\0\0\0\xff\xff" + b"\x0f\x01\x02\0\xff\xff\xff\xff\xff\xff\xff\xff" * 3,
        exif(6)[6:-8],
        b"II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x63\0\0\0",
    ],
)
def test_broken_exif_does_not_spoil_a_good_image(payload: bytes) -> None:
    plain = encode(photo(), "JPEG")
    data = plain[:2] + jpeg_segment(0xE1, b"Exif\0\0" + payload) + plain[2:]
    assert np.array_equal(pixels(data), pixels(plain))
    assert np.array_equal(pixels(encode(photo(), "PNG", exif=payload)), np.asarray(photo()))


@pytest.mark.parametrize("format_name", ["PNG", "WEBP", "TIFF"])
def test_alpha_goes_on_white(format_name: str) -> None:
    image = Image.new("RGBA", (3, 1))
    image.putdata([(200, 0, 0, 255), (200, 0, 0, 0), (0, 0, 0, 128)])
    data = encode(image, format_name, **({"lossless": True} if format_name == "WEBP" else {}))
    assert pixels(data).tolist() == [[[200, 0, 0], [255, 255, 255], [127, 127, 127]]]


def test_grey_with_alpha_goes_on_white() -> None:
    image = Image.new("LA", (2, 1), (0, 255))
    image.putpixel((1, 0), (0, 0))
    for format_name in ("PNG", "TIFF"):
        assert pixels(encode(image, format_name)).tolist() == [[[0] * 3, [255] * 3]]


@pytest.mark.parametrize("mode", ["La", "RGBa", "PA"])
def test_rare_alpha_modes_go_on_white(mode: str) -> None:
    source = {"La": "LA", "RGBa": "RGBA", "PA": "PA"}[mode]
    image = Image.new(source, (2, 2)).convert(mode)
    assert np.array(to_rgb(image, None)).tolist() == [[[255] * 3] * 2] * 2


def test_a_transparent_colour_goes_on_white() -> None:
    palette = Image.new("P", (2, 1))
    palette.putpalette([9, 8, 7, 60, 50, 40])
    palette.putpixel((1, 0), 1)
    grey = Image.new("L", (2, 1), 5)
    grey.putpixel((1, 0), 60)
    colour = Image.new("RGB", (2, 1), (1, 2, 3))
    colour.putpixel((1, 0), (60, 50, 40))
    for format_name in ("PNG", "GIF"):
        data = encode(palette, format_name, transparency=0)
        assert pixels(data).tolist() == [[[255] * 3, [60, 50, 40]]]
    half = png((2, 1), 8, 3, b"\0\0\1", chunk(b"PLTE", bytes(6)), chunk(b"tRNS", b"\xff\x80"))
    assert pixels(half).tolist() == [[[0] * 3, [127] * 3]]
    assert pixels(encode(grey, "PNG", transparency=5)).tolist() == [[[255] * 3, [60] * 3]]
    data = encode(colour, "PNG", transparency=(1, 2, 3))
    assert pixels(data).tolist() == [[[255] * 3, [60, 50, 40]]]


def test_sixteen_bits_are_scaled_not_cut() -> None:
    levels = np.array([[0, 257, 32768, 65535]], np.uint16)
    expected = [[0, 1, 128, 255]]
    image = Image.fromarray(levels)
    big = levels.astype(">u2").tobytes()
    files = [
        encode(image, "PNG"),
        encode(image, "TIFF"),
        encode(image, "TIFF", compression="tiff_lzw"),
        encode(Image.frombytes("I;16B", (4, 1), big), "TIFF"),
        b"P5 4 1 65535\n" + big,
        encode(Image.fromarray(levels.astype(np.int32)), "TIFF"),
    ]
    assert [pixels(data)[..., 0].tolist() for data in files] == [expected] * len(files)
    rgb = png((2, 1), 16, 2, b"\0" + struct.pack(">6H", 0, 32768, 65535, 257, 514, 771))
    assert pixels(rgb).tolist() == [[[0, 128, 255], [1, 2, 3]]]


def test_transparent_colours_of_sixteen_bits() -> None:
    grey = png((2, 1), 16, 0, b"\0" + struct.pack(">2H", 300, 257), chunk(b"tRNS", b"\x01\x2c"))
    assert pixels(grey).tolist() == [[[255] * 3, [1] * 3]]
    key = chunk(b"tRNS", struct.pack(">3H", 2560, 5120, 7680))
    rgb = png((2, 1), 16, 2, b"\0" + struct.pack(">6H", 2560, 5120, 7680, 257, 514, 771), key)
    assert pixels(rgb).tolist() == [[[255] * 3, [1, 2, 3]]]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ([0.0, 0.5, 1.0], [0, 128, 255]),
        ([0.0, 128.0, 255.0], [0, 128, 255]),
        ([0.0, 32896.0, 65535.0], [0, 128, 255]),
        ([-2e6, 0.0, 2e6], [0, 128, 255]),
        ([np.nan, np.inf, 0.5], [0, 255, 128]),
        ([-np.inf, np.nan, np.inf], [0, 0, 255]),
        ([-3e38, 0.0, 3e38], [0, 128, 255]),
        ([-7.0, -7.0, -7.0], [128, 128, 128]),
        ([0.0, 0.0, 0.0], [0, 0, 0]),
    ],
)
def test_floats_are_scaled(values: list[float], expected: list[int]) -> None:
    data = encode(Image.fromarray(np.array([values], np.float32)), "TIFF")
    assert pixels(data)[0, :, 0].tolist() == expected


def test_negative_integers_are_stretched() -> None:
    data = encode(Image.fromarray(np.array([[-100, 0, 100]], np.int32)), "TIFF")
    assert pixels(data)[0, :, 0].tolist() == [0, 128, 255]


INKS = [((0, 0, 0, 0), (255, 255, 255)), ((255, 0, 0, 0), (0, 255, 255)),
        ((0, 255, 255, 0), (255, 0, 0)), ((0, 0, 0, 255), (0, 0, 0))]  # fmt: skip


@pytest.mark.parametrize(("ink", "colour"), INKS)
def test_inks(ink: tuple[int, ...], colour: tuple[int, ...]) -> None:
    image = Image.new("CMYK", (16, 16), ink)
    broken = b"not a profile" * 20
    for data in (
        encode(image, "TIFF"),
        encode(image, "JPEG", quality=100),
        encode(image, "JPEG", quality=100, icc_profile=broken),
        encode(image, "JPEG", quality=100, icc_profile=srgb()),  # of another kind of image
    ):
        assert np.abs(pixels(data).astype(int) - colour).max() <= 1


def test_ycck_photographs() -> None:
    """Photoshop's own JPEG: the inks as luma and chroma, and inverted."""
    stored = np.asarray(Image.new("RGB", (16, 16), (200, 100, 50)).convert("YCbCr"))
    inverted = np.dstack([255 - stored, np.full((16, 16), 30, np.uint8)])
    data = encode(Image.frombytes("CMYK", (16, 16), inverted.tobytes()), "JPEG", quality=100)
    at = data.index(b"Adobe")
    data = data[: at + 11] + b"\x02" + data[at + 12 :]
    expected = Image.new("CMYK", (1, 1), (200, 100, 50, 30)).convert("RGB").getpixel((0, 0))
    assert np.abs(pixels(data).astype(int) - expected).max() <= 3


def test_inks_go_through_the_profile_of_their_press() -> None:
    for format_name in ("JPEG", "TIFF"):
        for ink, colour in [((255, 0, 0, 0), (252, 0, 5)), ((0, 255, 255, 0), (255, 255, 255))]:
            image = Image.new("CMYK", (16, 16), ink)
            data = encode(image, format_name, icc_profile=cyan_is_red(), quality=100)
            assert np.abs(pixels(data).astype(int) - colour).max() <= 3


def p3_to_srgb(colour: tuple[int, int, int]) -> list[int]:
    """By the book: primaries relative to D50, gamma 2.2 in, the sRGB curve out."""
    p3 = np.array([[0.51512, 0.29198, 0.15710], [0.24120, 0.69225, 0.06657],
                   [-0.00105, 0.04189, 0.78407]])  # fmt: skip
    standard = np.array([[0.43607, 0.38515, 0.14307], [0.22249, 0.71687, 0.06061],
                         [0.01392, 0.09708, 0.71410]])  # fmt: skip
    linear = np.linalg.solve(standard, p3 @ (np.array(colour) / 255) ** 2.2).clip(0, 1)
    curve = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return [round(level) for level in curve * 255]


@pytest.mark.parametrize("format_name", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("colour", [(200, 100, 120), (120, 140, 60), (128, 128, 128)])
def test_wide_gamut_becomes_srgb(format_name: str, colour: tuple[int, int, int]) -> None:
    image = Image.new("RGB", (16, 16), colour)
    options = {"lossless": True} if format_name == "WEBP" else {"quality": 100}
    data = encode(image, format_name, icc_profile=display_p3(), **options)
    assert np.abs(pixels(data).astype(int) - p3_to_srgb(colour)).max() <= 2


@pytest.mark.parametrize(
    "profile", [srgb(), b"", b"broken" * 50, display_p3()[:200], bytes(5 << 20)]
)
def test_profiles_that_change_nothing(profile: bytes) -> None:
    data = encode(photo(), "PNG", icc_profile=profile)
    assert np.array_equal(pixels(data), np.asarray(photo()))


def test_a_profile_in_pieces_and_one_with_a_piece_missing() -> None:
    plain = encode(Image.new("RGB", (16, 16), (200, 100, 120)), "JPEG", quality=100)
    profile = display_p3()
    pieces = [
        jpeg_segment(0xE2, b"ICC_PROFILE\0" + bytes((number, 2)) + part)
        for number, part in ((2, profile[100:]), (1, profile[:100]))  # in any order
    ]
    whole = pixels(plain[:2] + b"".join(pieces) + plain[2:])
    assert np.abs(whole.astype(int) - p3_to_srgb((200, 100, 120))).max() <= 2
    assert np.array_equal(pixels(plain[:2] + pieces[1] + plain[2:]), pixels(plain))


def test_lab() -> None:
    to_lab = ImageCms.buildTransform(
        ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB"
    )
    image = Image.new("RGB", (4, 4), (200, 100, 50))
    data = encode(to_lab.apply(image), "TIFF")
    assert np.abs(pixels(data).astype(int) - (200, 100, 50)).max() <= 2


@pytest.mark.parametrize("mode", ["YCbCr", "HSV", "RGBX"])
def test_other_colour_models(mode: str) -> None:
    image = Image.new("RGB", (4, 4), (200, 100, 50)).convert(mode)
    colours = np.array(to_rgb(image, None)).astype(int)
    assert np.abs(colours - (200, 100, 50)).max() <= 2


def test_one_bit_and_palette() -> None:
    assert pixels(encode(Image.new("1", (2, 2), 1), "PNG")).tolist() == [[[255] * 3] * 2] * 2
    palette = Image.new("P", (1, 1))
    palette.putpalette([10, 20, 30])
    for format_name in ("PNG", "GIF", "BMP", "TIFF"):
        assert pixels(encode(palette, format_name)).tolist() == [[[10, 20, 30]]]


def test_squares_squash_and_do_not_crop() -> None:
    image = Image.new("RGB", (64, 8), "red")
    image.paste("blue", (32, 0, 64, 8))
    square = square_pixels(image, 16)
    assert square.shape == (16, 16, 3)
    assert square.dtype == np.uint8
    assert square[:, :6].tolist() == [[[255, 0, 0]] * 6] * 16
    assert square[:, 10:].tolist() == [[[0, 0, 255]] * 6] * 16


def test_squares_are_antialiased() -> None:
    stripes = np.zeros((64, 64, 3), np.uint8)
    stripes[:, ::2] = 255
    inner = square_pixels(Image.fromarray(stripes), 8)[:, 1:-1]
    assert np.abs(inner.astype(int) - 127).max() <= 4


def test_a_square_of_the_right_size_is_a_copy() -> None:
    image = photo(32, 32)
    square = square_pixels(image, 32)
    assert np.array_equal(square, np.asarray(image))
    square[0, 0] = 99  # may be written to, and the image does not change
    assert image.getpixel((0, 0)) != (99, 99, 99)
