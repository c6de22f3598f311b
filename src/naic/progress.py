"""How a task tells what it does while it runs: one set of callbacks for all tasks."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TypeAlias

from naic.errors import Problem


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
