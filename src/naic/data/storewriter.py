"""The feature store, for writing: shard by shard, so that a run that was killed can be resumed.

A shard is the unit of work. It appears whole or not at all, and holds all that is known about its
images, the errors too. So the files that describe the whole store can be made from the shards at
the end, and a store that was killed and resumed is byte for byte the one that was not.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from naic.data.features import FORMAT, KINDS, Features, FeatureStore, map_shard
from naic.data.records import Record
from naic.errors import Problem, StoreError
from naic.files import remove_temporaries, safetensors_header, write_atomically
from naic.resume import keep_request, pretty

DESCRIPTIONS = ("plan.json", "records.jsonl", "errors.jsonl", "index.json")


@dataclass(frozen=True, slots=True)
class ShardRows:
    """The images of a shard that have features."""

    positions: list[int]  # among the records
    lengths: list[int]  # how many regions each image has
    features: Features  # (all regions end to end, F)


class StoreWriter:
    """Writes a store for `records`; the caller holds the folder's lock (`resume.locked`)."""

    def __init__(
        self,
        folder: Path,
        records: Sequence[Record],
        settings: dict[str, Any],
        per_shard: int,
        *,
        notes: Mapping[str, Any] = MappingProxyType({}),
        retry_bad: bool = False,
    ) -> None:
        """With `retry_bad`, shards with images that could not be used count as missing.

        `notes` follow the settings in the index; a store that was begun without them is gone on
        with all the same.
        """
        self.folder = folder
        self.records = records
        self.settings = settings
        self.notes = notes
        self.per_shard = per_shard
        self._retry_bad = retry_bad
        self._keep_plan()
        remove_temporaries(folder, *DESCRIPTIONS, "shard-*.safetensors")
        count = -(-len(records) // per_shard)
        self.done: list[int] = [n for n in range(count) if self._is_whole(n)]
        self.missing: list[int] = sorted(set(range(count)) - set(self.done))

    def span(self, number: int) -> range:
        """Positions of the records that belong to a shard."""
        first = number * self.per_shard
        return range(first, min(first + self.per_shard, len(self.records)))

    def write(self, number: int, rows: ShardRows, errors: Iterable[tuple[int, Problem]]) -> None:
        """Write one shard: the images that have features, and why the others have none."""
        note = {
            "positions": rows.positions,
            "errors": [[position, p.where, p.why, p.hint] for position, p in errors],
        }
        path = self._path(number)
        chunks = shard_chunks(path.name, rows.features, rows.lengths, self.settings["dtype"], note)
        write_atomically(path, *chunks)

    def finish(self, problems: Sequence[Problem] = ()) -> FeatureStore:
        """Describe the whole store from its shards; `problems` are the reader's."""
        lines, errors, shards = [], [_line(asdict(p)) for p in problems], []
        counts = set[int]()
        for number in range(-(-len(self.records) // self.per_shard)):
            shard, note = map_shard(self._path(number))
            lines += [_line(_row(self.records[position])) for position in note["positions"]]
            errors += [_line(asdict(Problem(*error[1:]))) for error in note["errors"]]
            name = self._path(number).name
            shards.append({"file": name, "images": len(shard), "regions": len(shard.features)})
            counts |= {int(count) for count in np.diff(shard.ends, prepend=0)}
        described = dict(self.settings)
        # where an image's number of regions is no setting: the fewest, and the most
        described.setdefault("regions", [min(counts, default=0), max(counts, default=0)])
        index = {
            "format": FORMAT,
            **described,
            **self.notes,
            "images": len(lines),
            "errors": len(errors),
            "shards": shards,
        }
        write_atomically(self.folder / "records.jsonl", "".join(lines).encode())
        write_atomically(self.folder / "errors.jsonl", "".join(errors).encode())
        write_atomically(self.folder / "index.json", pretty(index))
        return FeatureStore(self.folder)

    def _path(self, number: int) -> Path:
        return self.folder / f"shard-{number:05d}.safetensors"

    def _is_whole(self, number: int) -> bool:
        """Whether a shard is there and complete; one that is damaged is made again."""
        try:
            shard, note = map_shard(self._path(number))
            known = [*note["positions"], *(error[0] for error in note["errors"])]
        except (StoreError, KeyError, TypeError):
            return False
        if self._retry_bad and note["errors"]:
            return False
        return sorted(known) == list(self.span(number)) and len(shard) == len(note["positions"])

    def _keep_plan(self) -> None:
        """Write down what this store is made of, or refuse a folder made of something else."""
        plan = {
            "format": FORMAT,
            **self.settings,
            "records": len(self.records),
            "per_shard": self.per_shard,
            "list of images and captions": _digest(self.records),
        }
        keep_request(self.folder / "plan.json", plan, "feature store")


def shard_chunks(
    name: str, features: Features, lengths: Sequence[int], dtype: str, note: Mapping[str, Any]
) -> tuple[bytes | memoryview, ...]:
    """The bytes of a shard of features (all regions end to end, F).

    Args:
        name: the shard's, for a message.
        features: those of all images.
        lengths: how many regions each image has.
        dtype: one of `KINDS`.
        note: what its header says of the images.

    Raises:
        StoreError: a number is too large for float16.
    """
    kind, own = KINDS[dtype]
    features = np.ascontiguousarray(features, own)
    if kind == "F16" and not _finite(features):
        hint = "Use another backbone, or scale its output."
        raise StoreError(name, "some features do not fit float16", hint)
    ends = np.cumsum(lengths, dtype="<i8")
    header = safetensors_header(
        [
            ("features", kind, features.shape, features.nbytes),
            ("ends", "I64", ends.shape, ends.nbytes),
        ],
        {"naic": json.dumps(note)},
    )
    return header, features.data, ends.data


def _finite(features: Features) -> bool:
    """Whether no number overflowed: in float16, infinities and NaN have all exponent bits set.

    On the bits, since numpy's own test of float16 is ten times as slow; in pieces that fit the
    cache, since the network wants the memory bandwidth at the same time.
    """
    exponent = np.uint16(0x7C00)
    bits = features.view("<u2").reshape(-1)
    pieces = (bits[start : start + 2**17] for start in range(0, len(bits), 2**17))
    return all((piece & exponent).max() < exponent for piece in pieces)


def _digest(records: Sequence[Record]) -> str:
    """Names the exact list of records, so that a store never mixes two of them."""
    state = hashlib.sha256()
    for record in records:
        state.update(_line(_row(record)).encode())
    return state.hexdigest()


def _row(record: Record) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": record.id,
        "image": record.image.name,
        "split": record.split,
        "captions": list(record.captions),
    }
    return row | {"facts": record.facts} if record.facts is not None else row


def _line(value: dict[str, Any]) -> str:
    # Escaped to ASCII: a file name that is no valid UTF-8 could not be written otherwise.
    return json.dumps(value) + "\n"
