import struct

import pytest

from naic.errors import ImageError
from naic.images.containers import DamagedError, clean_tiff
from naic.images.opening import open_image
from tests.images.images import encode, photo

GREY = {256: 4, 257: 4, 258: 8, 259: 1, 262: 1, 273: 8, 277: 1, 278: 4, 279: 16}
LEVELS = bytes(range(0, 160, 10))


def tiff(changes: dict[int, tuple[int, int, int]], order: str = "<", at: int = 24) -> bytes:
    """A 4 × 4 grey image, then its directory with some entries (type, count, field) changed."""
    tags = {tag: (4, 1, value) for tag, value in GREY.items()} | changes
    entries = b"".join(struct.pack(order + "HHLL", tag, *tags[tag]) for tag in sorted(tags))
    header = (b"II*\0" if order == "<" else b"MM\0*") + struct.pack(order + "L", at)
    return header + LEVELS + struct.pack(order + "H", len(tags)) + entries + bytes(4)


def reason(data: bytes) -> str:
    with pytest.raises(ImageError) as caught:
        open_image(data)
    return caught.value.why


@pytest.mark.parametrize("order", "<>")
def test_both_byte_orders(order: str) -> None:
    assert open_image(tiff({}, order)).convert("L").tobytes() == LEVELS


@pytest.mark.parametrize(
    "changes",
    [
        {271: (2, 2**32 - 1, 2**32 - 1)},  # the maker's name, as long as no file is
        {282: (5, 1, 2**31)},  # a resolution that lies outside
        {305: (99, 7, 7)},  # of a type that does not exist
        {34665: (4, 1, 2**31)},  # EXIF that lies outside
        {34675: (7, 2**31, 8)},  # a profile that ends outside
        {274: (3, 1, 99)},  # an orientation that does not exist
        {257: (3, 2, 4)},  # two heights
    ],
)
def test_damage_that_no_pixel_depends_on_is_passed_over(
    changes: dict[int, tuple[int, int, int]],
) -> None:
    assert open_image(tiff(changes)).convert("L").tobytes() == LEVELS


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({257: (12, 1, 8)}, "entry 257 of its directory is not a whole number"),
        ({277: (3, 1, 200)}, "200 values per pixel"),
        ({322: (4, 1, 65520), 323: (4, 1, 65520)}, "its tiles are far larger than the image"),
        ({278: (4, 1, 0)}, "a part of the image has no size"),
    ],
)
def test_damage_that_is_named(changes: dict[int, tuple[int, int, int]], why: str) -> None:
    assert reason(tiff(changes)) == f"its TIFF data are damaged or of a rare kind ({why})"


@pytest.mark.parametrize(
    "changes",
    [
        {278: (4, 1, 3)},  # two strips, one of them listed
        {257: (4, 1, 5), 278: (4, 1, 4)},
        {277: (3, 1, 3), 284: (3, 1, 2)},  # three planes, one of them listed
        {258: (3, 99, 90)},  # bits per sample that end outside
        {273: (4, 2**30, 8)},
    ],
)
def test_missing_parts_are_an_error(changes: dict[int, tuple[int, int, int]]) -> None:
    assert reason(tiff(changes)) == "the TIFF file is cut short"


def test_values_that_overlap_cannot_be_larger_than_the_file() -> None:
    size = len(tiff({}))
    half = (1, size * 2 // 3, 0)
    clean_tiff(tiff({320: half}))
    with pytest.raises(DamagedError, match="entry 347"):
        clean_tiff(tiff({320: half, 347: half}))


def test_a_directory_in_the_header() -> None:
    assert "its directory lies in its header" in reason(tiff({}, at=4))
    assert reason(tiff({}, at=10**6)) == "the TIFF file is cut short"


def test_many_bands_do_not_write_to_the_log(capfd: pytest.CaptureFixture[str]) -> None:
    assert "values per pixel" in reason(tiff({277: (3, 1, 200)}))
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("rows", [5, 36, 2**32 - 1])
@pytest.mark.parametrize("compression", ["raw", "tiff_lzw"])
def test_strips(rows: int, compression: str) -> None:
    data = encode(photo(), "TIFF", compression=compression, tiffinfo={278: rows})
    assert open_image(data).tobytes() == photo().tobytes()
