"""A folder of images, with or without captions in `.txt` files beside them."""

import os
from collections import Counter
from collections.abc import Collection, Container, Iterator, Sequence
from pathlib import Path

from naic.data.readers.textfiles import read_text
from naic.data.records import Entry, Problems, short_names
from naic.errors import DataError
from naic.files import printable, walk, what_is
from naic.images.formats import (
    IMAGE_SUFFIXES,
    UNSUPPORTED_SUFFIXES,
    stems_of_texts,
    without_suffix,
)
from naic.images.sources import FileImage

_SIDECAR = ".txt"
_IMAGES = IMAGE_SUFFIXES | UNSUPPORTED_SUFFIXES  # the latter fail by name when opened


def read_folder(
    source: Path, problems: Problems, ignored: Counter[str], *, with_images: bool = True
) -> Iterator[Entry]:
    """Entries of a folder and its sub-folders, sorted by path.

    The id is the relative path without its suffix. `a.txt` holds the captions of `a.jpg`, one a
    line; beside `a.png` it is `a.jpg.txt`. An image without one is unlabelled. Other files are
    counted in `ignored` by suffix.
    Where `images` are not needed, the captions of images that are not there are read too.
    """
    found, sidecars = _look_through(source, problems, ignored)
    if not with_images:
        alone = _captions_alone(found, sidecars)
        found = sorted([*found, *alone], key=lambda name: name.split("/"))
    if not found:
        hint = f"Images are known by their suffix: {', '.join(sorted(IMAGE_SUFFIXES))}."
        raise DataError(printable(str(source)), "there is no image in it", hint)
    texts = _stems_of_texts(found, sidecars)
    short: dict[str, list[str]] = {}
    for name in found:
        short.setdefault(without_suffix(name), []).append(name)
    _place_lonely_sidecars({*texts.values(), *short}, sidecars, problems, ignored)
    unclear = sidecars.keys() & short.keys() - set(texts.values())
    told = set()
    for name, id_ in short_names(found).items():
        sidecar, stem = sidecars.get(texts[name]), without_suffix(name)
        captions: list[tuple[str, object]] | None = []
        if sidecar is None and stem in unclear:
            told.add(stem)
            others = " and ".join(map(printable, short[stem]))
            why = f"its captions in {printable(sidecars[stem])} could be those of {others}"
            hint = f"If they are, call that file {printable(name)}{_SIDECAR}."
            problems.add(printable(name), why, hint, "captions that could be of another image")
            continue
        if sidecar is not None:
            captions = _captions(source, sidecar, problems)
        if captions is not None:
            image = None if name == sidecar else FileImage(Path(source, name))
            yield Entry(printable(name), printable(id_), [name], captions, image=image)
    for stem in sorted(unclear - told):
        own = " and ".join(f"{printable(name)}{_SIDECAR}" for name in short[stem])
        problems.add(printable(sidecars[stem]), f"there is also {own}", "Keep one of the two.")


def _stems_of_texts(images: Sequence[str], sidecars: Container[str]) -> dict[str, str]:
    """The path of each image's text file, without its suffix, as `naic caption` calls it.

    An image that cannot be opened has none where another has its name.
    """
    able = [name for name in images if _suffix(name) in IMAGE_SUFFIXES]
    stems = stems_of_texts(able)
    taken = {*stems.values(), *map(without_suffix, able)}
    for name in able:
        if name in sidecars and name not in taken:  # another image of its name was there once
            stems[name] = name
    for name in images:
        if name not in stems:
            stem = without_suffix(name)
            stems[name] = "" if stem in taken else stem
            taken.add(stem)
    return stems


def _captions_alone(images: list[str], sidecars: dict[str, str]) -> list[str]:
    """The files of captions that stand for an image that is not there.

    Beside images, these are the ones where other `.txt` files have theirs: see
    `_place_lonely_sidecars`.
    """
    stems = {*images, *map(without_suffix, images)}
    in_use = _folders_in_use(stems, sidecars)
    return [
        sidecar
        for stem, sidecar in sidecars.items()
        if stem not in stems and (not images or os.path.dirname(stem) in in_use)  # noqa: PTH120
    ]


def _folders_in_use(stems: Collection[str], sidecars: dict[str, str]) -> set[str]:
    """The folders in which some `.txt` file has its image."""
    return {os.path.dirname(stem) for stem in sidecars if stem in stems}  # noqa: PTH120


def _look_through(
    source: Path, problems: Problems, ignored: Counter[str]
) -> tuple[list[str], dict[str, str]]:
    """The relative paths of the images, and of the sidecars by their path without suffix."""
    found = what_is(source)
    if found != "folder":
        why = "there is no such folder" if found == "missing" else "it is not a folder"
        raise DataError(printable(str(source)), why, "Give the path of a folder of images.")

    def failed(folder: str, error: OSError) -> None:
        why = f"the folder cannot be listed ({error.strerror or error})"
        problems.add(printable(folder), why, "Check its permissions.")

    images: list[str] = []
    sidecars: dict[str, str] = {}
    for folder, files in walk(str(source), failed):
        inside = os.path.relpath(folder, source)
        if not files and _suffix(inside) in _IMAGES:
            images.append(inside)  # an empty folder called x.jpg fails by name when opened
        for file in files:
            name = file if inside == "." else f"{inside}/{file}"
            suffix = _suffix(file)
            if file.startswith("."):
                ignored["hidden"] += 1
            elif suffix in _IMAGES:
                images.append(name)
            elif suffix == _SIDECAR:
                first = sidecars.setdefault(without_suffix(name), name)
                if first != name:
                    why = f"{printable(first)} has the captions of the same image"
                    problems.add(printable(name), why, "Keep one of the two files.")
            else:
                ignored[printable(suffix) or "no suffix"] += 1
    return sorted(images, key=lambda name: name.split("/")), sidecars


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()  # noqa: PTH122


def _place_lonely_sidecars(
    owners: Collection[str],
    sidecars: dict[str, str],
    problems: Problems,
    ignored: Counter[str],
) -> None:
    """A `.txt` without an image is a problem only where other `.txt` files have theirs.

    Elsewhere it is a licence or a note, and merely counted.
    """
    in_use = _folders_in_use(owners, sidecars)
    for stem, sidecar in sorted(sidecars.items()):
        if stem in owners:
            continue
        if os.path.dirname(stem) in in_use:  # noqa: PTH120
            why = "there is no image for these captions"
            problems.add(printable(sidecar), why, "Add the image, or move this file away.")
        else:
            ignored[_SIDECAR] += 1


def _captions(source: Path, sidecar: str, problems: Problems) -> list[tuple[str, object]] | None:
    """The captions of a sidecar with their lines; None, and a problem, if it cannot be read."""
    name, path = printable(sidecar), Path(source, sidecar)
    if what_is(path) not in ("file", "missing"):  # reading a pipe would wait for ever
        problems.add(name, "it is not a regular file", "Replace it by a text file.")
        return None
    try:
        text = read_text(path, problems.warn)
    except DataError as error:
        problems.add(name, error.why, error.hint)
        return None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    captions: list[tuple[str, object]] = [
        (f"{name}, line {number}", line) for number, line in enumerate(lines, 1) if line.strip()
    ]
    return captions or [(name, "")]
