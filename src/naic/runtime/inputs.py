"""What a captioner is handed: images of any kind, pixels, and what its engine proposes."""

import threading
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from naic.errors import CheckpointError, ConfigError
from naic.images.sources import ImageLike, ImageSource, any_source, is_one
from naic.runtime.sentences import Proposals

# A Pillow image is read from its file when it is first used: if two threads hand over the same
# one, not both at once.
_READING = threading.Lock()


def check_pixels(pixels: npt.NDArray[np.uint8], side: int) -> None:
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


def as_source(image: ImageLike, number: int) -> ImageSource:
    """Any image as one that can be loaded; `number` names it if it has no name."""
    with _READING:
        return any_source(image, number)


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
