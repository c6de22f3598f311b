"""A captioner that knows four photos: what the model inside naic says of them, without a model."""

from pathlib import Path
from typing import Any

import numpy as np
import skimage

from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.runtime.sentences import Alternative, Caption, Word
from tests.serve.standing import SIDE, StandIn

FOLDER = Path(skimage.__file__).parent / "data"
# Of scikit-image, in the public domain or under CC0; how sure, the caption, and what else.
SAID: dict[str, tuple[float, tuple[str, ...]]] = {
    "rocket.jpg": (
        0.4317,
        (
            "a monument ship sitting in the sky in the background",
            "a fighter jet sitting in the sky in the background",
            "a monument ship sitting in the sky in the sky",
            "a fighter jet sitting in the sky in the sky",
        ),
    ),
    "coffee.png": (
        0.6123,
        (
            "a cup of coffee on a red plate",
            "a cup of coffee on a red plate on a table",
            "a cup of coffee sitting on a red plate",
            "a cup of coffee on a plate on a table",
        ),
    ),
    "astronaut.png": (
        0.6233,
        (
            "a woman wearing a helmet and a motorcycle",
            "a woman wearing a helmet and a helmet",
            "a woman in a helmet and a motorcycle",
            "a woman wearing a helmet standing and a motorcycle",
        ),
    ),
    "chelsea.png": (
        0.6964,
        (
            "a cat sitting on top of a table",
            "a cat laying on top of a table",
            "a cat sitting on top of a bed",
            "a cat sitting on top of a room",
        ),
    ),
}
SURE = 0.8  # of all others, which come last when the least sure is first


class Knowing(StandIn):
    """Says of the sample photos what is known, and of others what colour they are."""

    def __init__(self) -> None:
        super().__init__()
        opened = {name: open_image((FOLDER / name).read_bytes()) for name in SAID}
        self._known = {name: square_pixels(image, SIDE) for name, image in opened.items()}

    def say(
        self, pixels: "np.ndarray[Any, Any]", *, alternatives: int = 0, **wishes: Any
    ) -> list[Caption]:
        """What it sees."""
        others = super().say(pixels, alternatives=alternatives, **wishes)
        return [self._one(image, other.text) for image, other in zip(pixels, others, strict=True)]

    def _one(self, pixels: "np.ndarray[Any, Any]", colour: str) -> Caption:
        sure = SURE
        texts: tuple[str, ...] = (f"a wall of colour {colour}",)
        for name, own in self._known.items():
            if np.abs(own.astype(int) - pixels).mean() < 8:
                sure, texts = SAID[name]
        told = tuple(Alternative(text, sure / n) for n, text in enumerate(texts, 1))
        words = tuple(Word(word, 1.0, ()) for word in texts[0].split())
        return Caption(texts[0], words, sure, told, sure, calibrated=True)
