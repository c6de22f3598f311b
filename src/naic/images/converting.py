"""Every pixel layout that Pillow decodes, made 8-bit RGB on white and in sRGB; and squares."""

from functools import lru_cache
from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageCms

MAX_PROFILE = 4 << 20  # bytes; the largest colour profiles in use, those of presses, have 3 MB
# Ends of the name of an image that is mirrored, and of one that is a part of another, enlarged.
MIRRORED_NAME, CROPPED_NAME = " (mirrored)", " (cropped)"
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# Threads share a transform, so it must have no state; the black of a press is a dark grey.
_FLAGS = ImageCms.Flags.NOCACHE | ImageCms.Flags.BLACKPOINTCOMPENSATION


def to_rgb(image: Image.Image, profile: bytes | None) -> Image.Image:
    """The loaded image in RGB and sRGB, transparent parts on white."""
    if image.mode == "CMYK":
        return _through_profile(image, profile) or image.convert("RGB")
    if image.mode == "LAB":
        return _lab_transform().apply(image)
    if image.mode[0] in "IF":
        return _from_deep(image)
    rgb = _on_white(image)
    return (profile and _through_profile(rgb, profile)) or rgb


def upright(image: Image.Image, orientation: int) -> Image.Image:
    """The image turned as its EXIF orientation (1 to 8) asks."""
    return image if orientation == 1 else image.transpose(_TURNS[orientation])


def square_pixels(image: Image.Image, size: int) -> npt.NDArray[np.uint8]:
    """The RGB image squashed to (size, size, 3), as the training images were: nothing is cropped.

    Bicubic, with antialiasing when it shrinks; an image that has the size already is only copied.
    """
    if image.size != (size, size):
        image = image.resize((size, size), Image.Resampling.BICUBIC)
    return np.array(image)


def _on_white(image: Image.Image) -> Image.Image:
    key = image.info.get("transparency")
    if image.mode not in {"RGBA", "LA", "PA", "RGBa", "La"} and key is None:
        return image if image.mode == "RGB" else image.convert("RGB")
    if isinstance(key, tuple) and max(key) > 255:  # a 16-bit key, but the pixels were cut to 8 bit
        image.info["transparency"] = tuple(level >> 8 for level in key)
    if image.mode == "La":
        image = image.convert("LA")
    layer = image.convert("RGBA")
    white = Image.new("RGB", image.size, "white")
    white.paste(layer, mask=layer.getchannel("A"))
    return white


def _from_deep(image: Image.Image) -> Image.Image:
    """16-bit, 32-bit and float grey: scaled, where Pillow would cut everything above 255."""
    values = np.asarray(image)
    floor, ceiling = _grey_range(values, image.mode)
    grey = np.empty(values.shape, np.uint8)
    for top in range(0, len(values), 256):  # in bands: a large image must not need 8 bytes a dot
        with np.errstate(invalid="ignore"):  # some bit patterns of NaN make the processor complain
            band = values[top : top + 256].astype(np.float64)
        np.nan_to_num(band, copy=False, nan=floor, posinf=ceiling, neginf=floor)
        band = (band - floor) * 255 / (ceiling - floor)
        grey[top : top + 256] = np.rint(band.clip(0, 255))
    key = image.info.get("transparency")
    if isinstance(key, int):
        grey[values == key] = 255
    return Image.fromarray(grey).convert("RGB")


def _grey_range(values: npt.NDArray[np.number], mode: str) -> tuple[float, float]:
    """Which values are black and white.

    The first usual range that holds all values is taken for the image's own. An image that fits
    none, with negative or very large numbers as of heights or counts, is stretched.
    """
    if mode.startswith("I;16"):
        return 0.0, 65535.0
    known = values[np.isfinite(values)] if mode == "F" else values
    if known.size == 0:
        return 0.0, 1.0
    low, high = float(known.min()), float(known.max())
    for ceiling in (1.0, 255.0, 65535.0) if mode == "F" else (65535.0,):
        if low >= 0 and high <= ceiling:
            return 0.0, ceiling
    if low == high:
        return low - abs(low), low + abs(low)
    return low, high


def _through_profile(image: Image.Image, profile: bytes | None) -> Image.Image | None:
    """The image in sRGB, or None when its profile is missing, broken, of another mode or sRGB."""
    if not profile or len(profile) > MAX_PROFILE:
        return None
    transform = _transform(profile, image.mode)
    return transform.apply(image) if transform else None


@lru_cache(maxsize=16)
def _transform(profile: bytes, mode: str) -> ImageCms.ImageCmsTransform | None:
    """Images of one camera share one profile, and to build its transform costs milliseconds."""
    try:
        source = ImageCms.ImageCmsProfile(BytesIO(profile))
        if source.profile.xcolor_space.strip() != mode:
            return None
        transform = ImageCms.buildTransform(
            source,
            ImageCms.createProfile("sRGB"),
            mode,
            "RGB",
            ImageCms.Intent.RELATIVE_COLORIMETRIC,
            _FLAGS,
        )
        return transform if mode == "CMYK" or _changes_colours(transform) else None
    except (ImageCms.PyCMSError, OSError, ValueError, TypeError, ImportError):
        return None


def _changes_colours(transform: ImageCms.ImageCmsTransform) -> bool:
    """False for the many profiles that are sRGB by another name: their images need no work."""
    steps = np.arange(0, 256, 51, dtype=np.uint8)
    colours = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(1, -1, 3)
    changed = np.asarray(transform.apply(Image.fromarray(colours))).astype(int)
    return bool(np.abs(changed - colours).max() > 2)


@lru_cache(maxsize=1)
def _lab_transform() -> ImageCms.ImageCmsTransform:
    return ImageCms.buildTransform(
        ImageCms.createProfile("LAB"),
        ImageCms.createProfile("sRGB"),
        "LAB",
        "RGB",
        ImageCms.Intent.RELATIVE_COLORIMETRIC,
        _FLAGS,
    )
