"""What stands in a photo itself, as far as it can be told without ExifTool.

Programs prefer the XMP file, so naic's words there would stand before those that a person wrote
into the photo. Only texts are looked for, in the few places where programs put them, and nothing of
the photo is decoded.
"""

import struct
from pathlib import Path

from naic.errors import DataError, ImageError
from naic.files import printable, what_is
from naic.images.opening import MAX_BYTES
from naic.tasks.caption.find import Found
from naic.tasks.caption.metadata.exiftool import HOW_TO_GET_IT
from naic.tasks.caption.metadata.mark import ALT_TEXT, DESCRIPTION, IN_PHOTO, NAMESPACE, Held
from naic.tasks.caption.metadata.sidecar import held

_IMAGE_DESCRIPTION, _TEXT = 270, 2  # a tag and a type of EXIF
_LONGEST = 1 << 16
_ORDERS = (b"II*\0", b"MM\0*")  # what a TIFF begins with, and an EXIF block
_BEFORE_EXIF = (b"Exif\0\0", b"eXIf", b"EXIF")  # in JPEG and others, in PNG, in WebP
_IPTC, _CAPTION = b"8BIM\x04\x04", b"\x1c\x02\x78"
_PNG = (b"tEXtDescription\0", b"iTXtDescription\0")


def persons_texts(path: str) -> dict[str, str]:
    """A person's description and alt text in a photo, by the names of `IN_PHOTO`; empty for none.

    What cannot be read has none: what is wrong with it shows when it is opened.
    """
    try:
        return _persons(_content(Path(path)))
    except (OSError, ValueError):
        return dict.fromkeys(IN_PHOTO.values(), "")


class WithoutExifTool:
    """Photos where there is no ExifTool to take anything out of them."""

    def file(self, image: Found) -> Path:
        """The photo."""
        return Path(image.path)

    def undo(self, image: Found) -> bool:
        """False where naic has not written.

        Raises:
            ImageError: it has.
        """
        try:
            marked = NAMESPACE.encode() in _content(Path(image.path))
        except (OSError, ValueError):
            return False
        if marked:
            why = "naic has written into it, and ExifTool is not installed to take it out"
            raise ImageError(printable(image.path), why, HOW_TO_GET_IT)
        return False


def _content(path: Path) -> bytes:
    """The bytes of a file; a ValueError says that it is none that can be opened as an image."""
    if what_is(path) != "file" or path.stat().st_size > MAX_BYTES:
        raise ValueError(path)
    return path.read_bytes()


def _persons(data: bytes) -> dict[str, str]:
    there = _xmp(data)
    naics = there.mark.text if there.mark is not None else ""
    described = [there.texts[DESCRIPTION], _exif(data), _iptc(data), _png(data)]
    return {
        IN_PHOTO["description"]: next((text for text in described if text and text != naics), ""),
        IN_PHOTO["alt"]: "" if there.own(ALT_TEXT) else there.texts[ALT_TEXT] or "",
    }


def _xmp(data: bytes) -> Held:
    start = data.find(b"<rdf:RDF")
    end = data.find(b"</rdf:RDF>", start)
    if not 0 <= start < end:
        return held(None, "")
    try:
        return held(data[start : end + len(b"</rdf:RDF>")], "")
    except DataError:  # programs would not read it either
        return held(None, "")


def _exif(data: bytes) -> str:
    if data[:4] in _ORDERS:
        return _image_description(data, 0)
    for order in _ORDERS:
        place = data.find(order)
        while place >= 0:
            # Between the chunk's name and its content WebP has the size.
            if any(name in data[max(0, place - 8) : place] for name in _BEFORE_EXIF):
                return _image_description(data, place)
            place = data.find(order, place + 1)
    return ""


def _image_description(data: bytes, start: int) -> str:
    """The ImageDescription of a TIFF or an EXIF block that begins here."""
    order = "<" if data[start : start + 1] == b"I" else ">"
    try:
        (first,) = struct.unpack_from(order + "4xL", data, start)
        (count,) = struct.unpack_from(order + "H", data, start + first)
        for at in range(start + first + 2, start + first + 2 + 12 * count, 12):
            tag, kind, size, place = struct.unpack_from(order + "HHLL", data, at)
            if (tag, kind) == (_IMAGE_DESCRIPTION, _TEXT):
                own = at + 8 if size <= 4 else start + place  # bytes of a value
                return _said(data[own : own + min(size, _LONGEST)])
    except struct.error:  # cut short
        pass
    return ""


def _iptc(data: bytes) -> str:
    block = data.find(_IPTC)
    found = data.find(_CAPTION, block, block + _LONGEST) if block >= 0 else -1
    if found < 0:
        return ""
    size = int.from_bytes(data[found + 3 : found + 5])
    return _said(data[found + 5 : found + 5 + size])


def _png(data: bytes) -> str:
    if data[:4] != b"\x89PNG":
        return ""
    for name in _PNG:
        found = data.find(name)
        if found >= 0:
            end = found + 4 + int.from_bytes(data[found - 4 : found])
            return _said(data[found + len(name) : min(end, found + _LONGEST)])
    return ""


def _said(text: bytes) -> str:
    return text.decode(errors="replace").strip("\0 \t\r\n")
