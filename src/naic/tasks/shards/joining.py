"""All shards of a folder as one store that `naic train` reads: the index, and what it tells of."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from naic import __version__
from naic.data.features import FORMAT, FeatureStore, map_shard
from naic.data.pseudo import FORMAT as PSEUDO
from naic.data.pseudo import INDEX, PseudoStore, described
from naic.errors import ConfigError, Problem, StoreError
from naic.files import write_atomically
from naic.resume import pretty
from naic.storage import is_remote, local
from naic.tasks.shards.folder import TEACHER, OutFolder
from naic.tasks.shards.inputs import Shard

Store = FeatureStore | PseudoStore


def join_store(out: OutFolder, shards: Sequence[Shard]) -> Store:
    """Describe these shards of a folder, which are all there, as one store.

    Only their headers, or lines, are read; nothing is copied. What comes out depends on the shards
    alone, so that it may be done again when there are more.

    Raises:
        ConfigError: the folder has captions, which need no index, or is not on this machine.
        StoreError: a shard is damaged, or made with other weights than the others.
    """
    if is_remote(out.where):
        hint = "Copy it here first (aws s3 sync); what trains reads features in place."
        raise ConfigError(out.where, "it is no folder of this machine", hint)
    if out.task == "caption":
        why = "captions in Parquet are no store: each file is whole by itself"
        raise ConfigError(out.where, why, 'Read them as they are: "DIR/*.parquet"')
    return _features(out, shards) if out.task == "prepare" else _pseudo(out, shards)


def _features(out: OutFolder, shards: Sequence[Shard]) -> FeatureStore:
    folder, settings = local(out.where), dict[str, Any]()
    records, errors, entries = list[str](), list[str](), list[dict[str, Any]]()
    for own in shards:
        path = local(out.output(own.name))
        shard, note = map_shard(path)
        settings = settings or note["settings"]
        if note["settings"] != settings:
            why = f"its features are not like those of {entries[0]['file']}"
            hint = "Delete the one that should not be, and run `naic shards prepare` again."
            raise StoreError(str(path), why, hint)
        records += [_line(_record(*image)) for image in note["images"]]
        problems = (Problem(where, why, "") for where, why in note["errors"])
        errors += [_line(asdict(problem)) for problem in problems]
        entries.append({"file": path.name, "images": len(shard), "regions": len(shard.features)})
    index = {
        "format": FORMAT,
        "reader": "shards",
        **settings,
        "images": len(records),
        "errors": len(errors),
        "shards": entries,
    }
    write_atomically(folder / "records.jsonl", "".join(records).encode())
    write_atomically(folder / "errors.jsonl", "".join(errors).encode())
    write_atomically(folder / INDEX, pretty(index))
    return FeatureStore(folder)


def _record(id_: str, image: str) -> dict[str, Any]:
    return {"id": id_, "image": image, "split": "", "captions": []}


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value) + "\n"


def _pseudo(out: OutFolder, shards: Sequence[Shard]) -> PseudoStore:
    folder = local(out.where)
    try:
        about = json.loads((folder / TEACHER).read_bytes())
    except (OSError, ValueError) as error:
        why = f"cannot be read ({error})"
        hint = "Run the same `naic shards distil` again."
        raise StoreError(str(folder / TEACHER), why, hint) from error
    entries = [described(local(out.output(shard.name))) for shard in shards]
    index = {
        "format": PSEUDO,
        **about,
        "splits": [],
        "images": sum(entry["images"] for entry in entries),
        "captions": sum(entry["captions"] for entry in entries),
        "naic": __version__,
        "shards": entries,
    }
    write_atomically(folder / INDEX, pretty(index))
    return PseudoStore(folder)
