"""Opening an image: sniff, clean, check the size, decode, convert, turn upright."""

from collections.abc import Callable
from io import BytesIO

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
from naic.images.containers import (
    DamagedError,
    ForeignError,
    Parts,
    clean_avif,
    clean_jpeg,
    clean_png,
    gif_size,
    orientation_of,
    webp_size,
)
from naic.images.converting import to_rgb, upright
from naic.images.formats import HAS_AVIF, Unsupported, sniff
from naic.images.reading import ImageInput, display_name, read_bytes
from naic.images.tiff import clean_tiff

# The 108-megapixel photos of phones pass; decoded, this many pixels take 512 MB.
MAX_PIXELS = 1 << 27

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
    "JPEG": clean_jpeg,
    "PNG": clean_png,
    "TIFF": clean_tiff,
    "AVIF": clean_avif,
}

# Formats whose decoder looks at its memory, or at Pillow's limit, before we learn the size from it.
_EARLY_SIZES = {"GIF": gif_size, "WEBP": webp_size}


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
    format_name = sniff(data)
    if isinstance(format_name, Unsupported):
        why = f"it is {format_name.kind}, not one of the formats that naic opens"
        raise ImageError(what, why, format_name.hint)
    try:
        return _decode(data, format_name, what, at_least, max_pixels)
    except (ImageError, MemoryError):
        raise
    except ForeignError:
        why = "it is a camera RAW file, not one of the formats that naic opens"
        raise ImageError(what, why, "Export it as JPEG or PNG.") from None
    except Exception as error:  # decoders raise nearly anything on damaged data
        raise _damaged(what, format_name, error) from error


def _decode(
    data: bytes, format_name: str, what: str, at_least: int | None, max_pixels: int
) -> Image.Image:
    clean = _CLEANERS.get(format_name)
    parts = clean(data) if clean else Parts(data)
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
            orientation = orientation_of(image.info.get("exif", b""))
        rgb = upright(to_rgb(image, profile), orientation)
        if isinstance(rgb, ImageFile):  # already RGB and upright: let go of the file's bytes
            rgb = image.copy()
        rgb.info = {}
        return rgb


def _check_size(size: tuple[int, int], what: str, max_pixels: int) -> None:
    width, height = size
    if width < 1 or height < 1:
        raise DamagedError("it has no pixels")
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
