"""COCO's annotation files, with and without captions, and the JSON files of Karpathy's splits.

Karpathy's of COCO, Flickr8k and Flickr30k share one layout.
"""

import re
from collections.abc import Collection, Iterator
from pathlib import Path

from naic.data.readers.textfiles import list_under, read_json_object
from naic.data.records import Entry, Problems, kind
from naic.files import printable
from naic.images.formats import without_suffix

_SPLIT = re.compile(r"_(train|val|test|unlabeled)")


def coco_roots(source: Path) -> list[Path]:
    """Where COCO's images usually are: `train2014` and others lie beside `annotations`."""
    folder = source.absolute().parent
    return [folder.parent if folder.name == "annotations" else folder]


def read_coco(source: Path, problems: Problems) -> Iterator[Entry]:
    """Entries of one annotation file; the split is what the file name says.

    An image without annotation is unlabelled: COCO gives out test images that way.
    """
    value = read_json_object(source)
    images = list_under(value, "images", source)
    annotations = list_under(value, "annotations", source) if "annotations" in value else []
    usable = _usable_images(images, source, problems)
    # Annotations of an unusable image are named too, so they count as those of an unknown one.
    known = {id_ for _, id_, _ in usable}
    captions = _captions_by_image(annotations, known, source, problems)
    found = _SPLIT.search(source.name)
    split = found.group(1) if found else ""
    file = printable(source.name)
    for where, id_, names in usable:
        # A second entry of the same id gets none: the first has them.
        numbered = captions.pop(id_, ())
        places = [(f"{file}, annotation {number}", caption) for number, caption in numbered]
        yield Entry(f"{where} (id {printable(id_)})", id_, names, places, split)


def _usable_images(
    images: list[object], source: Path, problems: Problems
) -> list[tuple[str, str, list[str]]]:
    """The place, the id and the possible file names of each image that has them."""
    usable = []
    for number, row in enumerate(images, 1):
        where = f"{printable(source.name)}, image {number}"
        if not isinstance(row, dict):
            why = f"it is {kind(row)} where an object is expected"
            problems.add(where, why, "Repair or remove it.")
            continue
        id_, name, raw_id = _id(row, "id"), row.get("file_name"), row.get("id")
        if id_ is None or not isinstance(name, str) or not name:
            key = "id" if id_ is None else "file_name"
            why = f"{key!r} is {kind(row[key])}" if row.get(key) else f"there is no {key!r}"
            problems.add(where, why, "Repair the image's entry.")
            continue
        names = image_names("", name, raw_id if isinstance(raw_id, int) else None)
        usable.append((where, id_, names))
    return usable


def _id(row: dict[str, object], key: str) -> str | None:
    value = row.get(key)
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return str(value)


def _captions_by_image(
    annotations: list[object], known: set[str], source: Path, problems: Problems
) -> dict[str, list[tuple[int, object]]]:
    """The captions of each image with the number of their annotation."""
    captions: dict[str, list[tuple[int, object]]] = {}
    first: dict[str, int] = {}
    for number, row in enumerate(annotations, 1):
        where = f"{printable(source.name)}, annotation {number}"
        if not isinstance(row, dict):
            why = f"it is {kind(row)} where an object is expected"
            problems.add(where, why, "Repair or remove it.")
            continue
        if "caption" not in row:
            hint = "Captions are in captions_*.json; other files of COCO hold boxes or key points."
            problems.add(where, "there is no 'caption'", hint)
            continue
        image = _id(row, "image_id")
        if image is None or image not in known:
            wrong = (
                "there is no valid 'image_id'"
                if image is None
                else f"no usable image has id {image}"
            )
            problems.add(where, printable(wrong), "Add the image, or remove the annotation.")
            continue
        own = _id(row, "id")
        if own is not None and first.setdefault(own, number) != number:
            why = f"the id {printable(own)} was already used by annotation {first[own]}"
            problems.add(where, why, "Give each annotation its own id.")
            continue
        captions.setdefault(image, []).append((number, row["caption"]))
    return captions


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
