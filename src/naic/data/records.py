"""The one record type that every reader gives, and how bad rows are kept track of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from naic.errors import DataError, Problem
from naic.images.sources import ImageSource

ReaderName = Literal["karpathy", "coco", "flickr8k", "table", "folder", "shapes"]
READER_NAMES: tuple[ReaderName, ...] = get_args(ReaderName)
# What captions can be read with: the readers of images, and a finished feature store.
CaptionReader = Literal[ReaderName, "store"]


@dataclass(frozen=True, slots=True)
class Record:
    """An image, the captions people gave it, and the split it belongs to."""

    id: str
    image: ImageSource
    captions: tuple[str, ...] = ()  # empty: an unlabelled image
    split: str = ""  # empty: the source names no split
    facts: Mapping[str, object] | None = None  # what is truly in the image, where it is known


class Problems:
    """Decides what a bad row does: stop at once, or be counted and named in the report."""

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.items: list[Problem] = []

    def add(self, where: str, why: str, hint: str) -> None:
        """Note a bad row; unless bad rows are to be skipped, raise it as a DataError."""
        if not self.skip:
            raise DataError(where, why, f"{hint} Or pass --skip-bad to leave such rows out.")
        self.items.append(Problem(where, why, hint))
