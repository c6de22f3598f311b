"""naic's caption inside a photo, written by ExifTool: the pixels are copied, not encoded anew.

ExifTool writes a neighbour, which takes over the photo's permissions and dates, is synced, and then
renamed over it: whenever the run is killed, the photo is the old one or the new one.
"""

import base64
import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path

from naic.errors import ImageError
from naic.files import printable, what_is, writing
from naic.tasks.caption.find import Found
from naic.tasks.caption.folders import short_neighbour, take_place
from naic.tasks.caption.metadata.exiftool import ExifTool
from naic.tasks.caption.metadata.mark import (
    ALT_TEXT,
    DESCRIPTION,
    ELSEWISE,
    EXIF_DESCRIPTION,
    IPTC_CAPTION,
    PNG_DESCRIPTION,
    Held,
    Mark,
)
from naic.tasks.caption.metadata.sidecar import read_before
from naic.tasks.caption.metadata.xmp import DEFAULT
from naic.tasks.caption.options import Existing
from naic.tasks.caption.sidecars import LINK

AT_ONCE = 100  # photos that are read in one go
# The program that wrote the XMP last. ExifTool puts itself there; --undo puts back who was.
_TOOLKIT = "XMP-x:XMPToolkit"
_EXIFTOOL = "Image::ExifTool"
_MARKS = {field.name: f"XMP-naic:{field.name.capitalize()}" for field in fields(Mark)}
_IN_LANGUAGES = (DESCRIPTION, ALT_TEXT)
_PLAIN = (EXIF_DESCRIPTION, IPTC_CAPTION, PNG_DESCRIPTION)
_TYPE = "File:FileType"
_READ = [
    *("-j", "-b", "-G1", "-q", "-q"),
    *(f"-{name}" for name in (_TYPE, _TOOLKIT, "XMP-naic:all", *_PLAIN)),
    *(f"-{place}*" for place in _IN_LANGUAGES),
]
_WITHOUT_EXIF = ("GIF",)
_NOTHING = Held(dict.fromkeys((*_PLAIN, *_IN_LANGUAGES)))
_NO_FORMAT = "ExifTool cannot write these fields into a file of this format"
_XMP_HINT = "Use --write xmp, which makes a file beside it."


class Photos:
    """Reads and writes photos through one ExifTool."""

    writes = (DESCRIPTION, EXIF_DESCRIPTION, ALT_TEXT)

    def __init__(self, tool: ExifTool) -> None:
        self._tool = tool

    def file(self, image: Found) -> Path:
        """The file that is written: the photo."""
        return Path(image.path)

    def held(self, images: Sequence[Found]) -> Iterator[Held | ImageError]:
        """For each photo what it says.

        One that ExifTool cannot read seems to say nothing: what is wrong with it shows when it is
        opened or written.
        """
        for start in range(0, len(images), AT_ONCE):
            paths = [image.path for image in images[start : start + AT_ONCE]]
            try:
                found = self._read(paths)
            except ImageError as error:
                yield from [error] * len(paths)
            else:
                yield from (found.get(path, _NOTHING) for path in paths)

    def _read(self, paths: Sequence[str]) -> dict[str, Held]:
        """What photos say; those that ExifTool cannot read are not there."""
        asked = {_file(path): path for path in paths if _can_be_told(path)}
        if not asked:
            return {}
        printed, _ = self._tool.run([*_READ, *asked], printable(paths[0]))
        found = {}
        for tags in _objects(printed):
            path = asked.get(tags.get("SourceFile", ""))
            if path is not None and _TYPE in tags:
                found[path] = _held(tags)
        return found

    def write(self, image: Found, mark: Mark, existing: Existing) -> bool:
        """Put the caption into a photo; False where nothing in it may be written any more.

        Raises:
            ImageError: ExifTool cannot write it.
            WriteError: the photo cannot be replaced.
        """
        there = self._read([image.path]).get(image.path, _NOTHING)
        places = there.open(self.writes, existing)
        if not places:
            return False
        old = _taken_back(there)
        before = {place: old.get(place, there.texts[place]) for place in places}
        before[_TOOLKIT] = there.mark.before.get(_TOOLKIT) if there.mark else there.toolkit
        full = replace(mark, before=before)
        marks = {name: getattr(full, own) for own, name in _MARKS.items()}
        values = old | dict.fromkeys(places, mark.text) | marks
        values[_MARKS["before"]] = json.dumps(before)
        with self._replacing(Path(image.path), values) as made:
            now = self._read([str(made)]).get(str(made), _NOTHING)
            if now.mark != full or not all(map(now.own, places)):
                raise ImageError(printable(image.path), _NO_FORMAT, _XMP_HINT)
        return True

    def undo(self, image: Found) -> bool:
        """Take out of a photo what naic wrote; False where there is nothing of it.

        Raises:
            ImageError: ExifTool cannot write it.
            WriteError: the photo cannot be replaced.
        """
        there = self._read([image.path]).get(image.path, _NOTHING)
        if there.mark is None:
            return False
        values = _taken_back(there) | {"XMP-naic:all": None}
        if (there.toolkit or "").startswith(_EXIFTOOL):  # else another program has written since
            values[_TOOLKIT] = there.mark.before.get(_TOOLKIT)
        with self._replacing(Path(image.path), values):
            return True

    @contextlib.contextmanager
    def _replacing(self, path: Path, values: Mapping[str, str | None]) -> Iterator[Path]:
        """A copy with these values (None: without); afterwards it takes the photo's place."""
        where, temporary = printable(str(path)), short_neighbour(path)
        _refuse(path)
        with writing(path):
            was = path.stat()
            temporary.unlink(missing_ok=True)
        try:
            lines = [_assignment(place, value) for place, value in values.items()]
            # %d is the folder of the photo; its own name may have signs of that kind.
            out = f"%d{temporary.name}"
            arguments = ["-E", "-q", "-q", *lines, "-o", out, _file(str(path))]
            _, said = self._tool.run(arguments, where)
            if not temporary.exists():
                raise ImageError(where, _reason(said), _XMP_HINT)
            yield temporary
            take_place(temporary, path, was, dates=True)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)


