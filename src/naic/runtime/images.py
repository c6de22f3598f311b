"""Images that a program hands over: by path, as the bytes of a file, or as pixels in memory.

Apart from the captioner, so that a process that only decodes need not import torch.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from io import IOBase
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image

from naic.data.records import ImageSource
from naic.data.sources import FileImage
from naic.errors import ImageError
from naic.images import MAX_PIXELS, open_image
from naic.images.containers import orientation_of
from naic.images.converting import to_rgb, upright

ImageLike: TypeAlias = (
    str
    | os.PathLike[str]
    | bytes
    | bytearray
    | memoryview
    | IOBase
    | Image.Image
    | npt.NDArray[Any]
)
ARRAYS = "Give uint8 values 0 to 255 of shape (height, width), (…, 3) for RGB or (…, 4) for RGBA."


def is_one(images: object) -> bool:
    """Whether this is an image where several were asked for.

    Text, bytes and arrays are sequences too: of letters, of numbers, of rows.
    """
    if isinstance(images, np.ndarray):
        return images.ndim <= len(("height", "width", "colours"))
    kinds = (str, bytes, bytearray, memoryview, os.PathLike, Image.Image, IOBase)
    return isinstance(images, kinds) or not isinstance(images, Iterable)


@dataclass(frozen=True, slots=True)
class BytesImage:
    """The bytes of an image file."""

    data: bytes
    name: str

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError."""
        return open_image(self.data, name=self.name, at_least=at_least)


@dataclass(frozen=True, slots=True)
class MemoryImage:
    """An image that is decoded already: all its pixels are used. It is ours: see `as_source`."""

    image: Image.Image
    name: str

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError."""
        info = self.image.info
        try:
            rgb = to_rgb(self.image, info.get("icc_profile"))
        except (ValueError, OSError) as error:
            why = f"its pixels, of mode {self.image.mode}, cannot be made RGB ({error})"
            raise ImageError(self.name, why, "Convert it to RGB first.") from error
        return upright(rgb, orientation_of(info.get("exif", b"")))


@dataclass(frozen=True, slots=True)
class NoImage:
    """What was handed over and is no image: the error comes in its place among the others."""

    name: str
    why: str
    hint: str

    def load(self, at_least: int | None = None) -> Image.Image:
        """Raises ImageError."""
        raise ImageError(self.name, self.why, self.hint)


def any_source(image: object, number: int) -> ImageSource:
    """As `as_source`, but what is wrong with an object shows when it is loaded, as with a file."""
    try:
        return as_source(image, number)
    except ImageError as error:
        return NoImage(error.what, error.why, error.hint)


def as_source(image: object, number: int) -> ImageSource:
    """The image as something that can be loaded; `number`, from 1 on, names one without a path.

    Raises:
        ImageError: an object that is no image. What is wrong with a file shows when it is loaded.
    """
    name = f"image {number}"
    if isinstance(image, str | os.PathLike):
        return FileImage(Path(image))
    if isinstance(image, IOBase):
        image = _read(image, name)
    if isinstance(image, bytes | bytearray | memoryview):
        return BytesImage(bytes(image), name)
    if isinstance(image, np.ndarray):
        image = _from_array(image, name)
    if not isinstance(image, Image.Image):
        why = f"{type(image).__name__} is no image"
        raise ImageError(name, why, "Give a path, bytes, a Pillow image or an array.")
    width, height = image.size
    if not 0 < width * height <= MAX_PIXELS:
        why = f"it has {width} × {height} pixels, and 1 to {MAX_PIXELS:,} in all can be used"
        raise ImageError(name, why, "Scale it down first." if width * height else ARRAYS)
    try:
        image.load()  # here: if it is given twice, two threads would read its file at once
    except Exception as error:  # Pillow's decoders raise nearly anything on damaged data
        why = f"Pillow cannot decode it ({error})"
        raise ImageError(name, why, "Give the path of the file instead.") from error
    # Ours: whoever gave it may show the next image in its place before this one is looked at, as
    # the frames of a film are.
    return MemoryImage(image.copy(), name)


def _read(file: IOBase, name: str) -> object:
    """What an open file holds."""
    try:
        held: object = file.read()
    except (OSError, ValueError) as error:
        raise ImageError(name, f"the file cannot be read ({error})", "Open it anew.") from error
    if isinstance(held, str):
        raise ImageError(name, "the file was opened as text", 'Open it with mode "rb".')
    return held


def _from_array(array: npt.NDArray[Any], name: str) -> Image.Image:
    """An image of the array's values; kinds of which the meaning must be guessed are refused."""
    shape = array.shape
    if array.dtype != np.uint8 or not (len(shape) == 2 or (len(shape) == 3 and shape[2] in (3, 4))):
        raise ImageError(name, f"an array of {array.dtype} {shape} is no image", ARRAYS)
    if 0 in shape:
        raise ImageError(name, f"an array of shape {shape} has no pixels", ARRAYS)
    return Image.fromarray(array)
