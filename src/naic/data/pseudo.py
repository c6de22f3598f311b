"""The pseudo-caption store: what a teacher says of images, and how that was made.

A store is a folder:

    plan.json            what it is made of: teacher, decoding, feature stores, list of images
    shard-00000.jsonl    a line an image: {"id", "captions", "scores", "ended"}, best caption first
    vocab.json           the teacher's words
    index.json           written last: a store without it is not finished

A caption is its words with single spaces between them, without the period; `ended` says whether
the teacher said one, or ran out of places. A score is the sum of the words' log-probabilities.

A shard appears whole or not at all, and its bytes depend on nothing but the plan. So a run that was
cut off is resumed by making the missing shards, several runs may share the work, and should two of
them make the same shard, no harm is done.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from naic import __version__
from naic.data.batches import rows_of_views
from naic.data.features import View, no_store
from naic.data.joined import AnyStore, backbone
from naic.errors import ConfigError, StoreError
from naic.files import remove_temporaries, write_atomically
from naic.resume import keep_request, pretty
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


def taught_line(id_: str, own: Taught) -> str:
    """What is said of an image, as a line of a shard, without what ends it."""
    values = {"captions": own.captions, "scores": own.scores, "ended": own.ended}
    return json.dumps({"id": id_, **values})


def parse_shard(path: Path, data: bytes) -> list[tuple[str, Taught]]:
    """The lines of a shard, image ids with what is said of them."""
    rows: list[tuple[str, Taught]] = []
    try:
        for line in data.decode().splitlines():
            row = json.loads(line)
            if "error" in row:  # an image of a shard that could not be used
                continue
            captions, scores, ended = (tuple(row[key]) for key in ("captions", "scores", "ended"))
            if not len(captions) == len(scores) == len(ended) > 0:
                raise ValueError("captions, scores and ends differ in number")  # noqa: TRY301
            rows.append((row["id"], Taught(captions, scores, ended)))
    except (ValueError, KeyError, TypeError) as error:
        raise StoreError(str(path), f"is not a whole shard ({error})", _AGAIN) from error
    return rows


def look_up(
    pseudo: Sequence[PseudoStore],
    store: AnyStore,
    held_out: Collection[str],
    views: Collection[View] = (),
) -> dict[int, Taught]:
    """What was taught, by the images' rows in `store`, in these views, or all if none is named.

    Raises:
        StoreError: features of another backbone, an image captioned by two, or in no or two stores.
        ConfigError: an image of a split in `held_out` is captioned, or none in one of the views.
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
    return {row: found[row] for row in rows_of_views(store, sorted(found), views)}


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
            taught_line(self.ids[position], own)
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
        return described(self._path(number))

    def _path(self, number: int) -> Path:
        return self.folder / f"shard-{number:05d}.jsonl"


def described(path: Path) -> dict[str, Any]:
    """A whole shard as the index tells of it."""
    data = path.read_bytes()
    rows = parse_shard(path, data)
    return {
        "file": path.name,
        "images": len(rows),
        "captions": sum(len(taught.captions) for _, taught in rows),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


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
