"""Where an image comes from: a file, a member of a tar, bytes, or pixels in memory."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from io import IOBase
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

from naic.errors import ImageError
from naic.files import printable
from naic.images.containers import orientation_of
from naic.images.converting import CROPPED_NAME, MIRRORED_NAME, to_rgb, upright
from naic.images.opening import MAX_BYTES, MAX_PIXELS, look_at, open_image

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
# What an image is and where it lies, as JSON, and the bytes that go with it.
Described: TypeAlias = tuple[dict[str, Any], bytes]
ARRAYS = "Give uint8 values 0 to 255 of shape (height, width), (…, 3) for RGB or (…, 4) for RGBA."


def is_one(images: object) -> bool:
    """Whether this is an image where several were asked for.

    Text, bytes and arrays are sequences too: of letters, of numbers, of rows.
    """
    if isinstance(images, np.ndarray):
        return images.ndim <= len(("height", "width", "colours"))
    kinds = (str, bytes, bytearray, memoryview, os.PathLike, Image.Image, IOBase)
    return isinstance(images, kinds) or not isinstance(images, Iterable)


class ImageSource(Protocol):
    """Where an image comes from: a file, a member of a tar, a scene to be drawn."""

    @property
    def name(self) -> str:
        """What to call the image in a message: its path, or the nearest thing to one."""
        ...

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError.

        With `at_least` the caller promises to shrink the result to that many pixels a side, so
        a JPEG may be decoded at a lower resolution.
        """
        ...

    def describe(self) -> Described | None:
        """What another process needs to load it; None: it can be loaded in this one only."""
        ...


@dataclass(frozen=True, slots=True)
class FileImage:
    """An image in a file of its own."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return printable(str(self.path))

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError."""
        return open_image(self.path, name=self.name, at_least=at_least)

    def look_at(self) -> None:
        """Raise ImageError if it cannot be opened; most images are not decoded for it."""
        look_at(self.path, name=self.name)

    def describe(self) -> Described:
        """The path."""
        return {"file": str(self.path)}, b""


@dataclass(frozen=True, slots=True)
class TarImage:
    """An image inside an uncompressed tar, read by its offset without unpacking anything."""

    archive: Path
    member: str
    offset: int
    size: int

    @property
    def name(self) -> str:
        """The archive and the member, `photos.tar:a/b.jpg`."""
        return printable(f"{self.archive}:{self.member}")

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError."""
        return open_image(self._read(), name=self.name, at_least=at_least)

    def look_at(self) -> None:
        """Raise ImageError if it cannot be opened; most images are not decoded for it."""
        look_at(self._read(), name=self.name)

    def _read(self) -> bytes:
        """The bytes of the member.

        Each call opens the archive anew: threads and processes share no file position.
        """
        if self.size > MAX_BYTES:
            why = f"it has {self.size:,} bytes, more than {MAX_BYTES:,}"
            raise ImageError(self.name, why, "Check that it is an image.")
        try:
            with self.archive.open("rb", buffering=0) as file:
                data = os.pread(file.fileno(), self.size, self.offset)
        except OSError as error:
            why = f"the archive cannot be read ({error.strerror or error})"
            raise ImageError(self.name, why, "Check that the tar is still there.") from error
        if len(data) < self.size:
            why = f"the archive ends after {len(data)} of the image's {self.size} bytes"
            raise ImageError(self.name, why, "The tar changed or was cut; copy it again.")
        return data

    def describe(self) -> Described:
        """The archive, and where in it."""
        return {"tar": [str(self.archive), self.member, self.offset, self.size]}, b""


@dataclass(frozen=True, slots=True)
class Mirrored:
    """Another image, left and right exchanged."""

    image: ImageSource

    @property
    def name(self) -> str:
        """That of the image, and what was done to it."""
        return f"{self.image.name}{MIRRORED_NAME}"

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError."""
        return ImageOps.mirror(self.image.load(at_least))

    def describe(self) -> Described | None:
        """The other image."""
        described = self.image.describe()
        return described and ({"mirrored": described[0]}, described[1])


@dataclass(frozen=True, slots=True)
class Cropped:
    """A part of another image, enlarged to the whole: as a model's own crops, bilinear.

    Attributes:
        image: the other one.
        box: left, top, right and bottom of the part, as shares of the sides.
    """

    image: ImageSource
    box: tuple[float, float, float, float]

    @property
    def name(self) -> str:
        """That of the image, and what was done to it."""
        return f"{self.image.name}{CROPPED_NAME}"

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError."""
        left, top, right, bottom = self.box
        least = min(right - left, bottom - top)  # of what is decoded so much is left
        whole = self.image.load(None if at_least is None else int(at_least / least) + 1)
        width, height = whole.size
        box = (left * width, top * height, right * width, bottom * height)
        return whole.resize(whole.size, Image.Resampling.BILINEAR, box)

    def describe(self) -> Described | None:
        """The other image, and which part of it."""
        described = self.image.describe()
        return described and ({"cropped": [described[0], list(self.box)]}, described[1])


@dataclass(frozen=True, slots=True)
class BytesImage:
    """The bytes of an image file, and how many pixels it may have at most."""

    data: bytes
    name: str
    max_pixels: int = MAX_PIXELS

    def load(self, at_least: int | None = None) -> Image.Image:
        """The image, upright and RGB; raises ImageError."""
        return open_image(self.data, name=self.name, at_least=at_least, max_pixels=self.max_pixels)

    def describe(self) -> Described:
        """The bytes themselves."""
        return {"bytes": [self.name, self.max_pixels]}, self.data


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

    def describe(self) -> None:
        """Nothing: to send all pixels takes longer than to shrink them here."""


@dataclass(frozen=True, slots=True)
class NoImage:
    """What was handed over and is no image: the error comes in its place among the others."""

    name: str
    why: str
    hint: str

    def load(self, at_least: int | None = None) -> Image.Image:
        """Raises ImageError."""
        raise ImageError(self.name, self.why, self.hint)

    def describe(self) -> None:
        """Nothing."""


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
