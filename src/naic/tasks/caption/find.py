"""The images that the paths of a command stand for: files, folders, patterns, a list."""

import os
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from naic.errors import ConfigError, Problem
from naic.files import printable, walk, what_is
from naic.images.formats import IMAGE_SUFFIXES, UNSUPPORTED_SUFFIXES, without_suffix
from naic.tasks.caption.options import STDIN

_IMAGES = IMAGE_SUFFIXES | UNSUPPORTED_SUFFIXES  # the latter fail by name when opened
_SUFFIXES = f"Images are known by their suffix: {', '.join(sorted(IMAGE_SUFFIXES))}."
_MAGIC = frozenset("*?[")
_ANY_DEPTH = "**"
_ADDRESSES = ("http:/", "https:/")  # a Path has one slash where two stood


class Found(NamedTuple):
    """An image; strings, since there may be millions.

    Attributes:
        path: as it was named, or found in a folder that was.
        name: its path beneath that folder, or its own name: what an output folder mirrors.
    """

    path: str
    name: str


class Findings(NamedTuple):
    """What the paths of a command stand for.

    Attributes:
        images: each once.
        problems: with the paths that give none.
        skipped: how many files that naic cannot open were left to an image of the same name.
    """

    images: list[Found]
    problems: list[Problem]
    skipped: int


class Places:
    """Tells files apart, however they are spelt: `p/0.jpg` and `/home/me/p/0.jpg` are one.

    Links to folders are followed, the file itself is not: a link beside its image has a name, and
    a text file, of its own. Each folder is looked at once, as there may be millions of images.
    """

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}

    def key(self, path: str) -> str:
        """The same for all spellings of one file."""
        folder, name = os.path.split(path)
        real = self._folders.get(folder)
        if real is None:
            real = self._folders[folder] = real_folder(folder)
        return os.path.join(real, name)  # noqa: PTH118


def real_folder(folder: str) -> str:
    """Its absolute path without links, if it can be had."""
    try:
        return os.path.realpath(folder)
    except (OSError, ValueError):  # the current folder is gone, or it is no path
        return folder


def find_images(
    paths: Sequence[Path],
    *,
    recursive: bool = True,
    listed: Callable[[], bytes] = bytes,
    null: bool = False,
) -> Findings:
    """The images that these paths stand for, each once, and the paths that give none.

    A path that is no folder and no pattern is an image, whatever its suffix: what is wrong with it
    shows when it is opened. Of several spellings of one image the first stays. `listed` gives what
    stands on standard input, for the path `-`.
    """
    found: dict[str, Found] = {}
    by_name: set[str] = set()
    problems: list[Problem] = []
    places = Places()
    for path in dict.fromkeys(paths):  # standard input can be read once only
        pattern = _is_pattern(path)
        for own in _named(path, problems, listed, null=null):
            if _is_address(own):
                problems.append(_not_fetched(own))
                continue
            if _is_nothing(own):
                why = "there is no such file or folder"
                problems.append(Problem(printable(str(own)), why, "Check the path."))
                continue
            folder = what_is(own) == "folder"
            for image in _images(own, folder, problems, recursive=recursive):
                key = places.key(image.path)
                found.setdefault(key, image)
                if not folder and not pattern:
                    by_name.add(key)
    skipped = _skipped(found, by_name)
    images = [own for key, own in found.items() if key not in skipped]
    return Findings(images, problems, len(skipped))


def find_in_folder(folder: str, *, recursive: bool = True) -> Findings:
    """The images in a folder, which may have none yet, and the folders that cannot be listed."""
    problems: list[Problem] = []
    found = {own.path: own for own in _in_folder(folder, problems, recursive=recursive)}
    skipped = _skipped(found, set())
    return Findings(
        [own for key, own in found.items() if key not in skipped], problems, len(skipped)
    )


def _named(
    path: Path, problems: list[Problem], listed: Callable[[], bytes], *, null: bool
) -> Sequence[Path]:
    """The path itself, those that it fits as a pattern, or those on standard input."""
    if str(path) == STDIN:
        names = read_list(listed(), null=null)
        if not names:
            why = "there is no name on standard input"
            problems.append(Problem(STDIN, why, "Pipe a list of images into the command."))
        return names
    return _matching(path, problems) if _is_pattern(path) else [path]


def _skipped(found: dict[str, Found], by_name: set[str]) -> set[str]:
    """Files that naic cannot open, and that lie beside an image of the same name that it can.

    Cameras write DSC1.CR2 and DSC1.jpg of one photo: a folder of such pairs is all captioned. What
    was named itself is not skipped in silence.
    """
    closed = {key for key in found if key not in by_name and cannot_open(key)}
    if not closed:
        return closed
    able = {without_suffix(key) for key in found if not cannot_open(key)}
    return {key for key in closed if without_suffix(key) in able}


