"""What a captioner is given: images, pixels, room for them, and what its engine proposes."""

import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from naic.errors import CheckpointError, ConfigError, ImageError
from naic.images.sources import ImageLike, ImageSource, any_source, is_one
from naic.runtime.sentences import Proposals

Pixels: TypeAlias = npt.NDArray[np.uint8]
Told = TypeVar("Told")
MOST_AT_ONCE = 4096
# A Pillow image is read from its file when it is first used: if two threads hand over the same
# one, not both at once.
_READING = threading.Lock()
_ON_CPU = '--device cpu (in Python: device="cpu")'
_TOO_MANY = f"Lower it (in Python: each(images, batch=4)), or use {_ON_CPU}."


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


def check_proposals(said: Proposals, where: Path, precision: str) -> None:
    """Refuse words of which a model says nothing; `where` it came from, and in which numbers."""
    numbers = np.isfinite(said.log_probs[..., 0]).all() and not np.isnan(said.log_probs).any()
    if not numbers or (said.pairs is not None and not np.isfinite(said.pairs).all()):
        why = "it gives no probability to any word: its weights are no numbers"
        hint = "Use a whole copy of the model."
        if precision == "float16":
            why += ", or too large for float16"
            hint += ' Or compute with more: --runtime eager, or precision="bfloat16".'
        raise CheckpointError(str(where), why, hint)


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


@contextmanager
def enough_memory(batch: int, device: object) -> Iterator[None]:
    """Where these are run.

    Raises:
        ConfigError: `batch` images at once do not fit the memory of the device.
    """
    try:
        yield
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
        why = f"{batch} images at once do not fit the memory of {device}"
        raise ConfigError("--batch", why, _TOO_MANY) from error


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether the GPU was too small: then recording a graph ends in another error about that."""
    torch = sys.modules.get("torch")
    while error is not None and torch is not None:
        if isinstance(error, torch.OutOfMemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
