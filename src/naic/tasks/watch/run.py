"""`naic watch`: photos are captioned as they arrive, by the code of `naic caption`."""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from naic.errors import ImageError, Problem, StoreError
from naic.files import printable
from naic.images.formats import without_suffix
from naic.progress import Callbacks
from naic.resume import locked
from naic.tasks.caption.find import Found
from naic.tasks.caption.metadata.exiftool import find_exiftool
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.output import digest
from naic.tasks.caption.rows import Rows
from naic.tasks.caption.run import caption_beside
from naic.tasks.caption.speaker import Said, Speaker, load_captioner
from naic.tasks.watch.arrivals import Arrivals, Clock
from naic.tasks.watch.events import Alarm, events
from naic.tasks.watch.options import OFTEN, SELDOM, WatchOptions
from naic.tasks.watch.record import Record, hold

if TYPE_CHECKING:  # not before there is work for it
    from naic.runtime.captioner import Caption

Told = TypeVar("Told", "Caption", str)
AT_LEAST = 0.5  # seconds between looks, however many events there are
REST = 10  # times what a look took: of a large folder, a look takes a tenth of the time at most
BUSY = 10.0  # seconds until a folder is tried again that another run writes to
UNWRITABLE = 600.0  # seconds until a text is tried again that could not be written


@dataclass(slots=True)
class Watched:
    """What came of a watch.

    Attributes:
        captions: how many photos got one.
        bad: how many things were told of that could not be used.
    """

    captions: int = 0
    bad: int = 0


def watch(
    options: WatchOptions,
    said: Callable[[str], None],
    callbacks: Callbacks,
    alarm: Alarm,
    *,
    load: Callable[[CaptionOptions], Speaker] | None = None,
    clock: Clock = time.monotonic,
) -> Watched:
    """Caption what is new in the folder, again and again until the alarm is stopped.

    Args:
        options: which folder, and how.
        said: gets the line of each photo that has been captioned.
        callbacks: who is told of problems, and of how it is watched.
        alarm: what it sleeps by.
        load: gives the captioner. A watch loads it at once, so that what cannot work says so when
            it is started; with `once` it is loaded for the first new photo.
        clock: gives seconds.

    Raises:
        ConfigError: an option is wrong, or ExifTool is needed and not installed.
        CheckpointError: the model cannot be used.
        StoreError: another watch has the folder, or the folder is gone.
        WriteError: the texts cannot be written, as on a full disk.
    """
    options.check()
    options.check_folders()
    if options.write == "exif":
        find_exiftool()
    with hold(options.place, digest(options.captioning()), callbacks.problem) as record:
        loading = load or partial(load_captioner, callbacks.problem)
        own = _Watch(options, said, callbacks, record, loading, clock)
        if options.once:
            own.once(alarm)
            return own.done
        own.speaker()
        with _wakes(options, alarm) as blind:
            every = options.poll or (OFTEN if blind else SELDOM)
            if blind is not None:
                callbacks.problem(blind)
            callbacks.say(f"watching {printable(str(options.folder))}, a look every {every:g} s")
            own.on(alarm, every)
        return own.done


def _wakes(options: WatchOptions, alarm: Alarm) -> AbstractContextManager[Problem | None]:
    if options.poll is not None:
        return nullcontext()
    return events(options.folder, alarm.ring, recursive=options.recursive)


