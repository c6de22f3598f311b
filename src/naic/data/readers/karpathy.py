"""The JSON files of Karpathy's splits: COCO, Flickr8k and Flickr30k share one layout."""

from collections.abc import Collection, Iterator
from pathlib import Path

from naic.data.readers import list_under, read_json_object
from naic.data.records import Entry, Problems, kind
from naic.files import printable
from naic.images.formats import without_suffix


def read_karpathy(
    source: Path, problems: Problems, splits: Collection[str] | None = None
) -> Iterator[Entry]:
    """Entries of a `dataset_*.json`, plain or packed; splits are kept as they are given.

    `raw` is preferred to `tokens`, which have lost their case and punctuation. Entries of other
    splits than `splits` (None: all are wanted) are there to be counted: they have as many captions
    as they should, but blank ones.
    """
    value = read_json_object(source, unused=("tokens", "raw"))
    images = list_under(value, "images", source)
    images.reverse()  # popping from the end lets each row be freed once it was used
    total = len(images)
    while images:
        row = images.pop()
        where = f"{printable(source.name)}, image {total - len(images)}"
        if not isinstance(row, dict):
            why = f"it is {kind(row)} where an object is expected"
            problems.add(where, why, "Repair or remove it.")
            continue
        entry = _entry(row, where, problems, splits)
        if entry is not None:
            yield entry


def _entry(
    row: dict[str, object], where: str, problems: Problems, splits: Collection[str] | None
) -> Entry | None:
    cocoid, filename = row.get("cocoid"), row.get("filename")
    filepath, split = row.get("filepath", ""), row.get("split", "")
    sentences = row.get("sentences")
    for key, value in (("filename", filename), ("filepath", filepath), ("split", split)):
        if value is not None and not isinstance(value, str):
            problems.add(where, f"{key!r} is {kind(value)}, not a string", "Repair the row.")
            return None
    if not isinstance(cocoid, int | str | None) or isinstance(cocoid, bool):
        problems.add(where, f"'cocoid' is {kind(cocoid)}, not a number", "Repair the row.")
        return None
    if not filename and cocoid is None:
        problems.add(where, "it has neither 'filename' nor 'cocoid'", "Name its image.")
        return None
    if not isinstance(sentences, list):
        why = "there is no 'sentences'" if sentences is None else "'sentences' is not a list"
        hint = "Give the row a list of sentences; it may be empty."
        problems.add(where, why, hint)
        return None
    filename = str(filename or "")
    id_ = without_suffix(filename) if cocoid is None else str(cocoid)
    where = f"{where} ({printable(id_)})"
    if splits is not None and (split or "") not in splits:
        return Entry(where, id_, captions=[("", "")] * len(sentences), split=str(split or ""))
    return Entry(
        where=where,
        id=id_,
        names=image_names(str(filepath or ""), filename, cocoid),
        captions=[
            (f"{where}, sentence {number}", _caption(sentence))
            for number, sentence in enumerate(sentences, 1)
        ],
        split=str(split or ""),
    )


def image_names(filepath: str, filename: str, cocoid: int | str | None) -> list[str]:
    """What the image may be called on disk.

    COCO dropped the prefix of its file names in 2017 (`COCO_val2014_000000000042.jpg` became
    `000000000042.jpg`). The short name is tried only where the long one ends in the same
    digits: in somebody's own data it could be another image.
    """
    names = [f"{filepath}/{filename}" if filepath else filename]
    if isinstance(cocoid, int) and without_suffix(filename).endswith(f"{cocoid:012d}"):
        names.append(f"{cocoid:012d}.jpg")
    return names if filename else [f"{cocoid:012d}.jpg" if isinstance(cocoid, int) else f"{cocoid}"]


def _caption(sentence: object) -> object:
    """The caption of a sentence; what is no caption is handed on for the check to name."""
    if not isinstance(sentence, dict):
        return sentence
    raw, tokens = sentence.get("raw"), sentence.get("tokens")
    if raw is None and isinstance(tokens, list) and all(isinstance(t, str) for t in tokens):
        return " ".join(tokens)
    return tokens if raw is None else raw
