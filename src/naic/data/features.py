"""The feature store, for reading: safetensors shards, a JSON index, everything memory-mapped.

A store is a folder:

    plan.json                  what it is made of: settings and a digest of the records
    shard-00000.safetensors    `features` (regions, F), `ends` int64 (images,)
    records.jsonl              one line an image, in the order of the features
    errors.jsonl               one line for each image or row that could not be used
    index.json                 written last: a store without it is not finished

Images may have different numbers of regions (ragged), so a shard lays all regions end to end and
`ends[i]` says where image i stops. Features are float16; pixels, for a model with a backbone
inside, are uint8.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import numpy.typing as npt

from naic.errors import ConfigError, StoreError
from naic.files import printable

if TYPE_CHECKING:
    from naic.data.joined import AnyStore

FORMAT = 1
Features = npt.NDArray[np.float16] | npt.NDArray[np.uint8]
KINDS = {
    "float16": ("F16", "<f2"),
    "uint8": ("U8", "|u1"),
}  # a store's dtype, in a shard and in numpy
# How a further view of an image is marked (`naic prepare --mirror`, `--crop`): ends of its id and
# name. The latter are those of `images.sources`, which reading a store does not need.
MIRRORED_ID, MIRRORED_NAME = "-mirrored", " (mirrored)"
CROPPED_ID, CROPPED_NAME = "-cropped", " (cropped)"
View = Literal["first", "mirrored", "cropped"]
_FURTHER: tuple[tuple[View, str, str], ...] = (
    ("mirrored", MIRRORED_ID, MIRRORED_NAME),
    ("cropped", CROPPED_ID, CROPPED_NAME),
)
IMPORTED = "imported"  # in the index, as backbone: features that were there already
BOX_NUMBERS = 4  # left, top, right and bottom: the last numbers of a region in a store with boxes
PLUGIN = "plugin"  # in the index of a store: the module that its backbone came from, for people
_ARRAYS = {**dict(KINDS.values()), "I64": "<i8"}
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """What a store keeps of a record beside its features."""

    id: str
    image: str
    split: str
    captions: tuple[str, ...]
    facts: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Shard:
    """One memory-mapped file: the regions of its images end to end, and where each image ends."""

    features: Features  # (regions, F)
    ends: npt.NDArray[np.int64]  # (images,)

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, row: int) -> Features:
        start = self.ends[row - 1] if row else 0
        return self.features[start : self.ends[row]]


def map_shard(path: Path) -> tuple[Shard, dict[str, Any]]:
    """A shard as arrays that lie in the file, and the note its writer put in its header."""
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            header_size = int.from_bytes(file.read(8), "little")
            # A damaged length must not make us read the whole file: the JSON then fails instead.
            header = json.loads(file.read(min(header_size, size)))
        note = json.loads(header["__metadata__"]["naic"])
        base = 8 + header_size
        arrays = {
            name: _map_tensor(path, base, header[name], kinds, size)
            for name, kinds in (("features", ("F16", "U8")), ("ends", ("I64",)))
        }
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(
            str(path), f"is not a whole shard ({error})", "Delete it and run prepare again."
        ) from error
    return Shard(arrays["features"], arrays["ends"]), note


def _map_tensor(
    path: Path, base: int, entry: dict[str, Any], kinds: tuple[str, ...], size: int
) -> npt.NDArray[Any]:
    """One tensor of a safetensors file, without reading it."""
    if entry["dtype"] not in kinds:
        raise ValueError(f"it holds {entry['dtype']} where {' or '.join(kinds)} belongs")
    dtype = np.dtype(_ARRAYS[entry["dtype"]])
    start, end = entry["data_offsets"]
    shape = tuple(entry["shape"])
    if end - start != dtype.itemsize * int(np.prod(shape, dtype=np.int64)):
        raise ValueError("its header contradicts itself")
    if base + end > size:
        raise ValueError("it is cut off")
    if start == end:  # nothing to map, and mmap refuses an empty range
        return np.empty(shape, dtype)
    return np.memmap(path, dtype, "r", base + start, shape)


class FeatureStore:
    """A finished store: `store[i]` has the features of image i, `store.records[i]` the rest."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.index = _read_index(self.folder)
        self._shards: dict[int, Shard] = {}
        counts = [shard["images"] for shard in self.index["shards"]]
        self._firsts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def __getitem__(self, row: int) -> Features:
        """Features (R, F) of one image: a view into the file, nothing is copied."""
        if not 0 <= row < len(self):
            raise IndexError(f"row {row} of a store of {len(self)}")
        number = int(np.searchsorted(self._firsts, row, side="right")) - 1
        return self._shard(number)[row - int(self._firsts[number])]

    def batch(self, rows: Sequence[int]) -> tuple[Features, Mask]:
        """Features (B, R, F), padded with zeros to the longest, and the mask (B, R) of the real."""
        longest = max((len(self[row]) for row in rows), default=0)
        return read_features(self, rows, longest)

    @property
    def stores(self) -> tuple["FeatureStore", ...]:
        """This one alone; several that are joined have more."""
        return (self,)

    def locate(self, row: int) -> tuple["FeatureStore", int]:
        """The store that an image lies in, and its row there."""
        return self, row

    @property
    def dim(self) -> int:
        """F, the size of a feature vector."""
        return int(self.index["dim"])

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the numbers are: float16, or uint8 for pixels."""
        return np.dtype(KINDS[self.index["dtype"]][1])

    @property
    def boxes(self) -> bool:
        """Whether the last four numbers of each region are its box, in shares of the sides."""
        return self.index.get("boxes") is True

    @property
    def origin(self) -> str:
        """What made the features, for people."""
        name, pixels = self.index["backbone"], self.index["pixels"]
        return f"{name} at {pixels} pixels" if pixels else str(name)

    def describe(self) -> str:
        """One line for people: how many, of what shape, how big, from which backbone."""
        index, regions = self.index, self.index["regions"]
        size = sum(shard["regions"] for shard in index["shards"]) * self.dim * self.dtype.itemsize
        if isinstance(regions, list):
            fewest, most = regions
            regions = most if fewest == most else f"{fewest} to {most}"
        dim = f"({self.dim - BOX_NUMBERS} + box)" if self.boxes else self.dim
        return (
            f"{len(self):,} images of {regions} x {dim} {index['dtype']}, "
            f"{size / 1e9:.3g} GB in {len(index['shards'])} shards, {self.origin}"
        )

    @cached_property
    def records(self) -> list[StoredRecord]:
        """Ids, splits and captions, in the order of the features."""
        records = list(_read_records(self.folder / "records.jsonl"))
        if len(records) != len(self):
            why = f"has {len(self)} rows of features but {len(records)} records"
            raise StoreError(str(self.folder), why, "Run prepare again into a new folder.")
        return records

    @cached_property
    def views(self) -> list[View]:
        """What each row shows of its image: "first" is the image itself."""
        names = {record.id: record.image for record in self.records}

        def view(own: StoredRecord) -> View:
            for found, end, name in _FURTHER:
                first = names.get(own.id.removesuffix(end))
                if own.id.endswith(end) and own.image == f"{first}{name}":
                    return found
            return "first"

        return [view(record) for record in self.records]

    @cached_property
    def first_views(self) -> list[bool]:
        """For each row whether it is the image itself, and no further view of an earlier row.

        A store made with `--mirror` or `--crop` holds an image several times; whoever counts
        images, or their words, counts these rows only.
        """
        return [view == "first" for view in self.views]

    def __reduce__(self) -> tuple[type["FeatureStore"], tuple[Path]]:
        """Another process opens the files again; the mapped arrays themselves do not travel."""
        return FeatureStore, (self.folder,)

    def _shard(self, number: int) -> Shard:
        if number not in self._shards:
            entry = self.index["shards"][number]
            shard, _ = map_shard(self.folder / entry["file"])
            own = (len(shard), shard.features.shape[1], shard.features.dtype)
            if own != (entry["images"], self.dim, self.dtype):
                why = "is not the shard that index.json tells of"
                hint = "Run prepare again into a new folder."
                raise StoreError(str(self.folder / entry["file"]), why, hint)
            self._shards[number] = shard
        return self._shards[number]


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / "index.json"
    if not path.exists():
        raise no_store(folder, "feature store", "naic prepare")
    try:
        index: dict[str, Any] = json.loads(path.read_bytes())
        version = index["format"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(str(path), f"cannot be read ({error})", "Run prepare again.") from error
    if str(version).startswith("naic-pseudo-captions"):
        why = "holds pseudo captions of `naic distil`, and no features"
        raise StoreError(str(folder), why, "Name the feature store that it was made from.")
    if version != FORMAT:
        raise StoreError(
            str(path), f"has format {version}, this naic reads {FORMAT}", "Run prepare again."
        )
    if str(index.get("dtype")) not in KINDS:
        why = f"has features of the kind {index.get('dtype')!r}, which this naic does not know"
        raise StoreError(str(path), why, "Run prepare again.")
    return index


def no_store(folder: Path, what: str, made_by: str) -> StoreError:
    """The error for a folder that holds no finished store; `made_by` is the command for one."""
    if (folder / "plan.json").exists():
        hint = f"Run the same `{made_by}` again to finish it."
        return StoreError(str(folder), f"the {what} in this folder is unfinished", hint)
    why = f"there is no {what} in this folder" if folder.is_dir() else "there is no such folder"
    return StoreError(str(folder), why, f"Make a {what} with `{made_by}`.")


def _read_records(path: Path) -> Iterator[StoredRecord]:
    try:
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                yield StoredRecord(
                    row["id"], row["image"], row["split"], tuple(row["captions"]), row.get("facts")
                )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(str(path), f"cannot be read ({error})", "Run prepare again.") from error


def read_features(
    store: "AnyStore", rows: Sequence[int] | npt.NDArray[np.int64], regions: int
) -> tuple[Features, Mask]:
    """(B, regions, F) features padded with zeros, and (B, regions) the mask of what is real.

    Unlike `FeatureStore.batch` the shape does not depend on the images: a step that was compiled
    or captured for it serves them all.
    """
    features = np.zeros((len(rows), regions, store.dim), store.dtype)
    mask = np.zeros((len(rows), regions), np.bool_)
    for i, row in enumerate(rows):
        own = store[int(row)]
        features[i, : len(own)] = own
        mask[i, : len(own)] = True
    return features, mask


def refuse_unknown(splits: Collection[str] | None, known: Counter[str]) -> None:
    """Raise a ConfigError if a split is asked for that the source does not have."""
    unknown = sorted(set(splits or ()) - set(known))
    if not unknown:
        return
    named = sorted(printable(split) for split in known if split)
    hint = f"Splits in the source: {', '.join(named)}." if named else "The source names no split."
    raise ConfigError("splits", f"there is no split {unknown[0]!r}", hint)
