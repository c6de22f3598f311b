"""Captions photos that no model of naic was trained on; the first part of `make demo`.

python benchmarks/demo_photos.py [--model DIR]

They are the photographs of people, animals and things that come inside scikit-image's wheel: all of
them, so that nobody chose those that turn out well.
"""

import importlib.metadata
import importlib.util
import sys
from pathlib import Path

import tyro

from naic.errors import ImageError, NaicError
from naic.runtime.captioner import Caption, Captioner

# As the documentation of skimage.data tells it.
PHOTOS = {
    "astronaut.png": "Eileen Collins; NASA, public domain",
    "camera.png": "a man with a camera; Lav Varshney, CC0",
    "chelsea.png": "Chelsea the cat; Stefan van der Walt, CC0",
    "clock_motion.png": "a wall clock, blurred; Stefan van der Walt, public domain",
    "coffee.png": "a cup at Pikolo Espresso Bar; Rachel Michetti, CC0",
    "coins.png": "coins from Pompeii; Brooklyn Museum, no known restrictions",
    "motorcycle_left.png": "a motorcycle; Middlebury College, stereo benchmark of 2014",
    "rocket.jpg": "the start of a Falcon 9; SpaceX, public domain",
}


def photos() -> list[Path]:
    """Where the installed package has them; nothing is fetched."""
    found = importlib.util.find_spec("skimage")
    if found is None or not found.submodule_search_locations:
        sys.exit("demo_photos: scikit-image is not installed. Run: pip install 'naic[dev]'")
    folder = Path(found.submodule_search_locations[0]) / "data"
    return [folder / name for name in PHOTOS]


def show(photo: Path, said: Caption | ImageError) -> None:
    print(f"\n{photo.name} ({PHOTOS[photo.name]})")
    if isinstance(said, ImageError):
        print(f"  {said}")
    else:
        print(f"  {said.text}")
        words = "  ".join(f"{word.text} {word.confidence:.0%}" for word in said.words)
        print(f"  {words}")


def main(model: Path | None = None) -> None:
    """Caption the photos, and show how sure the model is of each word.

    Args:
        model: A model folder; by default the model inside naic.
    """
    images = photos()
    version = importlib.metadata.version("scikit-image")
    try:
        captioner = Captioner(model)
        print(
            f"{len(PHOTOS)} photos that come inside scikit-image {version}, in no training split."
        )
        for photo, said in zip(images, captioner.each(images), strict=True):
            show(photo, said)
    except NaicError as error:
        sys.exit(f"demo_photos: {error}")


if __name__ == "__main__":
    tyro.cli(main)
