"""Files of captions as the COCO server takes them, and whose image each caption is of."""

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from naic.data.readers.captions import Captions, ImageCaptions
from naic.data.readers.textfiles import decode_json, read_bytes
from naic.data.records import Problems, is_text, kind
from naic.errors import DataError
from naic.files import printable
from naic.images.formats import plain_id, take_apart, without_image_suffix

_SHAPE = 'Write [{"image_id": 42, "caption": "a dog on a sofa"}, ...].'
_EXAMPLES = 5
_LONGEST = 80  # characters of an id in a message


@dataclass(frozen=True, slots=True)
class Result:
    """A caption that some system gave, and its place in the file."""

    where: str
    image_id: str
    caption: str


@dataclass(frozen=True, slots=True)
class ResultsFile:
    """All captions of one system; `sha256` is that of the file, unpacked."""

    name: str
    results: list[Result]
    sha256: str


def read_results(path: Path) -> ResultsFile:
    """Read a file in COCO's results format, plain or packed (.xz, .gz).

    Raises:
        DataError: it cannot be read, or an entry is not what it should be; the entry is named.
    """
    name = printable(str(path))
    data = read_bytes(path)  # once: a pipe has nothing to say the second time
    value = decode_json(data, name)
    if not isinstance(value, list):
        why = f"it holds {kind(value)} where a list of captions is expected"
        raise DataError(name, why, _SHAPE)
    if not value:
        raise DataError(name, "there is no caption in it", _SHAPE)
    file = printable(path.name)
    rows = enumerate(value, 1)
    results = [_result(row, f"{file}, entry {number}") for number, row in rows]
    return ResultsFile(name, results, hashlib.sha256(data).hexdigest())


def _result(row: object, where: str) -> Result:
    if not isinstance(row, dict):
        why = f"it is {kind(row)} where an object is expected"
        raise DataError(where, why, _SHAPE)
    for key in ("image_id", "caption"):
        if key not in row:
            raise DataError(where, f"there is no {key!r}", _SHAPE)
    image, caption = row["image_id"], row["caption"]
    if isinstance(image, bool) or not isinstance(image, int | str):
        given = f"the number {image}" if isinstance(image, float) else kind(image)
        why = f"'image_id' is {given}, not a whole number or a string"
        raise DataError(where, why, "Give the id that the image has in the references.")
    if not isinstance(caption, str):
        why = f"the caption is {kind(caption)}, not a string"
        raise DataError(where, why, 'Write an empty caption as "".')
    if not is_text(caption) or not is_text(str(image)):
        raise DataError(where, "its text is not valid Unicode", "Save the file as UTF-8.")
    return Result(where, str(image), caption)


class Matcher:
    """Finds the reference of a result by its id: as it is written, else by its parts.

    It looks among all images of the source, those of other splits too: what is taken for a
    image of this split should not be one that only looks like it.
    """

    def __init__(self, references: Captions, problems: Problems) -> None:
        self._references = references
        self._problems = problems
        self._all = [*references.images, *references.others, *references.dropped]
        self._exact: dict[str, int] = {}
        self._plain: dict[str, list[int]] = {}
        for place, image in enumerate(self._all):
            # A dropped image may have the id of a good one: then that is why it was dropped.
            if self._exact.setdefault(image.id, place) == place:
                self._plain.setdefault(plain_id(image.id), []).append(place)

    def match(self, file: ResultsFile, split: str) -> dict[int, Result]:
        """The result for each place among the references; those of dropped images are left out.

        Raises:
            DataError: an image is not there, is of another split, is there twice, or could be
                several.
        """
        found: dict[int, Result] = {}
        unknown: list[str] = []
        for result in file.results:
            place = self._place(result)
            if place is None:
                unknown.append(result.image_id)
                continue
            first = found.setdefault(place, result)
            if first is not result:
                image = short(self._all[place].id)
                why = f"image {image} has a caption already, in {first.where.rpartition(', ')[2]}"
                raise DataError(result.where, why, "Give one caption an image.")
        if unknown:
            count = len(self._references.images)
            why = (
                f"{len(unknown):,} of {len(file.results):,} captions are of images that are not "
                f"among the {count:,} references{split} ({examples(unknown)})"
            )
            hint = "Check --references and --split, or take those captions out."
            raise DataError(file.name, why, hint)
        self._refuse_others(file, found)
        return self._without_dropped(found)

    def _place(self, result: Result) -> int | None:
        for id_ in (result.image_id, without_image_suffix(result.image_id)):
            if id_ in self._exact:
                return self._exact[id_]
        name = take_apart(result.image_id)
        places = self._plain.get(name.plain, [])
        if len(places) > 1:
            first, second = (short(self._all[place].id) for place in places[:2])
            why = f"image {short(result.image_id)} could be {first} or {second}"
            raise DataError(result.where, why, "Give the id as it is in the references.")
        fitting = [place for place in places if name.agrees(take_apart(self._all[place].id))]
        return fitting[0] if fitting else None

    def _refuse_others(self, file: ResultsFile, found: dict[int, Result]) -> None:
        first = len(self._references.images)
        last = first + len(self._references.others)
        places = [place for place in found if first <= place < last]
        if not places:
            return
        splits = sorted({self._all[place].split for place in places})
        named = " and ".join(short(split) or "no name" for split in splits)
        ids = examples([found[place].image_id for place in places])
        why = f"{len(places):,} of {len(found):,} captions are of images of split {named} ({ids})"
        raise DataError(file.name, why, "Check --split, or take those captions out.")

    def _without_dropped(self, found: dict[int, Result]) -> dict[int, Result]:
        """What is left of the results; those of dropped images are noted as problems."""
        images = len(self._references.images)
        for place, result in found.items():
            if place >= images:
                why = f"the references of image {short(result.image_id)} could not be used"
                self._problems.add(result.where, why, "Repair them, or take the caption out.")
        return {place: result for place, result in found.items() if place < images}