def _refuse(path: Path) -> None:
    """Refuse what must not be replaced, or what ExifTool could not be told of."""
    where = printable(str(path))
    if path.is_symlink():
        raise ImageError(where, LINK, "Name the photo itself.")
    if what_is(path) != "file":
        raise ImageError(where, "it is no regular file", "Name a photo.")
    if not os.access(path, os.W_OK):
        raise ImageError(where, "it may only be read", "Change its permissions.")
    if not _can_be_told(str(path)):
        why = "its name has a line break, with which ExifTool cannot be told of it"
        raise ImageError(where, why, _XMP_HINT)


def _taken_back(there: Held) -> dict[str, str | None]:
    """What has to stand again at naic's own places once its caption is gone."""
    if there.mark is None:
        return {}
    return {place: there.mark.before[place] for place in Photos.writes if there.own(place)}


def _assignment(place: str, value: str | None) -> str:
    """An argument that sets a place, to nothing too, or removes it."""
    language = f"-{DEFAULT}" if place in _IN_LANGUAGES else ""
    text = (value or "").replace("&", "&amp;")  # -E takes it back
    for sign, entity in (("\n", "&#10;"), ("\r", "&#13;"), (" ", "&#32;"), ("\t", "&#9;")):
        text = text.replace(sign, entity)
    return f"-{place}{language}{'^' if value == '' else ''}={text}"


def _file(path: str) -> str:
    """A path that cannot be taken for an option, nor for a remark."""
    return path if path.startswith("/") else f"./{path}"


def _can_be_told(path: str) -> bool:
    return not {"\n", "\r"} & {*path}


def _reason(said: str) -> str:
    errors = [line.partition("Error: ")[2] for line in said.splitlines() if "Error: " in line]
    if not errors:
        return _NO_FORMAT
    return printable(f"ExifTool says: {errors[0].rpartition(' - ')[0] or errors[0]}")


def _objects(printed: bytes) -> list[dict[str, str]]:
    """What ExifTool prints of each photo: names and values."""
    if not printed.strip():
        return []
    text = printed.decode("utf-8", "surrogateescape")
    found = json.loads(text, parse_int=str, parse_float=str)  # "1.50" is a text too
    return [{name: _text(value) for name, value in tags.items()} for tags in found]


def _text(value: object) -> str:
    """A value of ExifTool's JSON; what is no UTF-8 comes as base64 and keeps its bytes."""
    text = str(value)
    if not text.startswith("base64:"):
        return text
    try:
        return base64.b64decode(text[7:], validate=True).decode("utf-8", "surrogateescape")
    except ValueError:  # somebody's text begins so
        return text


def _held(tags: Mapping[str, str]) -> Held:
    texts = {place: tags.get(place) for place in (*_PLAIN, *_IN_LANGUAGES)}
    for place in _IN_LANGUAGES:
        others = (text for name, text in tags.items() if name.startswith(f"{place}-"))
        texts[ELSEWISE[place]] = next(others, None) if texts[place] is None else None
    if tags[_TYPE] in _WITHOUT_EXIF:
        del texts[EXIF_DESCRIPTION]
    if _MARKS["text"] not in tags:
        return Held(texts, toolkit=tags.get(_TOOLKIT))
    values = {own: tags.get(name, "") for own, name in _MARKS.items()}
    before = read_before(values.pop("before"))
    return Held(texts, Mark(before=before, **values), tags.get(_TOOLKIT))
