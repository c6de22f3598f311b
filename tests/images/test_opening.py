import struct
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageFile

from naic.errors import ImageError
from naic.images.converting import square_pixels
from naic.images.formats import HAS_AVIF
from naic.images.opening import MAX_PIXELS, open_image
from tests.images.images import chunk, encode, exif, jpeg_segment, photo, png, samples

SAMPLES = samples()
IMAGES = {name: open_image(data).tobytes() for name, data in SAMPLES.items()}


def reason(data: bytes, **options: int) -> str:
    with pytest.raises(ImageError) as caught:
        open_image(data, **options)  # type: ignore[arg-type]
    assert caught.value.hint
    return caught.value.why


@pytest.mark.parametrize("name", SAMPLES)
def test_what_comes_out_is_a_plain_rgb_image(name: str) -> None:
    image = open_image(SAMPLES[name])
    assert type(image) is Image.Image
    assert (image.mode, image.info) == ("RGB", {})
    if name != "pgm-plain":
        assert image.size == ((36, 48) if "metadata" in name or name == "avif" else (48, 36))
        scene = image.transpose(Image.Transpose.ROTATE_90) if image.width == 36 else image
        grey = np.asarray(scene.convert("L")).astype(int)
        assert grey[:6, :6].mean() < 60 < 190 < grey[-6:, -6:].mean()  # the ramps go down right


@pytest.mark.parametrize("name", ["mpo", "png-animated", "gif-animated", "webp-animated"])
def test_the_first_frame_is_taken(name: str) -> None:
    still = np.asarray(photo()).astype(int)
    frame = np.frombuffer(IMAGES[name], np.uint8).reshape(still.shape).astype(int)
    assert np.abs(frame - still).mean() < 10  # the second frame is a quarter turn of it


@given(st.sampled_from(sorted(set(SAMPLES) - {"pgm-plain"})), st.floats(0, 1, exclude_max=True))
def test_a_cut_file_is_an_error_or_the_whole_image(name: str, share: float) -> None:
    data = SAMPLES[name]
    try:
        image = open_image(data[: int(len(data) * share)])
    except ImageError:
        return
    assert image.tobytes() == IMAGES[name]  # only what follows the pixels was cut