def pair(
    files: Sequence[ResultsFile],
    references: Captions,
    *,
    splits: Collection[str],
    subset: bool,
    problems: Problems,
) -> tuple[list[ImageCaptions], list[list[str]]]:
    """The images to score, and the captions that each file has for them.

    Every image with references must have a caption in every file. With `subset`, images that
    cannot be scored are left out instead: those without a caption, and those without references.
    Captions of images that were left out of the references as bad are noted in `problems`.
    """
    split = f" of split {short('+'.join(splits))}" if splits else ""
    matcher = Matcher(references, problems)
    matched = [matcher.match(file, split) for file in files]
    images = references.images
    wanted = [place for place, image in enumerate(images) if image.captions]
    if not wanted:
        why = f"not one image{split} has a human caption"
        raise DataError("--references", why, "Give a dataset that has captions.")
    if not subset:
        for file, found in zip(files, matched, strict=True):
            _refuse_unlabelled(file, found, images)
            _refuse_missing(file, found, images, wanted, splits)
    scored = [place for place in wanted if all(place in found for found in matched)]
    if not scored:
        raise DataError(files[0].name, "no image is left to score", "Check --references.")
    captions = [[found[place].caption for place in scored] for found in matched]
    return [images[place] for place in scored], captions


def _refuse_unlabelled(
    file: ResultsFile, found: dict[int, Result], images: Sequence[ImageCaptions]
) -> None:
    ids = [images[place].id for place in sorted(found) if not images[place].captions]
    if ids:
        why = f"{len(ids):,} of its images have no human caption to compare with ({examples(ids)})"
        hint = "Take them out, or pass --subset to score the others."
        raise DataError(file.name, why, hint)


def _refuse_missing(
    file: ResultsFile,
    found: dict[int, Result],
    images: Sequence[ImageCaptions],
    wanted: Sequence[int],
    splits: Collection[str],
) -> None:
    ids = [images[place].id for place in wanted if place not in found]
    if not ids:
        return
    why = (
        f"{len(ids):,} of the {len(wanted):,} images to be scored have no caption in it "
        f"({examples(ids)})"
    )
    hint = "Caption them, or pass --subset to score only those that are there."
    here = sorted({images[place].split for place in found})
    if not splits and len({image.split for image in images}) > len(here) and all(here):
        hint = f"Its images are of split {' and '.join(here)}: pass --split {' '.join(here)}."
    raise DataError(file.name, why, printable(hint))


def examples(ids: Sequence[str]) -> str:
    """A few ids for a message."""
    more = ", ..." if len(ids) > _EXAMPLES else ""
    return ", ".join(short(id_) for id_ in ids[:_EXAMPLES]) + more


def short(text: str) -> str:
    """An id or a name for a message, whatever it is."""
    return printable(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...")
