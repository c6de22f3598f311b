"""Rewriting the directory of a TIFF file to the tags that pixels depend on.

A TIFF directory can point anywhere and claim any length. Pillow answers with Python warnings, and
libtiff reads tags we have no use for; a directory with only sane, needed entries spares us both.
"""

import struct
from typing import Literal, NamedTuple

from naic.images.containers import DamagedError, ForeignError, Parts

_SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4,
          16: 8, 17: 8, 18: 8}  # fmt: skip
_INTEGERS = {1, 3, 4, 16}
_WIDTH, _HEIGHT, _TILE_WIDTH, _TILE_HEIGHT, _SAMPLES = 256, 257, 322, 323, 277
_STRIP_OFFSETS, _ROWS, _PLANES, _TILE_OFFSETS = 273, 278, 284, 324
_ORIENTATION, _PROFILE, _DNG_VERSION, _SUBFILE_TYPE = 274, 34675, 50706, 254
_READ = {_ORIENTATION, _PROFILE, _DNG_VERSION, _SUBFILE_TYPE}  # here, and kept from Pillow
# Width, height, compression, photometric, fill order, samples, rows per strip, planar layout, fax
# options, predictor, tile size, chroma position: one number each.
_ONE = {256, 257, 259, 262, 266, 277, 278, 284, 292, 293, 317, 322, 323, 531}
# Bits per sample, strips, palette, tiles, extra samples, sample format, JPEG tables, YCbCr.
_MANY = {258, 273, 279, 320, 324, 325, 338, 339, 347, *range(512, 522), 529, 530, 532}


def clean_tiff(data: bytes) -> Parts:
    """The same file with a shorter first directory, and its orientation and profile taken out."""
    layout = _layout(data)
    numbers: dict[int, int] = {}  # the first value of each tag
    entries: dict[int, bytes] = {}
    profile: bytes | None = None
    total = 0
    for tag, kind, count, field in layout.entry.iter_unpack(data[layout.start : layout.end]):
        if tag in numbers or tag not in _ONE | _MANY | _READ:
            continue
        unit = _SIZES.get(kind, 0)
        size = count * unit
        at = int.from_bytes(field, layout.byteorder)
        value = data[at : at + size] if size > len(field) else field[:size]
        numbers[tag] = int.from_bytes(value[:unit], layout.byteorder)
        if tag == _PROFILE:
            profile = value
        elif tag not in _READ:
            total += size
            if not size or len(value) < size or total > len(data):
                raise DamagedError(f"cut short: entry {tag} of its directory lies outside")
            if tag in _ONE:
                if kind not in _INTEGERS or unit > len(field):
                    raise DamagedError(f"entry {tag} of its directory is not a whole number")
                count, field = 1, value[:unit].ljust(len(field), b"\0")
            entries[tag] = layout.entry.pack(tag, kind, count, field)
    _check(numbers)
    _check_complete(numbers, {tag: layout.entry.unpack(entries[tag])[2] for tag in entries})
    # It is written over the old one, which has at least as many entries, so nothing moves.
    directory = layout.number.pack(len(entries)) + b"".join(entries[tag] for tag in sorted(entries))
    directory += bytes(layout.pointer)  # no next directory
    start = layout.start - layout.number.size
    cleaned = data[:start] + directory + data[start + len(directory) :]
    orientation = numbers.get(_ORIENTATION, 1)
    return Parts(cleaned, orientation if 1 <= orientation <= 8 else 1, profile)


def _check(numbers: dict[int, int]) -> None:
    if _DNG_VERSION in numbers or numbers.get(_SUBFILE_TYPE, 0) & 1:
        raise ForeignError  # a RAW file: its first image is only a thumbnail
    if numbers.get(_SAMPLES, 1) > 6:  # Pillow would write to the log
        raise DamagedError(f"{numbers[_SAMPLES]} values per pixel")
    # A tile is unpacked whole, however small the image is that it belongs to.
    tile = numbers.get(_TILE_WIDTH, 0) * numbers.get(_TILE_HEIGHT, 0)
    if tile > max(1 << 22, 4 * numbers.get(_WIDTH, 0) * numbers.get(_HEIGHT, 0)):
        raise DamagedError("its tiles are far larger than the image")


def _check_complete(numbers: dict[int, int], counts: dict[int, int]) -> None:
    """Pillow leaves the part of an image black for which the file lists no strip or tile."""
    width, height = numbers.get(_WIDTH, 0), numbers.get(_HEIGHT, 0)
    across = numbers.get(_TILE_WIDTH, 0) if _TILE_OFFSETS in counts else width
    down = numbers.get(_TILE_HEIGHT if _TILE_OFFSETS in counts else _ROWS, height)
    if not (across and down):
        raise DamagedError("a part of the image has no size")
    needed = -(-width // across) * -(-height // down)
    if numbers.get(_PLANES, 1) == 2:
        needed *= numbers.get(_SAMPLES, 1)
    if counts.get(_TILE_OFFSETS, counts.get(_STRIP_OFFSETS, 0)) < needed:
        raise DamagedError(f"cut short: the image has {needed} parts, and not all are listed")


class _Layout(NamedTuple):
    """Where the entries of the first directory are, and how they are written."""

    byteorder: Literal["little", "big"]
    pointer: int  # bytes of an offset
    number: struct.Struct
    entry: struct.Struct
    start: int
    end: int


def _layout(data: bytes) -> _Layout:
    byteorder: Literal["little", "big"] = "little" if data[:2] == b"II" else "big"
    order = "<" if byteorder == "little" else ">"
    if data[2:4] in {b"+\0", b"\0+"}:  # BigTIFF: the same with wider numbers
        pointer, number, entry = 8, struct.Struct(order + "Q"), struct.Struct(order + "HHQ8s")
    else:
        pointer, number, entry = 4, struct.Struct(order + "H"), struct.Struct(order + "HHL4s")
    at = int.from_bytes(data[pointer : 2 * pointer], byteorder)
    if at < 2 * pointer:
        raise DamagedError("its directory lies in its header")
    if at + number.size > len(data):
        raise DamagedError("cut short before its directory")
    (entries,) = number.unpack_from(data, at)
    start = at + number.size
    end = start + entries * entry.size
    if end > len(data):
        raise DamagedError("cut short within its directory")
    return _Layout(byteorder, pointer, number, entry, start, end)