@pytest.mark.parametrize("name", ["jpeg", "png-RGBA", "webp", "gif", "bmp-RGB", "tiff-RGB", "ppm"])
def test_a_cut_file_is_called_so(name: str) -> None:
    data = SAMPLES[name]
    assert reason(data[: len(data) * 2 // 3]).endswith("file is cut short")


def damage(data: bytes, random: Random) -> bytes:
    """Flips, overwrites, cuts, insertions, deletions and repeats, most of them in the header."""
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 4, 16])):
        at = random.randrange(min(len(changed), 200) if random.random() < 0.6 else len(changed))
        match random.randrange(6):
            case 0:
                changed[at] ^= 1 << random.randrange(8)
            case 1:
                changed[at : at + 4] = random.choice([b"\xff" * 4, bytes(4), random.randbytes(4)])
            case 2:
                del changed[max(at, 8) :]
            case 3:
                changed[at:at] = random.randbytes(random.randrange(1, 40))
            case 4:
                del changed[max(at, 8) : at + random.randrange(1, 40)]
            case _:
                changed[at:at] = changed[at // 2 : at // 2 + random.randrange(1, 100)]
    return bytes(changed)


@pytest.mark.parametrize("seed", range(3))
def test_damaged_files_raise_nothing_but_image_errors(seed: int) -> None:
    random = Random(seed)
    errors: list[ImageError] = []
    images: list[Image.Image] = []
    for name in SAMPLES:
        for _ in range(12):
            try:
                images.append(open_image(damage(SAMPLES[name], random), max_pixels=1 << 20))
            except ImageError as error:
                errors.append(error)
    assert min(len(errors), len(images)) > 50  # both kinds were seen
    assert {image.mode for image in images} == {"RGB"}
    assert all(error.hint and len(str(error)) < 400 for error in errors)


def bombs() -> dict[str, bytes]:
    """Small files that claim, or really hold, far more pixels than fit in memory."""
    sides = (60000, 60000)
    jpeg = encode(photo(), "JPEG")
    frame = jpeg.index(b"\xff\xc0")
    gif = encode(photo(), "GIF")
    bmp = encode(photo(), "BMP")
    tiff = encode(photo(), "TIFF")
    for tag, value in ((256, 48), (257, 36), (278, 36)):  # width, height, rows of a strip
        entry = struct.pack("<HHLL", tag, 4, 1, value)
        tiff = tiff.replace(entry, struct.pack("<HHLL", tag, 4, 1, 60000))
    webp = encode(photo(), "WEBP")
    canvas = struct.pack("<L", 16382)[:3] * 2
    return {
        "png": png(sides, 1, 0, zlib.compress(bytes(9))),
        "jpeg": jpeg[: frame + 5] + struct.pack(">HH", *sides) + jpeg[frame + 9 :],
        "gif": gif[:6] + struct.pack("<HH", *sides) + gif[10:],
        "bmp": bmp[:18] + struct.pack("<LL", *sides) + bmp[26:],
        "tiff": tiff,
        "ppm": b"P6 60000 60000 255\n",
        "webp": b"RIFF\x16\0\0\0WEBPVP8X\n\0\0\0" + bytes(4) + canvas,
        "webp-lossless": b"RIFF\x16\0\0\0WEBPVP8L\n\0\0\0/\xfe\xbf\xff\x0f" + bytes(5),
        "webp-lossy": webp[:26] + struct.pack("<HH", 16383, 16383) + webp[30:],
    }


@pytest.mark.parametrize(("name", "data"), bombs().items(), ids=bombs())
def test_a_bomb_is_an_error_before_it_is_decoded(
    name: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(self: ImageFile.ImageFile) -> None:
        raise AssertionError(f"{self.size} was decoded")

    monkeypatch.setattr(ImageFile.ImageFile, "load", explode)
    side = 16383 if "webp" in name else 60000
    limit = "89,478,485" if name in {"gif", "tiff"} else "134,217,728"
    assert reason(data) == f"it has {side} × {side} pixels, and the limit is {limit} in all"


def test_a_gif_whose_frame_is_larger_than_its_screen() -> None:
    gif = encode(photo(), "GIF")
    at = gif.index(b"," + struct.pack("<4H", 0, 0, 48, 36))
    grown = gif[: at + 5] + struct.pack("<HH", 65535, 65535) + gif[at + 9 :]
    assert reason(grown).startswith("it has 65535 × 65535 pixels")


def test_the_limit_can_be_set() -> None:
    data = encode(photo(), "PNG")
    assert open_image(data, max_pixels=48 * 36).size == (48, 36)
    assert (
        reason(data, max_pixels=48 * 36 - 1)
        == "it has 48 × 36 pixels, and the limit is 1,727 in all"
    )
    assert MAX_PIXELS > 12000 * 9000  # photos of phones with 108 megapixels


def test_pillows_own_limit_neither_warns_nor_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)  # 48 × 36 is between it and its double
    filters = list(warnings.filters)
    for name in ("jpeg", "png-RGBA", "webp", "bmp-RGB", "ppm"):
        assert open_image(SAMPLES[name]).size == (48, 36)
    for name in ("gif", "tiff-RGB"):
        assert reason(SAMPLES[name]) == "it has 48 × 36 pixels, and the limit is 1,000 in all"
    assert Image.MAX_IMAGE_PIXELS == 1000
    assert list(warnings.filters) == filters


def test_a_jpeg_with_endless_scans() -> None:
    data = encode(photo(), "JPEG", progressive=True)
    scan = data.index(b"\xff\xda")
    once = data[scan : data.index(b"\xff", scan + 2)]
    assert "more than 500 scans" in reason(data[:scan] + once * 600 + data[scan:])


def test_metadata_bombs_do_not_spoil_a_good_image() -> None:
    zeros = zlib.compress(bytes(64 << 20))
    row = b"\0" + bytes(range(6))
    expected = [[[0, 1, 2], [3, 4, 5]]]
    text, profile = chunk(b"zTXt", b"a\0\0" + zeros), chunk(b"iCCP", b"a\0\0" + zeros)
    for extra in (text, profile, chunk(b"iTXt", b"a\0\1\0\0\0" + zeros), chunk(b"acTL", b"??")):
        image = open_image(png((2, 1), 8, 2, row, extra))
        assert np.asarray(image).tolist() == expected


def test_a_jpeg_with_damaged_segments() -> None:
    plain = encode(photo(), "JPEG")
    for segment in (
        jpeg_segment(0xE2, b"MPF\0II*\0" + b"\xff" * 20),
        jpeg_segment(0xE2, b"ICC_PROFILE\0"),
        jpeg_segment(0xED, b"Photoshop 3.0\0" + b"8BIM\x04\x04\xff\xff\xff"),
        jpeg_segment(0xE1, b"http://ns.adobe.com/xap/1.0/\0<x:xmpmeta"),
        b"\xff" * 7 + jpeg_segment(0xFE, b"fill bytes before a comment"),
        b"junk between the segments",
    ):
        data = plain[:2] + segment + plain[2:]
        assert open_image(data).tobytes() == IMAGES["jpeg"]


@pytest.mark.skipif(not HAS_AVIF, reason="this Pillow has no AVIF")
def test_an_avif_with_damaged_exif() -> None:
    maker = Image.Exif()
    maker[0x010F] = "maker"
    data = encode(photo(), "AVIF", exif=maker.tobytes())
    at = data.index(b"\0\x01\x01\x0f")  # one entry, which is the maker
    damaged = data[:at] + b"\xff\xff" + data[at + 2 :]
    assert open_image(damaged).tobytes() == open_image(data).tobytes()


def test_what_follows_a_jpeg_is_ignored() -> None:
    assert open_image(SAMPLES["jpeg"] + b"ftypmp42" * 99).tobytes() == IMAGES["jpeg"]


def test_damage_is_reported_with_its_detail() -> None:
    data = bytearray(SAMPLES["png-RGBA"])
    data[30] ^= 1  # the checksum of the header
    why = reason(bytes(data))
    assert why.startswith("its PNG data are damaged or of a rare kind (broken PNG file")


@pytest.mark.parametrize("size", [(1024, 768), (600, 2050), (515, 515)])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_reduced_decode_is_close_to_the_full_one(
    size: tuple[int, int], progressive: bool
) -> None:
    data = encode(photo(*size), "JPEG", quality=90, progressive=progressive)
    reduced = open_image(data, at_least=64)
    assert min(reduced.size) >= 64
    assert reduced.width * reduced.height < size[0] * size[1] / 3
    full = square_pixels(open_image(data), 64).astype(int)
    difference = np.abs(square_pixels(reduced, 64) - full)
    assert difference.mean() < 2
    assert difference.max() <= 8


@given(st.integers(1, 300), st.integers(1, 300), st.integers(1, 300))
def test_a_reduced_decode_keeps_the_pixels_asked_for(width: int, height: int, least: int) -> None:
    data = encode(Image.new("L", (width, height)), "JPEG")
    reduced = open_image(data, at_least=least)
    if min(width, height) < 2 * least:
        assert reduced.size == (width, height)
    else:
        assert min(reduced.size) >= least


def test_a_reduced_decode_is_turned_upright() -> None:
    data = encode(photo(512, 256), "JPEG", exif=exif(6))
    full = square_pixels(open_image(data), 32).astype(int)
    reduced = open_image(data, at_least=32)
    assert reduced.size == (32, 64)
    assert np.abs(square_pixels(reduced, 32) - full).mean() < 1.5


def test_eight_threads_see_what_one_sees() -> None:
    names = list(SAMPLES) * 8
    random = Random(0)
    random.shuffle(names)
    with ThreadPoolExecutor(8) as pool:
        images = list(pool.map(lambda name: open_image(SAMPLES[name]).tobytes(), names))
    assert images == [IMAGES[name] for name in names]
