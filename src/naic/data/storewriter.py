"""The feature store, for writing: shard by shard, so that a killed run goes on where it was.

A shard is the unit of work. It appears whole or not at all, and holds all that is known about its
images, the errors too. So the files that describe the whole store can be made from the shards at
the end, and a store that was killed and resumed is byte for byte the one that was not.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save

from naic.data.features import FORMAT, Features, FeatureStore, map_shard
from naic.data.records import Problem, Record
from naic.errors import StoreError
from naic.files import remove_temporaries, write_atomically


@dataclass(frozen=True, slots=True)
class ShardPart:
    """Features of one image, by its position among the records."""

    position: int
    features: Features  # (R, F)


class StoreWriter:
    """Writes a store for `records`; the caller holds the folder's lock (`files.locked`)."""

    def __init__(
        self,
        folder: Path,
        records: Sequence[Record],
        settings: dict[str, Any],
        per_shard: int,
    ) -> None:
        self.folder = folder
        self.records = records
        self.settings = settings
        self.per_shard = per_shard
        self.leftovers = remove_temporaries(folder)
        self._keep_plan()
        count = -(-len(records) // per_shard)
        self.done: list[int] = [n for n in range(count) if self._is_whole(n)]
        self.missing: list[int] = sorted(set(range(count)) - set(self.done))

    def span(self, number: int) -> range:
        """Positions of the records that belong to a shard."""
        first = number * self.per_shard
        return range(first, min(first + self.per_shard, len(self.records)))

    def write(
        self, number: int, parts: Sequence[ShardPart], errors: Iterable[tuple[int, Problem]]
    ) -> None:
        """Write one shard: the images that have features, and why the others have none."""
        lengths = [len(part.features) for part in parts]
        features = (
            np.concatenate([part.features for part in parts])
            if parts
            else np.empty((0, self.settings["dim"]), np.float16)
        )
        if not np.isfinite(features).all():
            raise StoreError(
                str(self._path(number)),
                "some features do not fit float16",
                "Use another backbone, or scale its output.",
            )
        note = {
            "positions": [part.position for part in parts],
            "errors": [[position, p.where, p.why, p.hint] for position, p in errors],
        }
        data = save(
            {"features": features, "ends": np.cumsum(lengths, dtype=np.int64)},
            # One key only: the library writes several in no fixed order.
            {"naic": json.dumps(note)},
        )
        write_atomically(self._path(number), data)

    def finish(self, problems: Sequence[Problem] = ()) -> FeatureStore:
        """Describe the whole store from its shards; `problems` are the reader's."""
        lines, errors, shards = [], [_line(_problem(p)) for p in problems], []
        for number in range(-(-len(self.records) // self.per_shard)):
            shard, note = map_shard(self._path(number))
            lines += [_line(_row(self.records[position])) for position in note["positions"]]
            errors += [_line(_problem(Problem(*error[1:]))) for error in note["errors"]]
            name = self._path(number).name
            shards.append({"file": name, "images": len(shard), "regions": len(shard.features)})
        index = {
            "format": FORMAT,
            **self.settings,
            "images": len(lines),
            "errors": len(errors),
            "shards": shards,
        }
        write_atomically(self.folder / "records.jsonl", "".join(lines).encode())
        write_atomically(self.folder / "errors.jsonl", "".join(errors).encode())
        write_atomically(self.folder / "index.json", _pretty(index))
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
        path = self.folder / "plan.json"
        if not path.exists():
            if any(self.folder.iterdir()):
                raise StoreError(
                    str(self.folder),
                    "is not empty and holds no feature store",
                    "Choose a new folder for --out.",
                )
            write_atomically(path, _pretty(plan))
            return
        try:
            found = json.loads(path.read_bytes())
        except (OSError, ValueError) as error:
            raise StoreError(
                str(path), f"cannot be read ({error})", "Choose a new --out."
            ) from error
        different = [
            key for key in plan if not isinstance(found, dict) or found.get(key) != plan[key]
        ]
        if different:
            raise StoreError(
                str(self.folder),
                f"holds features made with another {', '.join(different)}",
                "Choose a new folder for --out, or use the same settings and data as before.",
            )


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


def _problem(problem: Problem) -> dict[str, str]:
    return {"where": problem.where, "why": problem.why, "hint": problem.hint}


def _line(value: dict[str, Any]) -> str:
    # Escaped to ASCII: a file name that is no valid UTF-8 could not be written otherwise.
    return json.dumps(value) + "\n"


def _pretty(value: dict[str, Any]) -> bytes:
    return (json.dumps(value, indent=2) + "\n").encode()
