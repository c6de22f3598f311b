"""`naic caption`: pictures in, what a model says of them out, in the order in which they came."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naic.data.folders import printable, walk
from naic.data.readers.files import what_is
from naic.data.records import Problem
from naic.errors import ConfigError, ImageError
from naic.images import IMAGE_SUFFIXES, UNSUPPORTED_SUFFIXES
from naic.tasks.caption_options import CaptionOptions

if TYPE_CHECKING:  # torch takes a second to import: not before there is work for it
    from naic.runtime.captioner import Caption, Captioner

__all__ = ["CaptionOptions", "Captioned", "caption", "find_pictures"]

_PICTURES = IMAGE_SUFFIXES | UNSUPPORTED_SUFFIXES  # the latter fail by name when opened


@dataclass(frozen=True, slots=True)
class Captioned:
    """A picture and what was said of it."""

    path: Path
    caption: "Caption"


def caption(options: CaptionOptions) -> Iterator[Captioned | Problem]:
    """For each picture its caption, or the problem with it; they come as soon as they are known.

    Raises:
        ConfigError: there is nothing to caption.
        CheckpointError: the model cannot be used.
    """
    from naic.runtime.captioner import Captioner

    options.check()
    pictures, problems = find_pictures(options.paths)
    if not pictures:
        first = problems[0]
        raise ConfigError(first.where, first.why, first.hint)
    captioner = Captioner(options.model, device=options.device)
    return _outcomes(captioner, pictures, problems, options.batch)


def find_pictures(paths: Sequence[Path]) -> tuple[list[Path], list[Problem]]:
    """The pictures that these paths stand for, and the folders that give none.

    A path that is no folder is taken at its word: what is wrong with it shows when it is opened.
    """
    pictures: list[Path] = []
    problems: list[Problem] = []
    for path in paths:
        found = _in_folder(path, problems) if what_is(path) == "folder" else [path]
        if not found:
            hint = f"Pictures are known by their suffix: {', '.join(sorted(IMAGE_SUFFIXES))}."
            problems.append(Problem(printable(str(path)), "there is no picture in it", hint))
        pictures += found
    return pictures, problems


def _in_folder(folder: Path, problems: list[Problem]) -> list[Path]:
    """All pictures beneath a folder, sorted by path; hidden files are passed over."""

    def failed(inner: str, error: OSError) -> None:
        why = f"the folder cannot be listed ({error.strerror or error})"
        problems.append(Problem(printable(inner), why, "Check its permissions."))

    found = [
        Path(inner, name)
        for inner, names in walk(str(folder), failed)
        for name in names
        if not name.startswith(".") and os.path.splitext(name)[1].lower() in _PICTURES  # noqa: PTH122
    ]
    return sorted(found, key=lambda path: path.parts)


def _outcomes(
    captioner: "Captioner", pictures: Sequence[Path], problems: Sequence[Problem], batch: int
) -> Iterator[Captioned | Problem]:
    yield from problems
    for path, outcome in zip(pictures, captioner.each(pictures, batch=batch), strict=True):
        if isinstance(outcome, ImageError):
            yield Problem(outcome.what, outcome.why, outcome.hint)
        else:
            yield Captioned(path, outcome)
