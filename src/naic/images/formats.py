"""What an image file is: the format by its first bytes, the image that it shows by its name."""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

try:  # Pillow 11.3 brought AVIF, and a build without libavif still has the module
    from PIL.AvifImagePlugin import SUPPORTED
except ImportError:
    SUPPORTED = False
HAS_AVIF: bool = SUPPORTED

_OPENED = """
    .jpg .jpeg .jpe .jfif .mpo .png .apng .webp .gif .bmp .dib .tif .tiff
    .ppm .pgm .pbm .pnm .pfm
"""
_AVIF = ".avif .avifs"
_REFUSED = """
    .heic .heif .hif .jp2 .j2k .jpf .jpx .jxl .jxr .tga .pcx .qoi .pam .dds .exr .hdr .dcm
    .svg .svgz .emf .wmf .eps .ps .ai .pdf .djvu .psd .psb .xcf .kra .ico .cur .icns
    .raw .dng .cr2 .cr3 .crw .nef .nrw .arw .srf .sr2 .orf .rw2 .raf .pef .srw .x3f .3fr .iiq .mrw
"""
IMAGE_SUFFIXES = frozenset(_OPENED.split() + (_AVIF.split() if HAS_AVIF else []))
# Images that people do have and that we refuse with a word of advice. A folder reader reports
# them, rather than passing over them as it does over other files.
UNSUPPORTED_SUFFIXES = frozenset(_REFUSED.split() + ([] if HAS_AVIF else _AVIF.split()))

_CONVERT = "Convert it to JPEG or PNG."
_EXPORT = "Export it as JPEG or PNG."
_NOT_AN_IMAGE = "Name an image file, such as a JPEG or a PNG."
_AGAIN = "Copy or download it again."
_DOWNLOAD = "Download the image itself; open the file in a text editor to see what was sent."


class Unsupported(NamedTuple):
    """What the bytes seem to be instead of an image we open, and what to do about it."""

    kind: str
    hint: str


