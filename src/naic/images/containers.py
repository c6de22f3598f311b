"""Taking an image file apart before Pillow sees it, so that only pixels are left to go wrong.

Pillow parses metadata as it opens a file. Damaged EXIF or a text chunk that unpacks to gigabytes
then kills a good image or raises a Python warning, and warnings cannot be silenced in one thread
alone. So the segments that no pixel depends on are dropped, and the two facts we need from them,
the orientation and the colour profile, are read here by code that cannot fail.
"""

import struct
import zlib
from typing import Literal, NamedTuple

from naic.images.converting import MAX_PROFILE

_MAX_SCANS = 500  # of a progressive JPEG, which has about ten: each one costs time on every pixel


class Parts(NamedTuple):
    """A cleaned file, and what its metadata said."""

    data: bytes
    orientation: int = 1  # EXIF numbering, 1 (upright) to 8
    profile: bytes | None = None  # ICC


class DamagedError(Exception):
    """The container is broken in a way that no decoder should see."""


class ForeignError(Exception):
    """The container holds something that is not an image we open."""


def orientation_of(exif: bytes) -> int:
    """The orientation that EXIF data give; 1 when they are damaged or do not say."""
    start = 6 if exif.startswith(b"Exif\0\0") else 0
    order = "<" if exif[start : start + 2] == b"II" else ">"
    try:
        (first,) = struct.unpack_from(order + "4xL", exif, start)
        (count,) = struct.unpack_from(order + "H", exif, start + first)
        for i in range(count):
            at = start + first + 2 + 12 * i
            tag, kind, _, short = struct.unpack_from(order + "HHLH", exif, at)
            if tag == 0x0112:
                return short if kind == 3 and 1 <= short <= 8 else 1
    except struct.error:
        pass
    return 1


def clean_jpeg(data: bytes) -> Parts:
    """Keep the segments that decoding needs.

    Dropping the multi-image index makes an MPO file (3D, depth or motion photos of phones) the
    plain JPEG that it begins with.
    """
    kept = [b"\xff\xd8"]
    orientation = 1
    profile: list[bytes] = []
    at = 2
    while True:
        at = data.find(b"\xff", at)
        if at < 0 or at + 4 > len(data):
            raise DamagedError("cut short before the pixels begin")
        marker = data[at + 1]
        if marker in {0x00, 0x01, 0xFF} or 0xD0 <= marker <= 0xD8:  # fill, or without a payload
            at += 1 if marker == 0xFF else 2
            continue
        if marker == 0xD9:
            raise DamagedError("ends before the pixels begin")
        end = at + 2 + int.from_bytes(data[at + 2 : at + 4])
        if marker == 0xDA:
            break
        payload = data[at + 4 : end]
        if marker == 0xE1 and orientation == 1 and payload.startswith(b"Exif\0\0"):
            orientation = orientation_of(payload)
        elif marker == 0xE2 and payload.startswith(b"ICC_PROFILE\0"):
            profile.append(payload[12:])
        is_metadata = 0xE0 <= marker <= 0xEF or marker == 0xFE
        # JFIF and Adobe segments tell the decoder which colour space the components have.
        if not is_metadata or payload.startswith((b"JFIF", b"Adobe")):
            kept.append(data[at:end])
        at = end
    # Pixel data hold these two bytes only as a marker; what follows the image may be a video.
    if data.count(b"\xff\xda", at, data.find(b"\xff\xd9", at)) > _MAX_SCANS:
        raise DamagedError(f"more than {_MAX_SCANS} scans")
    kept.append(data[at:])
    return Parts(b"".join(kept), orientation, _join_profile(profile))


def _join_profile(pieces: list[bytes]) -> bytes | None:
    """Each piece begins with its number, from 1, and the number of pieces."""
    pieces.sort()
    if not pieces or any(piece[:2] != bytes((i, len(pieces))) for i, piece in enumerate(pieces, 1)):
        return None
    return b"".join(piece[2:] for piece in pieces)


def clean_png(data: bytes) -> Parts:
    """Keep header, palette, transparency and pixels.

    Text chunks go: image generators store whole workflows there, beyond Pillow's limit. So do
    the animation's chunks: what is left is its first or its default image.
    """
    kept = [data[:8]]
    orientation = 1
    profile: bytes | None = None
    at = run = 8  # run: where the chunks kept and not copied yet begin
    while at + 12 <= len(data):
        kind = data[at + 4 : at + 8]
        end = at + 12 + int.from_bytes(data[at : at + 4])
        if kind not in {b"IDAT", b"IHDR", b"PLTE", b"tRNS", b"IEND"}:
            kept.append(data[run:at])
            run = end
            if kind == b"eXIf":
                orientation = orientation_of(data[at + 8 : end - 4])
            elif kind == b"iCCP":
                profile = _inflate_profile(data[at + 8 : end - 4])
        at = end
        if kind == b"IEND":
            break
    kept.append(data[run:at])
    if not any(b"IDAT" in part for part in kept):
        raise DamagedError("cut short before the pixels begin")
    return Parts(b"".join(kept), orientation, profile)


def _inflate_profile(chunk: bytes) -> bytes | None:
    _, _, rest = chunk.partition(b"\0")
    try:
        return zlib.decompressobj().decompress(rest[1:], MAX_PROFILE) or None
    except zlib.error:
        return None


def clean_avif(data: bytes) -> Parts:
    """Hide EXIF from Pillow: the AVIF standard puts the orientation elsewhere."""
    head, mark, pixels = data.partition(b"mdat")
    return Parts(head.replace(b"Exif", b"skip") + mark + pixels)


def webp_size(data: bytes) -> tuple[int, int]:
    """Width and height of the canvas, for which Pillow's decoder takes memory as it opens."""
    if int.from_bytes(data[4:8], "little") + 8 > len(data) or len(data) < 30:
        raise DamagedError("cut short")
    if data[12:16] == b"VP8X":
        width, height = data[24:27], data[27:30]
        return int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1
    if data[12:16] == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    width, height = data[26:28], data[28:30]
    return int.from_bytes(width, "little") & 0x3FFF, int.from_bytes(height, "little") & 0x3FFF


def gif_size(data: bytes) -> tuple[int, int]:
    """Width and height of the first frame or of the screen, whichever is larger."""
    try:
        width, height, flags = struct.unpack_from("<HHB", data, 6)
        at = 13 + (3 << (flags & 7) + 1 if flags & 0x80 else 0)
        while data[at] == 0x21:  # an extension: label, then blocks, each with its length
            at += 2
            while data[at]:
                at += 1 + data[at]
            at += 1
        left, top, across, down = struct.unpack_from("<4H", data, at + 1)
    except (IndexError, struct.error) as error:
        raise DamagedError("cut short before the pixels begin") from error
    return max(width, left + across), max(height, top + down)


# A TIFF directory can point anywhere and claim any length. Pillow answers with Python warnings, and
# libtiff reads tags we have no use for; a directory with only sane, needed entries spares us both.
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
