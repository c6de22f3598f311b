"""Opening an image: read, sniff, clean, check the size, decode, convert, turn upright."""

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
from io import BytesIO
from typing import BinaryIO, TypeAlias

from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.PpmImagePlugin import PpmImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from naic.errors import ImageError
from naic.files import printable
from naic.images import containers
from naic.images.converting import to_rgb, upright
from naic.images.formats import HAS_AVIF, Unsupported, sniff

ImageInput: TypeAlias = str | os.PathLike[str] | bytes | bytearray | memoryview | BinaryIO

# The 108-megapixel photos of phones pass; decoded, this many pixels take 512 MB.
MAX_PIXELS = 1 << 27
# An image within the pixel limit fits in this many bytes in every format we open, even as 16-bit
# RGBA without compression; what is larger is something else, and reading it would fill the memory.
MAX_BYTES = 1 << 30

_KINDS = (
    (stat.S_ISDIR, "it is a folder", "Name the image files in it, or use the folder reader."),
    (stat.S_ISFIFO, "it is a named pipe", "Save its content to a file first."),
    (stat.S_ISSOCK, "it is a socket", "Name an image file."),
    (stat.S_ISCHR, "it is a device", "Name an image file."),
    (stat.S_ISBLK, "it is a device", "Name an image file."),
)
_REASONS = {
    errno.ENOENT: ("there is no such file", "Check the path."),
    errno.ENOTDIR: ("part of its path is a file, not a folder", "Check the path."),
    errno.EACCES: ("permission to read it is denied", "Change its permissions or its owner."),
    errno.EPERM: ("permission to read it is denied", "Change its permissions or its owner."),
    errno.ELOOP: ("its symbolic links go round in a circle", "Repair the link."),
    errno.ENAMETOOLONG: ("its name is too long for this system", "Give it a shorter name."),
}

# The decoders are called by name, not through Image.open, because that one answers a large image
# with a Python warning, and a warning can be neither caught nor silenced in one thread alone.
_DECODERS: dict[str, Callable[[BytesIO], ImageFile]] = {
    "JPEG": JpegImageFile,
    "PNG": PngImageFile,
    "WEBP": WebPImageFile,
    "GIF": GifImageFile,
    "BMP": BmpImageFile,
    "TIFF": TiffImageFile,
    "PPM": PpmImageFile,
}
if HAS_AVIF:
    from PIL.AvifImagePlugin import AvifImageFile

    _DECODERS["AVIF"] = AvifImageFile

# What the decoders say when data are missing rather than wrong.
_CUT_SHORT = ("cut short", "truncated", "not enough image data", "reached eof")

_CLEANERS = {
    "JPEG": containers.clean_jpeg,
    "PNG": containers.clean_png,
    "TIFF": containers.clean_tiff,
    "AVIF": containers.clean_avif,
}

# What comes after the last pixel, and within pixels nowhere; metadata, which may have small images
# of their own, were cleaned away.
_ENDS = {"JPEG": b"\xff\xd9", "PNG": b"IEND\xae\x42\x60\x82"}

# Formats whose decoder looks at its memory, or at Pillow's limit, before we learn the size from it.
_EARLY_SIZES = {"GIF": containers.gif_size, "WEBP": containers.webp_size}


def open_image(
    source: ImageInput,
    *,
    name: str | None = None,
    at_least: int | None = None,
    max_pixels: int = MAX_PIXELS,
) -> Image.Image:
    """Open an image upright, in RGB and in sRGB, wholly in memory.

    Safe for files from strangers and from many threads at once: no global setting of Pillow or of
    Python's warnings is changed, and no other program is started.

    Args:
        source: a path, the bytes of a file, or a file object opened in binary mode.
        name: what to call it in a message, in place of its path.
        at_least: the caller will shrink the image to this many pixels a side, so a JPEG may be
            decoded at 1/2, 1/4 or 1/8, as long as both sides keep that many pixels.
        max_pixels: images with more pixels are refused before they are decoded.

    Returns:
        The first frame, transparent parts on white.

    Raises:
        ImageError: for every input that does not give a whole image.
    """
    what = display_name(source, name)
    data = read_bytes(source, what)
    format_name = _format_of(data, what)
    with _telling(what, format_name):
        return _decode(data, format_name, what, at_least, max_pixels)


def look_at(source: ImageInput, *, name: str | None = None) -> None:
    """Refuse what `open_image` would refuse, without decoding the pixels of most images.

    Of JPEG, PNG and WebP the header is read, and it is seen whether the file has its end. What
    seems to be cut short, and all other formats, are decoded.

    Raises:
        ImageError: it cannot be opened.
    """
    what = display_name(source, name)
    data = read_bytes(source, what)
    format_name = _format_of(data, what)
    with _telling(what, format_name):
        if not _is_whole(data, format_name, what):
            _decode(data, format_name, what, 1, MAX_PIXELS)


def _format_of(data: bytes, what: str) -> str:
    format_name = sniff(data)
    if isinstance(format_name, Unsupported):
        why = f"it is {format_name.kind}, not one of the formats that naic opens"
        raise ImageError(what, why, format_name.hint)
    return format_name


@contextlib.contextmanager
def _telling(what: str, format_name: str) -> Iterator[None]:
    """Whatever a decoder raises, told as our own error."""
    try:
        yield
    except (ImageError, MemoryError):
        raise
    except containers.ForeignError:
        why = "it is a camera RAW file, not one of the formats that naic opens"
        raise ImageError(what, why, "Export it as JPEG or PNG.") from None
    except Exception as error:  # decoders raise nearly anything on damaged data
        raise _damaged(what, format_name, error) from error