_KNOWN = (
    (b"\xff\xd8", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),
    (b"MM\0+", "TIFF"),
)
_FOREIGN: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"%PDF", "a PDF document", _EXPORT),
    (0, b"%!PS", "a PostScript or EPS drawing", _EXPORT),
    (0, b"\xc5\xd0\xd3\xc6", "a PostScript or EPS drawing", _EXPORT),
    (0, b"8BPS", "a Photoshop document", _EXPORT),
    (0, b"gimp xcf", "a GIMP document", _EXPORT),
    (0, b"\0\0\x01\0", "a Windows icon", _CONVERT),
    (0, b"\0\0\x02\0", "a Windows cursor", _CONVERT),
    (0, b"icns", "a macOS icon", _CONVERT),
    (0, b"\0\0\0\x0cjP  ", "a JPEG 2000 image", _CONVERT),
    (0, b"\xff\x4f\xff\x51", "a JPEG 2000 image", _CONVERT),
    (0, b"\0\0\0\x0cJXL ", "a JPEG XL image", _CONVERT),
    (0, b"\xff\x0a", "a JPEG XL image", _CONVERT),
    (0, b"II\xbc", "a JPEG XR image", _CONVERT),
    (0, b"IIRO", "a camera RAW file", _EXPORT),
    (0, b"IIRS", "a camera RAW file", _EXPORT),
    (0, b"MMOR", "a camera RAW file", _EXPORT),
    (0, b"IIU\0", "a camera RAW file", _EXPORT),
    (0, b"FUJIFILMCCD-RAW", "a camera RAW file", _EXPORT),
    (0, b"FOVb", "a camera RAW file", _EXPORT),
    (0, b"\0MRM", "a camera RAW file", _EXPORT),
    (0, b"II\x1a\0\0\0HEAPCCDR", "a camera RAW file", _EXPORT),
    (8, b"CR\x02", "a camera RAW file", _EXPORT),
    (0, b"v/1\x01", "an OpenEXR image", _CONVERT),
    (0, b"#?RADIANCE", "a Radiance HDR image", _CONVERT),
    (0, b"DDS ", "a DirectDraw texture", _CONVERT),
    (0, b"qoif", "a QOI image", _CONVERT),
    (0, b"P7\n", "a PAM image", _CONVERT),
    (0, b"PF\n", "a colour PFM image", _CONVERT),
    (0, b"\x8aMNG", "an MNG animation", _CONVERT),
    (0, b"AT&TFORM", "a DjVu document", _EXPORT),
    (0, b"\xd7\xcd\xc6\x9a", "a Windows metafile", _EXPORT),
    (40, b" EMF", "a Windows metafile", _EXPORT),
    (128, b"DICM", "a DICOM medical image", _EXPORT),
    (0, b"SIMPLE  =", "a FITS astronomical image", _EXPORT),
    (0, b"\0\x05\x16\x07", "macOS metadata that goes with a file, not the file", "Delete it."),
    (0, b"version https://git-lfs", "a Git LFS pointer, not the file", "Run `git lfs pull`."),
    (0, b"PK\x03\x04", "a ZIP archive or an office document", "Unpack it first."),
    (0, b"\x1f\x8b", "a gzip archive", "Unpack it first."),
    (0, b"BZh", "a bzip2 archive", "Unpack it first."),
    (0, b"\xfd7zXZ", "an xz archive", "Unpack it first."),
    (0, b"7z\xbc\xaf\x27\x1c", "a 7z archive", "Unpack it first."),
    (0, b"Rar!", "a RAR archive", "Unpack it first."),
    (257, b"ustar", "a tar archive", "Unpack it first."),
    (0, b"\x1aE\xdf\xa3", "a Matroska or WebM video", "Extract a frame as JPEG or PNG."),
    (0, b"FLV\x01", "a Flash video", "Extract a frame as JPEG or PNG."),
    (0, b"\0\0\x01\xba", "an MPEG video", "Extract a frame as JPEG or PNG."),
    (0, b"\0\0\x01\xb3", "an MPEG video", "Extract a frame as JPEG or PNG."),
    (4, b"moov", "a QuickTime video", "Extract a frame as JPEG or PNG."),
    (0, b"OggS", "an Ogg sound or video file", _NOT_AN_IMAGE),
    (0, b"ID3", "an MP3 sound file", _NOT_AN_IMAGE),
    (0, b"fLaC", "a FLAC sound file", _NOT_AN_IMAGE),
    (0, b"\x93NUMPY", "a NumPy array", "Save the array as PNG."),
    (0, b"\x89HDF", "an HDF5 file", _NOT_AN_IMAGE),
    (0, b"SQLite format", "an SQLite database", _NOT_AN_IMAGE),
    (0, b"\x7fELF", "a program", _NOT_AN_IMAGE),
    (0, b"MZ", "a program", _NOT_AN_IMAGE),
)
_HEIF_BRANDS = {b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1", b"mif2"}


def sniff(data: bytes) -> str | Unsupported:
    """The name of a format we open, or what the bytes are instead."""
    for offset, magic, kind, hint in _FOREIGN:
        if data.startswith(magic, offset):
            return Unsupported(kind, hint)
    for magic, name in _KNOWN:
        if data.startswith(magic):
            return name
    if data[4:8] == b"ftyp":
        return _sniff_iso_media(data)
    if data[:4] == b"RIFF":
        if data[8:12] == b"WEBP":
            return "WEBP"
        return Unsupported("a RIFF sound or video file", "Extract a frame as JPEG or PNG.")
    if data[:2] == b"BM" and len(data) > 18 and data[14] in {12, 16, 40, 52, 56, 64, 108, 124}:
        return "BMP"
    if data[:2] in {b"P1", b"P2", b"P3", b"P4", b"P5", b"P6", b"Pf"} and data[2:3].isspace():
        return "PPM"
    return _sniff_text(data)


def _sniff_iso_media(data: bytes) -> str | Unsupported:
    """AVIF, HEIC, Canon RAW and MP4 share a container and differ by the brands they list."""
    end = min(int.from_bytes(data[:4]), 256)
    brands = {data[8:12]} | {data[i : i + 4] for i in range(16, end, 4)}
    if brands & {b"avif", b"avis"}:
        return "AVIF" if HAS_AVIF else Unsupported("an AVIF image", _CONVERT)
    if brands & _HEIF_BRANDS:
        return Unsupported("an HEIC image", f"{_CONVERT} On the phone: Camera, Formats, JPEG.")
    if b"crx " in brands:
        return Unsupported("a camera RAW file", _EXPORT)
    return Unsupported("an MP4 or QuickTime video", "Extract a frame as JPEG or PNG.")


def _sniff_text(data: bytes) -> Unsupported:
    head = data[:4096]
    if not head.strip(b"\0"):
        return Unsupported("a file full of zeros", _AGAIN)
    for mark, codec in ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16")):
        if head.startswith(mark):
            head = head.decode(codec, "replace").encode()
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    if b"<svg" in text:
        return Unsupported("an SVG drawing", _EXPORT)
    if text.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or b"<html" in text[:512]:
        return Unsupported("a web page saved under an image's name", _DOWNLOAD)
    if text.startswith((b"<?xml", b"<error")):
        return Unsupported("an XML document, perhaps a server's error message", _DOWNLOAD)
    if text.startswith((b"{", b"[")) and _is_text(text):
        return Unsupported("a JSON text, perhaps a server's error message", _DOWNLOAD)
    if _is_text(text):
        return Unsupported("plain text", _DOWNLOAD)
    return Unsupported("data of an unknown kind", _CONVERT)


def _is_text(head: bytes) -> bool:
    """No control characters but white space, and valid UTF-8."""
    if any(byte < 32 and byte not in b"\t\n\r\f\x1b" for byte in head):
        return False
    try:
        head.decode()
    except UnicodeDecodeError as error:
        return error.start > 4000  # the head was cut within a character
    return True


# COCO's images are called COCO_val2014_000000000042.jpg or 000000000042.jpg, and image 42.
_NUMBER = re.compile(r"(COCO_[a-z]+[0-9]{4}_)?0*([0-9]+)")


def without_suffix(name: str) -> str:
    """`a/b.jpg` as `a/b`; the dot that opens a hidden name is no suffix."""
    folder, slash, base = name.rpartition("/")
    stem, dot, _ = base.rpartition(".")
    return folder + slash + (stem if dot and stem else base)


def stems_of_texts(
    names: Iterable[str], spelt: Callable[[str], str] = lambda name: name
) -> dict[str, str]:
    """What comes before the `.txt` of each image of these names, such that no two have one file.

    That of `a.jpg` is `a`; where there is `a.png` too, theirs are `a.jpg` and `a.png`. Names that
    mean one file are made alike by `spelt`.
    """
    stems = {name: without_suffix(name) for name in names}
    while True:
        owners: dict[str, list[str]] = {}
        for name, stem in stems.items():
            owners.setdefault(spelt(stem), []).append(name)
        clashing = [
            name
            for own in owners.values()
            if len(own) > 1
            for name in own
            if stems[name] != name  # a short one may be the whole name of another: `a.jpg.png`
        ]
        if not clashing:
            return stems
        stems.update({name: name for name in clashing})


class Name(NamedTuple):
    """An id taken apart: what two ids of one image may differ in, and what they may not."""

    folders: tuple[str, ...]
    prefix: str  # COCO's
    plain: str

    def agrees(self, other: "Name") -> bool:
        """Whether both can be names of one image: what both tell must be the same."""
        shared = min(len(self.folders), len(other.folders))
        same_folders = not shared or self.folders[-shared:] == other.folders[-shared:]
        same_prefix = not self.prefix or not other.prefix or self.prefix == other.prefix
        return self.plain == other.plain and same_folders and same_prefix


def take_apart(image_id: str) -> Name:
    """The parts of an id; the suffix of an image and leading zeros are not among them."""
    *folders, base = without_image_suffix(image_id).split("/")
    number = _NUMBER.fullmatch(base)
    prefix, plain = (number[1] or "", number[2]) if number else ("", base)
    return Name(tuple(name for name in folders if name not in ("", ".")), prefix, plain)


def without_image_suffix(image_id: str) -> str:
    """The id without `.jpg` and the like; any other suffix may be part of it."""
    stem = without_suffix(image_id)
    return stem if image_id[len(stem) :].lower() in IMAGE_SUFFIXES else image_id


def plain_id(image_id: str) -> str:
    """What ids of one image have in common, whoever wrote them.

    Folders, the suffix of an image, COCO's prefix and leading zeros are taken off, so that 42,
    "000000000042.jpg" and "val2014/COCO_val2014_000000000042" are the same image.
    """
    return take_apart(image_id).plain
