"""Further views of images: mirrored, or a part enlarged; twins with ids of their own.

A twin has the captions of its image, and stands after all first views in a store. Whoever counts
images or words leaves it out (`FeatureStore.first_views`).
"""

import hashlib
import struct
from collections.abc import Collection, Sequence
from dataclasses import replace

from naic.data.features import CROPPED_ID, MIRRORED_ID
from naic.data.records import Record
from naic.images.sources import Cropped, Mirrored

CROP = 0.85  # the least part of each side that is left: mild, as what trained the shipped backbone
Box = tuple[float, float, float, float]


def crop_box(id_: str) -> Box:
    """The part of an image that its cropped twin shows: drawn by its id, so always the same one.

    Left, top, right and bottom as shares of the sides. Each side has from `CROP` to all of the
    image's, independently, and every place that is left is as likely: `backbones.patches.vary`.
    """
    drawn = struct.unpack("<4I", hashlib.sha256(f"crop {id_}".encode()).digest()[:16])
    across, down, right, below = (number / 2**32 for number in drawn)
    width, height = CROP + (1 - CROP) * across, CROP + (1 - CROP) * down
    left, top = (1 - width) * right, (1 - height) * below
    return left, top, left + width, top + height


def twins(
    records: Sequence[Record], mirror: Collection[str] = (), crop: Collection[str] = ()
) -> list[Record]:
    """The twins of the images of these splits: all mirrored ones, then all cropped ones."""
    mirrored = [
        replace(r, id=f"{r.id}{MIRRORED_ID}", image=Mirrored(r.image), facts=None)
        for r in records
        if r.split in mirror
    ]
    cropped = [
        replace(r, id=f"{r.id}{CROPPED_ID}", image=Cropped(r.image, crop_box(r.id)), facts=None)
        for r in records
        if r.split in crop
    ]
    return [*mirrored, *cropped]