class _Watch:
    """A watch at work."""

    def __init__(
        self,
        options: WatchOptions,
        said: Callable[[str], None],
        callbacks: Callbacks,
        record: Record,
        load: Callable[[CaptionOptions], Speaker],
        clock: Clock,
    ) -> None:
        self.done = Watched()
        self._options = options
        self._captioning = options.captioning()
        self._said = said
        self._callbacks = callbacks
        self._load = load
        self._clock = clock
        self._loaded: Speaker | None = None
        self._told: set[Problem] = set()
        self._arrivals = Arrivals(options, record, self._tell_once, clock)
        self._rows = Rows(replace(self._captioning, format="text"))

    def speaker(self) -> Speaker:
        """The captioner, loaded when it is first asked for."""
        if self._loaded is None:
            self._loaded = self._load(self._captioning)
        return self._loaded

    def on(self, alarm: Alarm, every: float) -> None:
        """Look, caption and sleep until the alarm is stopped."""
        while not alarm.stopped:
            began = self._clock()
            whole = self._arrivals.look()
            took = self._clock() - began
            self._caption(whole, alarm)
            rest = max(AT_LEAST, REST * took)
            alarm.wait(rest, max(rest, min(every, self._arrivals.due())))

    def once(self, alarm: Alarm) -> None:
        """Caption what is there and whole; what is still written to is left for the next time."""
        whole = self._arrivals.look()
        if not whole and self._arrivals.due() <= self._options.settle:
            until = self._clock() + self._options.settle
            while not alarm.stopped and (left := until - self._clock()) > 0:
                alarm.wait(left, left)
            whole = self._arrivals.look()
        self._caption(whole, alarm)

    def _caption(self, images: Sequence[Found], alarm: Alarm) -> None:
        """Caption them a batch at a time, and end after the batch in hand."""
        size = self._options.batch
        for start in range(0, len(images), size):
            if alarm.stopped:
                return
            batch = [image for image in images[start : start + size] if not self._busy(image)]
            if batch:
                self._batch(batch)

    def _batch(self, images: Sequence[Found]) -> None:
        heard: list[Problem] = []
        careful = _Careful(self.speaker(), self._arrivals)
        try:
            caption_beside(self._captioning, images, Callbacks(problem=heard.append), careful)
        except StoreError as error:  # between our look at its lock and our own
            self._tell_once(Problem(error.what, error.why, "Its photos wait until that has ended."))
            for image in images:
                self._arrivals.put_off(image, BUSY)
            return
        finally:
            bad = {problem.where: problem for problem in heard}
            self._say_what_is_done(images, careful.captions, bad)
        for image in images:
            where = printable(image.path)
            if self._arrivals.done(image) or image.path in careful.changed:
                bad.pop(where, None)  # a photo that changed, or is gone, is no news
            elif where in bad:
                self._tell_of(image, bad.pop(where), careful.captions)
                self._arrivals.give_up(image)
            elif self._written(image, bad):
                self._arrivals.leave_alone(image)
            else:
                self._arrivals.put_off(image, UNWRITABLE)
        for problem in bad.values():  # with texts
            self._tell_once(problem)

    def _tell_of(self, image: Found, problem: Problem, captions: dict[str, Said]) -> None:
        """What is left out by --min-confidence is told of, and is nothing bad."""
        least = self._options.min_confidence or 0.0
        said = captions.get(image.path, "")
        if not isinstance(said, str) and said.confidence < least:
            self._callbacks.problem(problem)
        else:
            self._tell(problem)

    def _written(self, image: Found, bad: Container[str]) -> bool:
        """Whether --write did with a photo what was to be done: nothing bad was heard of it."""
        names = (image.path, f"{without_suffix(image.path)}.xmp", f"{image.path}.xmp")
        return self._options.write is not None and not any(printable(own) in bad for own in names)

    def _say_what_is_done(
        self, images: Sequence[Found], captions: dict[str, Said], bad: Container[str]
    ) -> None:
        for image in images:
            done = self._arrivals.done(image) or self._written(image, bad)
            if image.path in captions and done:
                self.done.captions += 1
                self._said(self._rows.row(image.path, captions[image.path]))

    def _busy(self, image: Found) -> bool:
        """Whether another run writes where the text goes; its photo then waits, unlooked at."""
        folder = self._options.out or Path(image.path).parent
        try:
            with locked(folder):
                return False
        except StoreError as error:
            if error.__cause__ is not None:  # no locks there, or no folder yet
                return False
            hint = "Its photos wait until that has ended."
            self._tell_once(Problem(printable(error.what), error.why, hint))
            self._arrivals.put_off(image, BUSY)
            return True

    def _tell_once(self, problem: Problem) -> None:
        if problem not in self._told:
            self._told.add(problem)
            self._tell(problem)

    def _tell(self, problem: Problem) -> None:
        self.done.bad += 1
        self._callbacks.problem(problem)


class _Careful:
    """A captioner that gives up on photos that change while it looks at them.

    Attributes:
        captions: what it said, by path.
        changed: the paths of photos that are others by now, or gone.
    """

    def __init__(self, speaker: Speaker, arrivals: Arrivals) -> None:
        self._speaker = speaker
        self._arrivals = arrivals
        self.captions: dict[str, Said] = {}
        self.changed: set[str] = set()

    def each(self, images: Iterable[str], **how: Any) -> "Iterator[Caption | ImageError]":  # noqa: ANN401
        """For each image, in order, its caption, or why it has none."""
        return self._kept(images, partial(self._speaker.each, **how))

    def texts(self, images: Iterable[str], **how: Any) -> Iterator[str | ImageError]:  # noqa: ANN401
        """The same as text alone."""
        return self._kept(images, partial(self._speaker.texts, **how))

    def _kept(
        self, images: Iterable[str], speak: Callable[[Iterable[str]], Iterator[Told | ImageError]]
    ) -> Iterator[Told | ImageError]:
        paths = list(images)
        for path, outcome in zip(paths, speak(paths), strict=True):
            if self._arrivals.changed(path):
                self.changed.add(path)
                yield ImageError(printable(path), "it changed while it was looked at")
                continue
            if not isinstance(outcome, ImageError):
                self.captions[path] = outcome
            yield outcome
