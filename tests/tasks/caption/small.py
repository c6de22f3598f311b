"""A captioner that needs no model, and runs of `naic caption` that end where they are told to."""

import zlib
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

from naic.decode.wishes import Wishes
from naic.errors import ImageError, Problem
from naic.progress import Callbacks, Progress
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.run import Captioned, caption

THINGS = ("cat", "dog", "red bus", "bowl of soup")


@dataclass(frozen=True)
class Word:
    text: str
    confidence: float


@dataclass(frozen=True)
class Said:
    """Shaped as naic.runtime's Caption, which would bring torch along."""

    text: str
    words: tuple[Word, ...]
    confidence: float = 0.25
    alternatives: tuple[Word, ...] = ()
    probability: float = 0.25
    calibrated: bool = False


def says(path: str, alternatives: int = 0, max_words: int | None = None) -> Said:
    """Depends on the name of the image, and on nothing else; of one that is "dim" it is unsure."""
    number = zlib.crc32(Path(path).name.encode("utf-8", "surrogateescape"))
    words = f"a {THINGS[number % len(THINGS)]} seen from above".split()[:max_words]
    said = tuple(Word(word, 1 / (2 + place)) for place, word in enumerate(words))
    text = " ".join(words)
    sure = 0.1 if "dim" in Path(path).name else 0.25
    others = [Word(text, sure), *(Word(f"{text} {n}", 0.0123456 / n) for n in range(2, 9))]
    return Said(text, said, others[0].confidence, tuple(others[:alternatives]))


@dataclass
class Fake:
    """Names with "bad" in them are no images; after `breaks_at` captions it is stopped."""

    breaks_at: int | None = None
    seen: list[str] = field(default_factory=list)
    batches: list[int] = field(default_factory=list)
    wishes: list[Wishes] = field(default_factory=list)
    texts_alone: int = 0

    def load(self, options: CaptionOptions) -> "Fake":
        return self

    def texts(
        self, images: Iterable[str], *, batch: int, **wishes: Unpack[Wishes]
    ) -> Iterator[Any]:
        self.texts_alone += 1
        for said in self.each(images, batch=batch, alternatives=0, **wishes):
            yield said if isinstance(said, ImageError) else said.text

    def each(
        self, images: Iterable[str], *, batch: int, alternatives: int, **wishes: Unpack[Wishes]
    ) -> Iterator[Any]:
        self.batches.append(batch)
        self.wishes.append(wishes)
        for number, path in enumerate(images):
            if number == self.breaks_at:
                raise KeyboardInterrupt
            self.seen.append(path)
            if "bad" in Path(path).name:
                yield ImageError(path, "it is torn", "Mend it.")
            else:
                yield says(path, alternatives, wishes.get("max_words"))


@dataclass
class Heard:
    """All that a run said."""

    pieces: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    reports: list[Progress] = field(default_factory=list)

    @property
    def out(self) -> str:
        return "".join(self.pieces)

    def callbacks(self) -> Callbacks:
        return Callbacks(
            progress=lambda _: nullcontext(self.reports.append), problem=self.problems.append
        )


NO_MODEL = Path("no-such-model")


def run(
    *paths: Path | str, fake: Fake | None = None, listed: bytes = b"", **settings: Any
) -> tuple[Captioned, Heard]:
    """One run, with the fake in the model's place."""
    heard = Heard()
    options = CaptionOptions(tuple(map(Path, paths)), NO_MODEL, **settings)
    fake = fake or Fake()
    callbacks = heard.callbacks()
    printed = heard.pieces.append
    return caption(options, printed, callbacks, listed=lambda: listed, load=fake.load), heard


def touch(folder: Path, *names: str) -> Path:
    """A folder of files that nobody opens."""
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return folder
