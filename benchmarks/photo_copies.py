"""Is one of the photographs of docs/photos/photos.toml an image of COCO?

    python -m benchmarks.photo_copies --cache build/photos --coco train2017 \
        --captions dataset_coco.json.xz --out docs/results/photo-copies.json

Each image is squashed to 17 × 16 grey pixels, and each pixel compared with its right neighbour:
256 bits, which scaling, squashing and compressing hardly change. How many they do change is told by
a squashed copy of each photograph; two images that have nothing to do with each other differ in
about half. COCO's images are looked for as 000000000042.jpg; those of the captions' file are
compared, for no other is learnt from.
"""

import argparse
import io
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from benchmarks.photos import ALBUM, fetch, read_album
from numpy.typing import NDArray
from PIL import Image, ImageOps

from naic.data.readers.captions import read_captions
from naic.data.records import Problems

SIDE = 16
SMALL = (64, 64)  # a JPEG need not be decoded larger than that
SQUASHED = (256, 256)


def fingerprint(path: Path | io.BytesIO) -> NDArray[np.uint8]:
    """32 bytes that a copy of the image shares but for a few bits."""
    with Image.open(path) as image:
        image.draft("L", SMALL)
        grey = ImageOps.exif_transpose(image).convert("L")
    small = np.asarray(grey.resize((SIDE + 1, SIDE), Image.Resampling.BOX), dtype=np.int16)
    return np.packbits(small[:, 1:] > small[:, :-1])


def nearest(photos: dict[str, Path], others: Sequence[Path]) -> dict[str, int]:
    """For each photograph the bits in which the likest of the others differs from it."""
    prints = np.stack([fingerprint(path) for path in photos.values()])
    least = np.full(len(photos), 8 * prints.shape[1])
    for path in others:
        differing = np.bitwise_count(prints ^ fingerprint(path)).sum(axis=1)
        least = np.minimum(least, differing)
    return {name: int(bits) for name, bits in zip(photos, least, strict=True)}


def copied(path: Path) -> int:
    """The bits in which a copy differs that was squashed and written as a JPEG."""
    copy = io.BytesIO()
    with Image.open(path) as image:
        image.convert("RGB").resize(SQUASHED).save(copy, "JPEG")
    return int(np.bitwise_count(fingerprint(path) ^ fingerprint(copy)).sum())


def coco_images(folder: Path, captions: Path) -> list[Path]:
    read = read_captions(str(captions), problems=Problems())
    return [folder / f"{int(image.id):012d}.jpg" for image in read.images]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Look for copies of COCO's images.")
    parser.add_argument("--album", type=Path, default=ALBUM, help="the list of photographs")
    parser.add_argument("--cache", type=Path, required=True, help="as for photos.py")
    parser.add_argument("--coco", type=Path, required=True, help="a folder of COCO's images")
    parser.add_argument("--captions", type=Path, required=True, help="dataset_coco.json[.xz]")
    parser.add_argument("--out", type=Path, required=True, help="a JSON file to write")
    options = parser.parse_args(arguments)
    others = coco_images(options.coco, options.captions)
    photos = fetch(read_album(options.album), options.cache)
    found = {
        "images": len(others),
        "bits": SIDE * SIDE,
        "copied": {name: copied(path) for name, path in photos.items()},
        "nearest": nearest(photos, others),
    }
    options.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
