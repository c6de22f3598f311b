"""The pseudo-caption store, for reading: what a teacher says of images, and how that was made.

A store is a folder:

    plan.json            what it is made of: teacher, decoding, feature stores, list of images
    shard-00000.jsonl    a line an image: {"id", "captions", "scores", "ended"}, best caption first
    vocab.json           the teacher's words
    index.json           written last: a store without it is not finished

A caption is its words with single spaces between them, without the period; `ended` says whether
the teacher said one, or ran out of places. A score is the sum of the words' log-probabilities.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from naic.data.features import no_store
from naic.data.joined import AnyStore, backbone
from naic.errors import ConfigError, StoreError
from naic.text import Vocabulary

FORMAT = "naic-pseudo-captions-1"
INDEX, VOCABULARY = "index.json", "vocab.json"
_KEYS = {"teacher", "beam", "features", "images", "captions", "shards"}  # read somewhere
_AGAIN = "Run the same `naic distil` again to mend it."


@dataclass(frozen=True, slots=True)
class Taught:
    """What the teacher says of an image, likeliest first."""

    captions: tuple[str, ...]
    scores: tuple[float, ...]
    ended: tuple[bool, ...]

    def sentences(self) -> list[tuple[list[str], bool]]:
        """The words of each caption, and whether a period comes after them."""
        return [
            (caption.split(" ") if caption else [], ended)
            for caption, ended in zip(self.captions, self.ended, strict=True)
        ]


class PseudoStore:
    """A finished store: `store.captions["42"]` is what the teacher says of image 42."""

    def __init__(self, folder: Path | str) -> None:
        self.folder = Path(folder)
        self.index = _read_index(self.folder)

    def __len__(self) -> int:
        return int(self.index["images"])

    @cached_property
    def taught(self) -> dict[str, Taught]:
        """All of it by image id, in the order of the shards; each shard's checksum is checked."""
        found: dict[str, Taught] = {}
        for entry in self.index["shards"]:
            path = self.folder / entry["file"]
            try:
                data = path.read_bytes()
            except OSError as error:
                why = f"cannot be read ({error.strerror})"
                raise StoreError(str(path), why, _AGAIN) from error
            if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                raise StoreError(str(path), "is not the shard that index.json tells of", _AGAIN)
            for id_, taught in parse_shard(path, data):
                if id_ in found:
                    why = f"it captions the image {id_!r} twice"
                    raise StoreError(str(self.folder), why, "Make it anew in another folder.")
                found[id_] = taught
        return found

    @property
    def captions(self) -> dict[str, tuple[str, ...]]:
        """The captions of each image by its id, likeliest first."""
        return {id_: taught.captions for id_, taught in self.taught.items()}

    @property
    def scores(self) -> dict[str, tuple[float, ...]]:
        """Log-probabilities of the captions of each image by its id."""
        return {id_: taught.scores for id_, taught in self.taught.items()}

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The teacher's words."""
        vocabulary = Vocabulary.load(self.folder / VOCABULARY)
        if vocabulary.fingerprint != self.index["teacher"]["vocabulary"]:
            path = str(self.folder / VOCABULARY)
            raise StoreError(path, "its words are not the teacher's", _AGAIN)
        return vocabulary

    def describe(self) -> str:
        """One line for people: how much, by whom, how."""
        index = self.index
        return (
            f"{index['captions']:,} captions of {index['images']:,} images "
            f"by {index['teacher']['folder']}, beam {index['beam']}"
        )


def parse_shard(path: Path, data: bytes) -> list[tuple[str, Taught]]:
    """The lines of a shard, image ids with what is said of them."""
    rows: list[tuple[str, Taught]] = []
    try:
        for line in data.decode().splitlines():
            row = json.loads(line)
            captions, scores, ended = (tuple(row[key]) for key in ("captions", "scores", "ended"))
            if not len(captions) == len(scores) == len(ended) > 0:
                raise ValueError("captions, scores and ends differ in number")  # noqa: TRY301
            rows.append((row["id"], Taught(captions, scores, ended)))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(str(path), f"is not a whole shard ({error})", _AGAIN) from error
    return rows


def look_up(
    pseudo: Sequence[PseudoStore], store: AnyStore, held_out: Collection[str]
) -> dict[int, Taught]:
    """What was taught, by the images' rows in `store`; no image of the splits `held_out`.

    Raises:
        StoreError: features of another backbone, an image captioned by two, or in no or two stores.
        ConfigError: an image of a held-out split is captioned.
    """
    rows: dict[str, int] = {}
    twice: set[str] = set()
    for row, record in enumerate(store.records):
        if record.id in rows:
            twice.add(record.id)
        rows[record.id] = row
    found: dict[int, Taught] = {}
    for source in pseudo:
        _check_backbone(source, store)
        for id_, taught in source.taught.items():
            if id_ not in rows or id_ in twice:
                where = "in two" if id_ in twice else "in none"
                why = f"its image {id_!r} is {where} of the feature stores of this run"
                hint = "Name the stores it was made from, each once: data.features, data.unlabelled"
                raise StoreError(str(source.folder), why, f"{hint}.")
            row = rows[id_]
            if row in found:
                why = f"the image {id_!r} has pseudo captions in another store too"
                raise StoreError(str(source.folder), why, "Leave one of the stores out.")
            if (split := store.records[row].split) in held_out:
                why = f"it captions the image {id_!r} of {split}, which the run is validated on"
                hint = "Make one without: naic distil --splits train"
                raise ConfigError(f"data.pseudo ({source.folder})", why, hint)
            found[row] = taught
    return dict(sorted(found.items()))


def _check_backbone(source: PseudoStore, store: AnyStore) -> None:
    own = backbone(store.index)
    for features in source.index["features"]:
        different = [name for name, value in backbone(features).items() if value != own[name]]
        if different:
            name = different[0]
            why = f"it was made from features of another backbone: {name} was {features[name]!r}"
            hint = "Distil from features like those that are learnt from."
            raise StoreError(str(source.folder), f"{why}, and here is {own[name]!r}", hint)


def _read_index(folder: Path) -> dict[str, Any]:
    path = folder / INDEX
    if not path.exists():
        raise no_store(folder, "pseudo-caption store", "naic distil")
    try:
        index: dict[str, Any] = json.loads(path.read_bytes())
        version = index["format"]
        lacking = sorted(_KEYS - index.keys()) if version == FORMAT else []
        if lacking:
            raise ValueError(f"it has no {', '.join(lacking)}")  # noqa: TRY301
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreError(str(path), f"cannot be read ({error})", _AGAIN) from error
    if version != FORMAT:
        why = f"has format {version!r}, and pseudo captions are {FORMAT!r}"
        raise StoreError(str(path), why, "Name a folder that `naic distil` made.")
    return index
