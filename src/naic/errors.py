"""What a task tells: the exceptions, each with what failed, why and what to do next, and callbacks.

There is one tree of exceptions, and one set of callbacks for what all tasks say while they run.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias


class NaicError(Exception):
    """Base of everything naic raises on purpose.

    Attributes:
        what: the thing concerned: a file, a row, an option.
        why: the reason, as a clause without a final period.
        hint: what the user can do about it, as a sentence.
    """

    def __init__(self, what: str, why: str, hint: str = "") -> None:
        super().__init__(what, why, hint)  # all three as args, so that it survives pickling
        self.what = what
        self.why = why
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.what}: {self.why}. {self.hint}".rstrip()


class ImageError(NaicError):
    """A file or some bytes that cannot be used as an image."""


class DataError(NaicError):
    """A dataset row that cannot be used: missing image, empty caption, duplicate, broken JSON."""


class VocabularyError(NaicError):
    """A vocabulary file that cannot be read, or words and ids that do not fit it."""


class StoreError(NaicError):
    """A feature store that is missing, damaged, in use, or made with other settings."""


class BackboneError(NaicError):
    """A backbone or its weights that cannot be had."""


class WriteError(NaicError):
    """A file that cannot be written: the disk is full, the folder is not ours."""


class ConfigError(NaicError):
    """An option or a config key that is unknown, or a value out of range."""


class CheckpointError(NaicError):
    """A checkpoint or a model folder that is missing, damaged, foreign, or of another model."""


class TrainingError(NaicError):
    """A training run that cannot go on: it collapsed, a worker died, a number is not finite."""


class MetricError(NaicError):
    """A metric that could not be computed: its reference program failed or ran out of time."""


class MissingExtraError(NaicError):
    """A package that belongs to an optional extra is not installed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that could not be used: where it is, why, and what to do."""

    where: str
    why: str
    hint: str


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a run is: things done, of how many, and how many of them could not be used."""

    done: int
    total: int
    bad: int = 0


Update: TypeAlias = Callable[[Progress], None]


def _ignore(_: object) -> None:
    """Nobody wants to know."""


@dataclass(frozen=True, slots=True)
class Callbacks:
    """Who is told of what while a task runs; by default nobody.

    Attributes:
        say: gets a line of text when something begins or ends.
        progress: begins to show the progress of what has this title, as long as its context lasts;
            the context gives what is called with each step.
        problem: gets what cannot be used, as soon as that is known.
    """

    say: Callable[[str], None] = _ignore
    progress: Callable[[str], AbstractContextManager[Update]] = lambda _: nullcontext(_ignore)
    problem: Callable[[Problem], None] = _ignore


SILENT = Callbacks()
