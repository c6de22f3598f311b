"""Taking an image file apart before Pillow sees it, so that only pixels are left to go wrong.

Pillow parses metadata as it opens a file. Damaged EXIF or a text chunk that unpacks to gigabytes
then kills a good image or raises a Python warning, and warnings cannot be silenced in one thread
alone. So the segments that no pixel depends on are dropped, and the two facts we need from them,
the orientation and the colour profile, are read here by code that cannot fail.
"""

import struct
import zlib
from typing import NamedTuple

MAX_PROFILE = 4 << 20  # bytes; the largest colour profiles in use, those of presses, have 3 MB
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
