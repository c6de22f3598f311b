"""A watch that sleeps by a script: what happens meanwhile is written down, and no time passes."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from naic.errors import ImageError, Problem
from naic.images.opening import open_image
from naic.progress import Callbacks
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.watch.options import WatchOptions
from naic.tasks.watch.run import Watched, watch
from tests.images.images import encode, photo
from tests.tasks.caption.small import says

JPEG, PNG = encode(photo(), "JPEG"), encode(photo(), "PNG")
Step = Callable[[], object]


@dataclass
class Night:
    """The clock and the alarm of a watch: it sleeps once for each step, and is stopped after them.

    A step that returns True rings: the watch wakes as early as it may.
    """

    steps: list[Step] = field(default_factory=list)
    now: float = 0.0
    slept: list[float] = field(default_factory=list)
    stopped: bool = False

    def __call__(self) -> float:
        return self.now

    def ring(self) -> None:
        raise AssertionError

    def wait(self, least: float, most: float) -> None:
        if not self.steps:
            self.stopped = True
            return
        rang = self.steps.pop(0)() is True
        self.slept.append(least if rang else most)
        self.now += self.slept[-1]


@dataclass
class Opening:
    """A captioner that opens the photos, and says what their names tell; `first` it does more."""

    first: Callable[[str], object] = id
    loaded: int = 0
    seen: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)

    def load(self, options: CaptionOptions) -> "Opening":
        self.loaded += 1
        return self

    def texts(self, images: Iterable[str], **how: Any) -> Iterator[Any]:
        for said in self.each(images, alternatives=0, **how):
            yield said if isinstance(said, ImageError) else said.text

    def each(self, images: Iterable[str], **how: Any) -> Iterator[Any]:
        paths = list(images)
        self.batches.append(len(paths))
        for path in paths:
            self.seen.append(Path(path).name)
            self.first(path)
            try:
                open_image(path)
            except ImageError as error:
                yield error
            else:
                yield says(path, how["alternatives"], how["max_words"])


@dataclass
class Heard:
    """All that a watch told."""

    lines: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    done: Watched | None = None


def nothing() -> None:
    """A step in which nothing happens."""


def drop(path: Path | str, data: bytes = JPEG) -> Step:
    """A step in which a file is written."""

    def write() -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).write_bytes(data)

    return write


def run(
    folder: Path | str,
    *steps: Step,
    fake: Opening | None = None,
    night: Night | None = None,
    poll: float | None = 5.0,
    **settings: Any,
) -> Heard:
    """One watch, which ends after the last step; by polling, unless it is told otherwise."""
    heard = Heard()
    fake, night = fake or Opening(), night or Night()
    night.steps.extend(steps)
    once = settings.get("once", False)
    options = WatchOptions(Path(folder), poll=None if once else poll, **settings)
    callbacks = Callbacks(heard.said.append, problem=heard.problems.append)
    lines = heard.lines.append
    heard.done = watch(options, lines, callbacks, night, load=fake.load, clock=night)
    return heard


def texts(folder: Path | str) -> set[str]:
    """The text files that are there."""
    return {str(path.relative_to(folder)) for path in Path(folder).rglob("*.txt")}