def _is_whole(data: bytes, format_name: str, what: str) -> bool:
    """Whether the header can be read and the file has its end; False where that is unknown."""
    if format_name not in _ENDS and format_name != "WEBP":
        return False
    clean = _CLEANERS.get(format_name)
    parts = clean(data) if clean else containers.Parts(data)
    if read_size := _EARLY_SIZES.get(format_name):
        _check_size(read_size(data), what, MAX_PIXELS)
    with _DECODERS[format_name](BytesIO(parts.data)) as image:
        _check_size(image.size, what, MAX_PIXELS)
    if format_name == "WEBP":  # it says itself how long it is
        return int.from_bytes(data[4:8], "little") + 8 <= len(data)
    return parts.data.rfind(_ENDS[format_name]) >= 0  # from behind, where it is


def _decode(
    data: bytes, format_name: str, what: str, at_least: int | None, max_pixels: int
) -> Image.Image:
    clean = _CLEANERS.get(format_name)
    parts = clean(data) if clean else containers.Parts(data)
    if format_name in {"GIF", "TIFF"}:  # where Pillow itself warns at its own limit
        max_pixels = min(max_pixels, Image.MAX_IMAGE_PIXELS or max_pixels)
    if read_size := _EARLY_SIZES.get(format_name):
        _check_size(read_size(data), what, max_pixels)
    with _DECODERS[format_name](BytesIO(parts.data)) as image:
        _check_size(image.size, what, max_pixels)
        if at_least is not None:
            image.draft(None, (max(at_least, 1), max(at_least, 1)))
        image.load()
        profile = parts.profile or image.info.get("icc_profile")
        orientation = parts.orientation
        if format_name in {"WEBP", "AVIF"}:
            orientation = containers.orientation_of(image.info.get("exif", b""))
        rgb = upright(to_rgb(image, profile), orientation)
        if isinstance(rgb, ImageFile):  # already RGB and upright: let go of the file's bytes
            rgb = image.copy()
        rgb.info = {}
        return rgb


def _check_size(size: tuple[int, int], what: str, max_pixels: int) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise containers.DamagedError("it has no pixels")
    if width * height > max_pixels:
        why = f"it has {width} × {height} pixels, and the limit is {max_pixels:,} in all"
        raise ImageError(what, why, "Scale it down first.")


def _damaged(what: str, format_name: str, error: Exception) -> ImageError:
    detail = " ".join(str(error).split())[:200] or type(error).__name__
    if any(sign in detail.lower() for sign in _CUT_SHORT) or isinstance(error, EOFError):
        return ImageError(
            what, f"the {format_name} file is cut short", "Copy or download it again."
        )
    why = f"its {format_name} data are damaged or of a rare kind ({detail})"
    return ImageError(what, why, "Copy or download it again, or save it as JPEG or PNG.")


def display_name(source: ImageInput, name: str | None) -> str:
    """What to call the image in a message; always printable, whatever bytes the path holds."""
    if name is None:
        name = os.fsdecode(source) if isinstance(source, str | os.PathLike) else "image data"
    return printable(name)


def read_bytes(source: ImageInput, what: str) -> bytes:
    """All bytes of the source; raises ImageError for anything that is not a readable file."""
    try:
        data = _content(source, what)
    except (ImageError, MemoryError):
        raise
    except OSError as error:
        raise _reading_failed(source, what, error) from error
    except Exception as error:  # NUL in a path, a closed file, or whatever a file object raises
        raise ImageError(what, f"it cannot be read ({error})", "Check the path.") from error
    if not isinstance(data, bytes):
        why = f"reading it gave {type(data).__name__}, not bytes"
        raise ImageError(what, why, 'Open the file in binary mode ("rb").')
    if not data:
        raise ImageError(what, "it is empty", "Copy or download it again.")
    if len(data) > MAX_BYTES:
        raise _too_large(what)
    return data


def _content(source: ImageInput, what: str) -> object:
    """The content as the source gives it: a file object opened as text gives no bytes."""
    if isinstance(source, str | os.PathLike):
        return _read_file(os.fspath(source), what)
    if isinstance(source, bytes):
        return source
    if isinstance(source, bytearray | memoryview):
        return bytes(source)
    return source.read(MAX_BYTES + 1)


def _read_file(path: str, what: str) -> bytes:
    status = os.stat(path)  # noqa: PTH116 - a Path would refuse some names with other errors
    _check_regular(status, what)
    # Between the two looks the file may have been replaced by a pipe: never wait for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
        _check_regular(os.fstat(descriptor), what)
        return file.readall()


def _check_regular(status: os.stat_result, what: str) -> None:
    if not stat.S_ISREG(status.st_mode):
        for is_kind, why, hint in _KINDS:
            if is_kind(status.st_mode):
                raise ImageError(what, why, hint)
        raise ImageError(what, "it is not a regular file", "Name an image file.")
    if status.st_size > MAX_BYTES:
        raise _too_large(what)


def _too_large(what: str) -> ImageError:
    why = f"it is larger than {MAX_BYTES >> 30} GiB"
    return ImageError(what, why, "Scale the image down, or save it as JPEG or PNG.")


def _reading_failed(source: ImageInput, what: str, error: OSError) -> ImageError:
    why, hint = _REASONS.get(
        error.errno or 0, (f"it cannot be read ({error.strerror or error})", "Check the file.")
    )
    if error.errno == errno.ENOENT and isinstance(source, str | os.PathLike):
        try:
            target = os.readlink(source)  # noqa: PTH115
        except OSError:
            pass
        else:
            why = f"it is a link to a file that does not exist ({display_name(target, None)})"
            hint = "Repair the link or restore the file."
    return ImageError(what, why, hint)
