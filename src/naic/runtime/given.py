"""What a captioner is given, looked at before a model is: images, pixels, and how many at once."""

import threading
from collections.abc import Iterable, Iterator
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from naic.errors import ConfigError, ImageError
from naic.images.sources import ImageLike, ImageSource, any_source, is_one

Pixels: TypeAlias = npt.NDArray[np.uint8]
Told = TypeVar("Told")
MOST_AT_ONCE = 4096
# A Pillow image is read from its file when it is first used: if two threads hand over the same
# one, not both at once.
_READING = threading.Lock()


def check_several(images: object, batch: int) -> None:
    """Refuse one image where several are to be named, and batches that cannot be."""
    if is_one(images):
        raise ConfigError("images", "this is one image, not several", "Give a list: [it].")
    if not 1 <= batch <= MOST_AT_ONCE:
        raise ConfigError("batch", f"{batch} is not from 1 to {MOST_AT_ONCE:,}", "Try 16.")


def check_pixels(pixels: Pixels, side: int) -> None:
    """Refuse what is not uint8 (B, side, side, 3)."""
    own = isinstance(pixels, np.ndarray)
    if not own or pixels.dtype != np.uint8 or pixels.shape[1:] != (side, side, 3):
        found = f"{pixels.dtype} {pixels.shape}" if own else type(pixels).__name__
        why = f"{found} is not uint8 (B, {side}, {side}, 3)"
        hint = "Use naic.images.converting.square_pixels, or hand over the images: caption()."
        raise ConfigError("pixels", why, hint)


def as_several(images: ImageLike | Iterable[ImageLike]) -> Iterable[ImageLike]:
    """The images themselves, or the one image in a list."""
    return [images] if is_one(images) else images  # type: ignore[return-value, list-item]


def sources(images: Iterable[ImageLike]) -> Iterator[ImageSource]:
    """Where each image comes from, as they are taken."""
    for number, image in enumerate(images, 1):
        with _READING:
            source = any_source(image, number)
        yield source


def all_of(outcomes: Iterable[Told | ImageError]) -> list[Told]:
    """What was told of all images.

    Raises:
        ImageError: that of the first image that cannot be used.
    """
    told = []
    for outcome in outcomes:
        if isinstance(outcome, ImageError):
            raise outcome
        told.append(outcome)
    return told
