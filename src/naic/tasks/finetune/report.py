"""What came of a fine-tuning: report.json, and what is said of it."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from naic.config import structure
from naic.errors import ConfigError, Problem, StoreError
from naic.tasks.finetune.judge import Gain


@dataclass(frozen=True, slots=True)
class HeldOutScore:
    """How good captions of the held-out images are, as shares of 1."""

    cider: float
    bad_endings: float


@dataclass(frozen=True, slots=True)
class BeforeAfter:
    """What was said of an image that was held out."""

    id: str
    before: str
    after: str


Kept = Literal["as it was", "style", "weights"]  # what DIR/best has that the model had not


@dataclass(frozen=True, slots=True)
class Finetuned:
    """What came of it; report.json holds the same.

    Attributes:
        command: what was run.
        kept: what of it is in DIR/best.
        verdict: how much better that is, in words.
        before: the scores of the model as it was.
        after: the scores of DIR/best.
        gain: of CIDEr, with its interval.
        tuned: the scores of the tuned weights, kept or not; None: there was nothing to learn.
        style: the style that was found, in words; empty: none.
        explained: the share of photos whose caption is just what the model says, in this style.
        around: what `--prefix` and `--suffix` of `naic caption` would do as well.
        learnt_from: how many photos.
        held_out: how many were kept aside.
        epochs: how often each was learnt from.
        new_words: words that the model did not know.
        instead_of: for each of these the model's words in whose place it was learnt.
        unknown: other words of the captions that it does not know.
        seconds: how long it took.
        problems: rows and photos that could not be used.
        examples: what was said of the photos kept aside.
    """

    command: str
    kept: Kept
    verdict: str
    before: HeldOutScore
    after: HeldOutScore
    gain: Gain
    tuned: HeldOutScore | None
    style: str
    explained: float
    around: tuple[str, str] | None
    learnt_from: int
    held_out: int
    epochs: int
    new_words: tuple[str, ...]
    instead_of: dict[str, tuple[str, ...]]
    unknown: tuple[str, ...]
    seconds: float
    problems: tuple[Problem, ...]
    examples: tuple[BeforeAfter, ...]


def read_report(path: Path) -> Finetuned:
    """What a finished run left.

    Raises:
        StoreError: it is damaged.
    """
    try:
        values = json.loads(path.read_bytes())
        return structure(values, Finetuned, str(path))
    except (ValueError, ConfigError) as error:
        why = f"is not as it was written ({error})"
        raise StoreError(str(path), why, "Delete it to have it made anew.") from error
