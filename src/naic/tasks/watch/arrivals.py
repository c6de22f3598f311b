"""Which photos of a folder are new, and whole.

Each look lists the folder afresh: it relies on no event, so whatever was missed is found by the
next one, and what events are for is to have it soon.
"""

import os
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from naic.errors import Problem, StoreError
from naic.files import printable
from naic.images.formats import without_suffix
from naic.tasks.caption.find import Found, cannot_open, find_in_folder
from naic.tasks.caption.sidecars import Texts, sidecar
from naic.tasks.watch.options import WatchOptions
from naic.tasks.watch.record import Record, Signature, signature_of

Clock = Callable[[], float]


class _Waiting(NamedTuple):
    """A photo that may still be written to: as what it was seen, and since when it is that."""

    seen: Signature
    since: float


class Arrivals:
    """The photos of a folder that have no text yet, each from when it came until it has one.

    `tell` hears of folders that cannot be listed, and of photos that cannot have a text.
    """

    def __init__(
        self, options: WatchOptions, record: Record, tell: Callable[[Problem], None], clock: Clock
    ) -> None:
        self._options = options
        self._folder = str(options.folder)
        self._record = record
        self._tell = tell
        self._clock = clock
        self._root = _identity(self._folder)
        self._waiting: dict[str, _Waiting] = {}
        self._later: dict[str, float] = {}
        self._texts = Texts([], options.out, keep=True)

    def look(self) -> list[Found]:
        """The photos that are new and have not changed for a while, sorted by path.

        Raises:
            StoreError: the folder is gone, or another one has its place.
        """
        self._refuse_another_folder()
        found = find_in_folder(self._folder, recursive=self._options.recursive)
        for problem in found.problems:
            self._tell(problem)
        now = self._clock()
        self._later = {path: until for path, until in self._later.items() if until > now}
        waiting, whole, in_vain = dict[str, _Waiting](), list[Found](), set[str]()
        for image in self._owners(found.images, in_vain):
            seen = signature_of(image.path)
            if seen is not None and self._record.tried(image.name, seen):
                in_vain.add(image.name)
                continue
            if seen is None or image.path in self._later:
                continue
            before = self._waiting.get(image.path)
            since = before.since if before is not None and before.seen == seen else now
            waiting[image.path] = _Waiting(seen, since)
            if now - since >= self._options.settle:
                whole.append(image)
        self._waiting = waiting
        if not found.problems:  # what cannot be listed now may be there
            self._record.keep(in_vain)
        return whole

    def due(self) -> float:
        """In how many seconds a photo that is known may be ready; infinity if none waits."""
        now = self._clock()
        times = [own.since + self._options.settle for own in self._waiting.values()]
        return max(min([*times, *self._later.values()], default=float("inf")) - now, 0.0)

    def changed(self, path: str) -> bool:
        """Whether a photo that `look` found is another by now, or gone."""
        return signature_of(path) != self._waiting[path].seen

    def give_up(self, image: Found) -> None:
        """Leave a photo alone until it changes."""
        self._record.note(image.name, self._waiting[image.path].seen)

    def leave_alone(self, image: Found) -> None:
        """The same from now on: its caption was written into it just now, or need not be."""
        if seen := signature_of(image.path):
            self._record.note(image.name, seen)

    def put_off(self, image: Found, seconds: float) -> None:
        """Leave a photo alone for a while."""
        self._later[image.path] = self._clock() + seconds

    def done(self, image: Found) -> bool:
        """Whether a photo has its text; metadata show by no name: see `leave_alone`."""
        if self._options.write is not None:
            return False
        full = sidecar(image, self._options.out, full=True)  # if a namesake came just now
        return any(map(os.path.lexists, (self._texts.of(image), full)))

    def _owners(self, images: Sequence[Found], in_vain: set[str]) -> Iterator[Found]:
        """The photos without a text; of those that would have the same one, the first.

        The others are told of, and their names are put to those that are tried `in_vain`. With
        --write they have no text, and all are given.
        """
        if self._options.write is not None:
            yield from images
            return
        self._texts = Texts(images, self._options.out, keep=True)
        for own in self._texts.owners.values():
            kept = next((image for image in own if not cannot_open(image.path)), own[0])
            for image in own:
                if image is not kept:
                    self._tell_of_two(image, kept)
                    in_vain.add(image.name)
            if not self.done(kept):
                yield kept

    def _tell_of_two(self, image: Found, kept: Found) -> None:
        seen = signature_of(image.path)
        if seen is None or self._record.tried(image.name, seen):
            return
        text = printable(without_suffix(kept.name))
        why = f"it and {printable(kept.path)} have one text file, {text}.txt"
        hint = "That is of one of them only. Give the other another name."
        self._tell(Problem(printable(image.path), why, hint))
        self._record.note(image.name, seen)

    def _refuse_another_folder(self) -> None:
        now = _identity(self._folder)
        if now is None or now != self._root:
            why = "the folder is gone, or another has its place, as when a disk is unmounted"
            raise StoreError(printable(self._folder), why, "Bring it back, and start again.")


def _identity(folder: str) -> tuple[int, int] | None:
    """What tells one folder from another that has its name; None: there is no folder."""
    try:
        found = os.stat(folder)  # noqa: PTH116
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISDIR(found.st_mode) else None
