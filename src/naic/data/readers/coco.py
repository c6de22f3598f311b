"""COCO's own annotation files: `captions_*.json`, and `image_info_*.json` without captions."""

import re
from collections.abc import Iterator
from pathlib import Path

from naic.data.readers import list_under, read_json_object
from naic.data.readers.karpathy import image_names
from naic.data.records import Entry, Problems, kind
from naic.files import printable

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