def cannot_open(path: str) -> bool:
    """Whether the image is, by its name, one that naic does not open."""
    return os.path.splitext(path)[1].lower() in UNSUPPORTED_SUFFIXES  # noqa: PTH122


def _is_nothing(path: Path) -> bool:
    """Whether nothing is there, and by its name it might have been a folder."""
    try:
        path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return not is_image(path.name)
    except OSError:  # something may be there that cannot be looked at: opening it tells why
        pass
    return False


def _is_address(path: Path) -> bool:
    return str(path).startswith(_ADDRESSES) and not os.path.lexists(path)


def _not_fetched(path: Path) -> Problem:
    where = printable(str(path).replace(":/", "://", 1))
    return Problem(where, "naic fetches nothing", "Download it, and name the file.")


def read_list(data: bytes, *, null: bool) -> list[Path]:
    """The names in a list, one a line or, with `null`, each ended by NUL; empty ones are none."""
    if null:
        names = data.split(b"\0")
    elif b"\0" in data:
        why = "the names in the list end in NUL"
        raise ConfigError("standard input", why, "Add --null.")
    else:
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        names = [line.removesuffix(b"\r") for line in lines]  # of lists that Windows made
    return [Path(os.fsdecode(name)) for name in names if name]


def _images(path: Path, folder: bool, problems: list[Problem], *, recursive: bool) -> list[Found]:
    if not folder:
        return [Found(str(path), path.name)]
    before = len(problems)
    found = _in_folder(str(path), problems, recursive=recursive)
    if not found and len(problems) == before:
        hint = _SUFFIXES if recursive else f"{_SUFFIXES} Folders in it were not looked into."
        problems.append(Problem(printable(str(path)), "there is no image in it", hint))
    return found


def _in_folder(root: str, problems: list[Problem], *, recursive: bool) -> list[Found]:
    """The images in a folder, sorted by path; hidden files are passed over."""

    def failed(inner: str, error: OSError) -> None:
        why = f"the folder cannot be listed ({error.strerror or error})"
        problems.append(Problem(printable(inner), why, "Check its permissions."))

    # Joined as strings: a Path for each of a million files takes too long.
    names = [
        os.path.join(inner[len(root) :].lstrip("/"), name)  # noqa: PTH118
        for inner, files in islice(walk(root, failed), None if recursive else 1)
        for name in files
        if not name.startswith(".") and is_image(name)
    ]
    names.sort(key=lambda name: name.split("/"))
    return [Found(name if root == "." else os.path.join(root, name), name) for name in names]  # noqa: PTH118


def is_image(name: str) -> bool:
    """Whether a file is, by the suffix of its name, an image."""
    return os.path.splitext(name)[1].lower() in _IMAGES  # noqa: PTH122


def _is_pattern(path: Path) -> bool:
    """Whether a path has wildcards, and no file has just this name: `photo[1].jpg` is one."""
    if _MAGIC.isdisjoint(str(path)) or _is_address(path):  # which may have a question mark
        return False
    return not os.path.lexists(path)


def _matching(pattern: Path, problems: list[Problem]) -> list[Path]:
    """The images and the folders that a pattern stands for, sorted by path."""
    try:
        found = sorted(_glob(pattern), key=lambda path: path.parts)
    except (ValueError, OSError) as error:
        problems.append(Problem(printable(str(pattern)), f"no pattern ({error})", "Mend it."))
        return []
    if not found:
        why = "there is no such file, and as a pattern it fits no image"
        problems.append(Problem(printable(str(pattern)), why, _SUFFIXES))
    return found


def _glob(pattern: Path) -> Iterator[Path]:
    """As a shell would, but files of other kinds are passed over, as they are in a folder.

    With `**`, which fits every folder anyway, only files are taken. Links to folders are not
    followed by it, so a loop of them ends.
    """
    first = next(i for i, part in enumerate(pattern.parts) if not _MAGIC.isdisjoint(part))
    base, parts = Path(*pattern.parts[:first]), [*pattern.parts[first:]]
    if parts[-1] == _ANY_DEPTH:
        parts.append("*")
    hidden = any(part.startswith(".") for part in parts)
    for path in base.glob("/".join(parts)):
        inside = path.parts[len(base.parts) :]
        if not hidden and any(part.startswith(".") for part in inside):
            continue
        if what_is(path) == "folder":
            if _ANY_DEPTH not in parts:
                yield path
        elif is_image(path.name):
            yield path
