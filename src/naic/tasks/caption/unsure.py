"""A caption that is left out, since the model is less sure of it than was asked for."""

from dataclasses import dataclass

from naic.errors import Problem
from naic.files import printable


@dataclass(frozen=True, slots=True)
class Unsure:
    """What came of an image whose caption is left out.

    Attributes:
        confidence: how sure the model is of the caption.
    """

    confidence: float

    def told(self, path: str) -> Problem:
        """What people are told of it."""
        why = f"left out: its caption is only {self.confidence:.1%} sure"
        return Problem(printable(path), why, "Lower --min-confidence to have it.")
