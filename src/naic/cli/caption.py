"""`naic caption PATH ...`."""

import json
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import tyro

from naic.cli.main import FAILED, SOME_SKIPPED
from naic.data.folders import printable
from naic.data.records import Problem
from naic.tasks.caption import Captioned, CaptionOptions, caption

if TYPE_CHECKING:
    from naic.runtime.captioner import Caption

DIGITS = 4  # of a confidence: what is behind them changes with the machine

HELP = """Say what is in pictures, with the model inside naic or one of your own.

A line for each picture, in the order of the names given. A picture that cannot be opened is named
on standard error, and the others are captioned. Exit code 3 means: done, but some pictures could
not be used; 1: none could."""


def run(arguments: Sequence[str]) -> int:
    """Parse, caption, print each caption as it comes."""
    options: CaptionOptions = tyro.cli(
        CaptionOptions, prog="naic caption", description=HELP, args=list(arguments)
    )
    captioned = bad = 0
    for outcome in caption(options):
        if isinstance(outcome, Problem):
            bad += 1
            where = f"{outcome.where}: {outcome.why}. {outcome.hint}".rstrip()
            print(f"naic caption: {where}", file=sys.stderr)
        else:
            captioned += 1
            print(_line(outcome, options), flush=True)  # now: there may be thousands to come
    if not captioned:
        return FAILED
    return SOME_SKIPPED if bad else 0


def _line(outcome: Captioned, options: CaptionOptions) -> str:
    if options.json:
        return json.dumps(_object(outcome, options))  # in ASCII: any name, on any terminal
    text = _with_confidence(outcome.caption) if options.confidence else outcome.caption.text
    return f"{printable(str(outcome.path))}: {text}"


def _object(outcome: Captioned, options: CaptionOptions) -> dict[str, Any]:
    said: dict[str, Any] = {"path": str(outcome.path), "caption": outcome.caption.text}
    if options.confidence:
        said["words"] = [
            {"word": word.text, "confidence": round(word.confidence, DIGITS)}
            for word in outcome.caption.words
        ]
    return said


def _with_confidence(said: "Caption") -> str:
    return " ".join(f"{word.text} ({word.confidence:.0%})" for word in said.words)
