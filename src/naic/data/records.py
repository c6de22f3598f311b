"""The one record type that every reader gives, and how bad rows are kept track of."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from PIL.Image import Image

from naic.errors import DataError


class ImageSource(Protocol):
    """Where an image comes from: a file, a member of a tar, a scene to be drawn."""

    @property
    def name(self) -> str:
        """What to call the image in a message: its path, or the nearest thing to one."""
        ...

    def load(self, at_least: int | None = None) -> Image:
        """The image, upright and RGB; raises ImageError.

        With `at_least` the caller promises to shrink the result to that many pixels a side, so
        a JPEG may be decoded at a lower resolution.
        """
        ...


@dataclass(frozen=True, slots=True)
class Record:
    """An image, the captions people gave it, and the split it belongs to."""

    id: str
    image: ImageSource
    captions: tuple[str, ...] = ()  # empty: an unlabelled image
    split: str = ""  # empty: the source names no split
    facts: Mapping[str, object] | None = None  # what is truly in the image, where it is known


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be used: where it is, why, and what to do."""

    where: str
    why: str
    hint: str


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
