"""Which features belong to which record: by id, by file name, or by the number in COCO's names."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

from naic.data.readers.textfiles import list_under, read_json_object
from naic.data.records import Problems, Record
from naic.data.regions.fields import Regions, RegionSource, Size
from naic.errors import ConfigError, DataError
from naic.files import printable, what_is
from naic.images.formats import without_suffix

FORMATS = ("npz", "tsv", "hdf5", "lmdb", "tar", "arrow")
_COCO = re.compile(r"(?:.*_)?(\d{12})")  # the end of COCO's file names
_IN_FOLDERS = {
    "tsv": ("*.tsv", "*.tsv.*"),
    "hdf5": ("*.hdf5", "*.h5"),
    "tar": ("*.tar",),
    "arrow": ("*.parquet", "*.arrow"),
}


class Place(NamedTuple):
    """Where an image's regions are: in which source, the how many-th, and under which name."""

    source: int
    number: int
    key: str


@dataclass(frozen=True)
class Features:
    """The regions of a dataset's images.

    Attributes:
        sources: the files and folders they are in.
        places: of each record.
        unused: how many images have features there and no record.
        sizes: of images by their names, for boxes in pixels.
    """

    sources: Sequence[RegionSource]
    places: Sequence[Place]
    unused: int
    sizes: Mapping[str, Size]

    def read(self, place: Place) -> tuple[Regions, Size | None]:
        """The regions there, and the size of their image if another file tells it."""
        found = (self.sizes[name] for name in spellings(place.key) if name in self.sizes)
        return self.sources[place.source].read(place.key), next(found, None)

    def where(self, place: Place) -> str:
        """What to call it in errors."""
        return f"{printable(self.sources[place.source].where)}, {printable(place.key)}"


def open_sources(named: Sequence[str]) -> list[RegionSource]:
    """The sources `FORMAT:PATH`; a folder of a format of single files stands for all in it."""
    sources = []
    for name in named:
        kind, colon, path = name.partition(":")
        if not colon or kind not in FORMATS:
            why = f"{printable(name)!r} does not begin with a format"
            hint = f"Write npz:FOLDER, tsv:FILE and so on. Formats: {', '.join(FORMATS)}."
            raise ConfigError("--features", why, hint)
        if what_is(Path(path)) == "missing":
            raise DataError(printable(path), "there is no such file or folder", "Check the path.")
        opener = _opener(kind)
        sources += [opener(own) for own in _files(kind, Path(path))]
    return sources


def _files(kind: str, path: Path) -> Sequence[Path]:
    patterns = _IN_FOLDERS.get(kind)
    if patterns is None or not path.is_dir():
        return [path]
    if found := sorted(own for pattern in patterns for own in path.glob(pattern)):
        return found
    why = f"the folder has no {kind} file ({', '.join(patterns)})"
    raise DataError(printable(str(path)), why, "Name the files themselves.")


def _opener(kind: str) -> Callable[[Path], RegionSource]:
    """The class for a format, imported when it is asked for."""
    match kind:
        case "npz":
            from naic.data.regions.folders import FolderSource

            return FolderSource
        case "tsv":
            from naic.data.regions.tsv import TsvSource

            return TsvSource
        case "hdf5":
            from naic.data.regions.hdf5 import Hdf5Source

            return Hdf5Source
        case "lmdb":
            from naic.data.regions.databases import LmdbSource

            return LmdbSource
        case "tar":
            from naic.data.regions.archives import TarSource

            return TarSource
        case _:
            from naic.data.regions.columns import ColumnSource

            return ColumnSource


def spellings(key: str) -> list[str]:
    """What an image may be called elsewhere, if it is called so here.

    `val2014/COCO_val2014_000000391895.jpg` is also that without folder and suffix, and 391895.
    """
    base = key.replace("\\", "/").rpartition("/")[2]
    plain = without_suffix(base)
    number = _COCO.fullmatch(plain)
    names = [key, without_suffix(key), base, plain, *([str(int(number[1]))] if number else [])]
    return list(dict.fromkeys(names))


def find_features(
    named: Sequence[str], sizes: Sequence[Path], records: Sequence[Record], problems: Problems
) -> tuple[list[Record], Features]:
    """The records that have features, and where these are; the others are told to `problems`.

    They come in the order of the files: a disk reads on, and a group of rows is unpacked once.
    """
    sources = open_sources(named)
    places: dict[str, Place] = {}
    images = 0
    for number, source in enumerate(sources):
        own = _by_names(number, source.keys())
        for name, place in own.items():  # of one image in two files the first counts
            images += place.key == name and name not in places
            places.setdefault(name, place)
    found: list[tuple[Place, Record]] = []
    claimed: dict[Place, str] = {}
    for record in records:
        place_of = _place(record, places)
        if place_of is None:
            hint = (
                "Name what has them with --features, too, or one folder if several have the name."
            )
            why = f"there are no features of {printable(record.image.name)}"
            problems.add(f"image {printable(record.id)}", why, hint, "image without features")
        elif (other := claimed.setdefault(place_of, record.id)) != record.id:
            why = f"the features under {place_of.key!r} are those of {printable(other)}, too"
            hint = "Give images names that differ in more than their folder."
            problems.add(f"image {printable(record.id)}", why, hint, "features of two images")
        else:
            found.append((place_of, record))
    found.sort(key=itemgetter(0))
    of_each = [place for place, _ in found]
    features = Features(sources, of_each, images - len(found), read_sizes(sizes))
    return [record for _, record in found], features


def _by_names(number: int, keys: Sequence[str]) -> dict[str, Place]:
    """Places in a source by all names of its images; what two could be called means neither."""
    exact: dict[str, Place] = {}
    others: dict[str, Place | None] = {}
    for count, key in enumerate(keys):
        exact[key] = Place(number, count, key)
        for name in spellings(key):
            others[name] = None if name in others else exact[key]
    return {name: place for name, place in others.items() if place is not None} | exact


def _place(record: Record, places: Mapping[str, Place]) -> Place | None:
    for name in (record.id, *spellings(record.image.name)):
        if name in places:
            return places[name]
    return None


def read_sizes(files: Sequence[Path]) -> dict[str, Size]:
    """Width and height of images, by all their names, from JSON files like COCO's annotations.

    Each file has a list `images` of objects with `width`, `height`, and `id` or `file_name` (also
    as `file_path`): COCO's own, and the `cocotalk.json` of captioners made after Karpathy's.
    """
    sizes: dict[str, Size] = {}
    for file in files:
        for row in list_under(read_json_object(file), "images", file):
            if not isinstance(row, dict):
                continue
            width, height = row.get("width"), row.get("height")
            if not isinstance(width, int | float) or not isinstance(height, int | float):
                continue
            for name in ("id", "file_name", "file_path"):
                if isinstance(row.get(name), str | int):
                    for own in spellings(str(row[name])):
                        sizes.setdefault(own, (float(width), float(height)))
    if files and not sizes:
        why = "there is no image with width and height in it"
        raise DataError(printable(str(files[0])), why, "Name captions_*.json or cocotalk.json.")
    return sizes
