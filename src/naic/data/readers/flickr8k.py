"""Flickr8k as it was published, and the re-upload with one `captions.txt`."""

from collections.abc import Iterator
from pathlib import Path

from naic.data.readers.delimited import open_sheet
from naic.data.readers.table import CaptionRow, csv_rows, entries_of
from naic.data.readers.textfiles import read_text
from naic.data.records import Entry, Problems
from naic.errors import DataError
from naic.files import printable, what_is

_CAPTION_FILES = ("Flickr8k.token.txt", "captions.txt")
_TEXT_FOLDERS = (".", "Flickr8k_text")
_IMAGE_FOLDERS = ("Flicker8k_Dataset", "Flickr8k_Dataset", "Images")  # the first is their spelling
_LISTS = {"train": "trainImages", "val": "devImages", "test": "testImages"}


def flickr8k_roots(source: Path) -> list[Path]:
    """The usual image folders below the source's folder or beside it, else the folder itself."""
    folder = source if what_is(source) == "folder" else source.absolute().parent
    for base in (folder, folder.absolute().parent):
        places = [base / name for name in _IMAGE_FOLDERS]
        if found := [place for place in places if what_is(place) == "folder"]:
            return found
    return [folder]


def read_flickr8k(source: Path, problems: Problems) -> Iterator[Entry]:
    """Entries of the token file and the split lists that lie beside it (dev is called val).

    An image in no list has no split; 92 of the published ones are like that, and one of these
    has no image either.
    """
    file = _caption_file(source) if what_is(source) == "folder" else source
    text = read_text(file, problems.warn)
    if text.partition("\n")[0].strip().lower().startswith("image,"):
        rows = csv_rows(open_sheet(text), file, problems)
    else:
        rows = _token_rows(text, file, problems)
    splits = _splits(file.absolute().parent, problems)
    for entry in entries_of(rows, file.absolute().parent, problems):
        entry.split, _ = splits.pop(entry.names[0], (entry.split, ""))
        yield entry
    for name, (_, where) in splits.items():
        why = f"there are no captions for {printable(name)!r}"
        problems.add(where, why, f"Add them to {printable(file.name)}, or remove the line.")


def has_caption_file(folder: Path) -> bool:
    """Whether a folder holds Flickr8k's captions where its reader looks for them."""
    return bool(_caption_files(folder))


def _caption_files(folder: Path) -> list[Path]:
    files = [folder / below / name for below in _TEXT_FOLDERS for name in _CAPTION_FILES]
    return [file for file in files if what_is(file) == "file"]


def _caption_file(folder: Path) -> Path:
    if files := _caption_files(folder):
        return files[0]
    why = f"neither {' nor '.join(_CAPTION_FILES)} is in it"
    raise DataError(printable(str(folder)), why, "Give the path of the caption file itself.")


def _token_rows(text: str, file: Path, problems: Problems) -> Iterator[CaptionRow]:
    """Lines such as `a.jpg#0<tab>A caption .`."""
    first: dict[str, int] = {}
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{printable(file.name)}, line {number}"
        if not line.strip():
            continue
        key, tab, caption = line.partition("\t")
        image, mark, _ = key.rpartition("#")
        if not tab or not mark or not image.strip():
            why = "it is not of the form image#number, tab, caption"
            problems.add(where, why, "Repair or remove the line.")
        elif first.setdefault(key, number) != number:
            why = f"{printable(key)!r} was already on line {first[key]}"
            problems.add(where, why, "Number the captions of an image differently.")
        else:
            yield CaptionRow(where, image.strip(), [(where, caption)])
    if not text.strip():
        raise DataError(printable(str(file)), "the file is empty", "Get it again.")


def _splits(folder: Path, problems: Problems) -> dict[str, tuple[str, str]]:
    """The split of each listed image, and the place that says so."""
    splits: dict[str, tuple[str, str]] = {}
    for split, name in _LISTS.items():
        file = folder / f"Flickr_8k.{name}.txt"
        if what_is(file) == "missing":
            continue
        for number, line in enumerate(read_text(file, problems.warn).split("\n"), 1):
            image, where = line.strip(), f"{file.name}, line {number}"
            if not image:
                continue
            if image in splits:
                why = f"{printable(image)!r} was already listed at {splits[image][1]}"
                problems.add(where, why, "Put each image into one split, once.")
            else:
                splits[image] = (split, where)
    return splits
