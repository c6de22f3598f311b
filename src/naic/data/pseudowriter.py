"""The pseudo-caption store, for writing: shard by shard, by one process or several.

A shard appears whole or not at all, and its bytes depend on nothing but the plan. So a run that was
cut off is resumed by making the missing shards, several runs may share the work, and should two of
them make the same shard, no harm is done.
"""

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from naic import __version__
from naic.data.pseudo import FORMAT, INDEX, VOCABULARY, PseudoStore, Taught, parse_shard
from naic.errors import StoreError
from naic.files import remove_temporaries, write_atomically
from naic.resume import keep_request, pretty
from naic.text import Vocabulary

# What may be there: the files of a store, and features that `naic distil --images` makes first.
OWN = ("plan.json*", "shard-*.jsonl*", "vocab.json*", "index.json*", "features", "features-*")


class PseudoWriter:
    """Writes a store for the images `ids`; the caller holds the folder's lock (`resume.locked`)."""

    def __init__(
        self, folder: Path, ids: Sequence[str], settings: dict[str, Any], per_shard: int
    ) -> None:
        """`settings` is what a resumed run must agree in."""
        self.folder = folder
        self.ids = ids
        self.per_shard = per_shard
        self._settings = {"format": FORMAT, **settings, "images": len(ids)}
        listed = hashlib.sha256(json.dumps(list(ids)).encode()).hexdigest()
        plan = {**self._settings, "per_shard": per_shard, "list of images": listed}
        keep_request(folder / "plan.json", plan, "pseudo-caption store", OWN)
        self._promised = _promised(folder)

    @property
    def shards(self) -> range:
        """The numbers of all shards."""
        return range(-(-len(self.ids) // self.per_shard))

    def span(self, number: int) -> range:
        """Positions of the images that belong to a shard."""
        first = number * self.per_shard
        return range(first, min(first + self.per_shard, len(self.ids)))

    def is_whole(self, number: int) -> bool:
        """Whether a shard is there and complete; one that is damaged is made again."""
        path = self._path(number)
        try:
            data = path.read_bytes()
            found = [id_ for id_, _ in parse_shard(path, data)]
        except (OSError, StoreError):
            return False
        digest = hashlib.sha256(data).hexdigest()
        expected = [self.ids[position] for position in self.span(number)]
        return found == expected and (self._promised or {}).get(path.name, digest) == digest

    def write(self, number: int, taught: Sequence[Taught]) -> None:
        """Write one shard: what is said of each of its images."""
        lines = [
            json.dumps(
                {
                    "id": self.ids[position],
                    "captions": own.captions,
                    "scores": own.scores,
                    "ended": own.ended,
                }
            )
            for position, own in zip(self.span(number), taught, strict=True)
        ]
        write_atomically(self._path(number), "".join(f"{line}\n" for line in lines).encode())

    def finish(self, vocabulary: Vocabulary, names: dict[str, Any]) -> PseudoStore:
        """Describe the whole store from its shards; `names` are for people, and put over the plan.

        A store that is finished already keeps its description: it says which naic made it.
        """
        shards = [self._described(number) for number in self.shards]
        index = {
            **self._settings,
            **names,
            "captions": sum(shard["captions"] for shard in shards),
            "naic": __version__,
            "shards": shards,
        }
        vocabulary.save(self.folder / VOCABULARY)
        if self._promised != {shard["file"]: shard["sha256"] for shard in shards}:
            write_atomically(self.folder / INDEX, pretty(index))
        return PseudoStore(self.folder)

    def _described(self, number: int) -> dict[str, Any]:
        path = self._path(number)
        data = path.read_bytes()
        rows = parse_shard(path, data)
        return {
            "file": path.name,
            "images": len(rows),
            "captions": sum(len(taught.captions) for _, taught in rows),
            "sha256": hashlib.sha256(data).hexdigest(),
        }

    def _path(self, number: int) -> Path:
        return self.folder / f"shard-{number:05d}.jsonl"


def remove_halves(folder: Path) -> None:
    """Delete what killed runs left half-written; only the holder of the folder's lock may."""
    remove_temporaries(folder, "plan.json", "shard-*.jsonl", VOCABULARY, INDEX)


def _promised(folder: Path) -> dict[str, str] | None:
    """The checksums of a finished store's shards by their names; None of any other store."""
    try:
        shards = json.loads((folder / INDEX).read_bytes())["shards"]
        return {shard["file"]: shard["sha256"] for shard in shards}
    except (OSError, ValueError, KeyError, TypeError):
        return None
