"""Shards and models that are small enough to make in each test."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from naic.tasks.shards.rows import Columns, open_rows
from tests.data.readers import helpers
from tests.tasks.bad_files import jpeg


def make_tar(path: Path, members: Mapping[str, bytes] | Iterable[int]) -> Path:
    """A tar of these files; of numbers, the images of these numbers, each with a text beside it."""
    if not isinstance(members, Mapping):
        named = {f"{n:04d}": jpeg(n) for n in members}
        members = {
            f"{name}{suffix}": data
            for name, image in named.items()
            for suffix, data in ((".jpg", image), (".txt", b"a text"), (".json", b"{}"))
        }
    path.parent.mkdir(parents=True, exist_ok=True)
    return helpers.make_tar(path, members)


def make_parquet(file: Path, **columns: list[Any]) -> Path:
    """A Parquet file of these columns."""
    pq.write_table(pa.table(columns), file)
    return file


def keys(path: Path, **columns: str) -> list[str]:
    """What the images of a shard are known by; each that can be opened is opened."""
    with open_rows(str(path), Columns(**columns)) as rows:
        found = []
        for row in rows:
            row.image.load()
            found.append(row.key)
    return found


def captions(path: Path) -> list[dict[str, Any]]:
    """The rows of an output."""
    rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
    return rows
