"""`naic caption PATH ...`."""

import contextlib
import io
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TextIO

from naic.cli.main import FAILED, INTERRUPTED, SOME_SKIPPED, parse
from naic.cli.screen import progress, teller
from naic.errors import WriteError
from naic.files import printable
from naic.progress import SILENT, Callbacks, Update
from naic.tasks.caption.options import CaptionOptions
from naic.tasks.caption.run import Captioned, caption

HELP = """Say what is in images, with the model inside naic or one of your own.

Captions come in the order of the names given, folders sorted. An image that cannot be opened is
named on standard error, and the others are captioned; so is one whose caption --min-confidence
leaves out. A run with --out, --format txt or --write that was cut off goes on when the same command
is given again. Exit code 3 means: done, but some images could not be used; 1: none could. A caption
that is left out changes no exit code."""
OPTIONS = CaptionOptions  # what the verb takes: shell completion finds it here
_SKIPPED = "not opened, in favour of an image of the same name in a format that naic can open"


def run(arguments: Sequence[str]) -> int:
    """Parse, caption, report."""
    options = parse(CaptionOptions, "caption", HELP, arguments)
    printed = printer(sys.stdout)  # before a bar begins: it would catch what is printed
    try:
        callbacks = Callbacks(progress=_progress(options), problem=teller("caption"))
        done = caption(options, printed, callbacks, listed=_standard_input)
    except KeyboardInterrupt:
        print(f"\nnaic caption: stopped.{_goes_on(options)}", file=sys.stderr)
        return INTERRUPTED
    if not done.captions and not done.kept and not done.unsure:
        return FAILED
    if not options.prints:
        with contextlib.suppress(BrokenPipeError):  # the files are made, whoever hears of it
            print(_summary(done, options))
    return SOME_SKIPPED if done.bad else 0


def printer(out: TextIO) -> Callable[[str], None]:
    """What prints a piece at once: there may be thousands to come."""
    if isinstance(out, io.TextIOWrapper):
        out.reconfigure(errors="backslashreplace")  # a name that the terminal has no letters for

    def printed(piece: str) -> None:
        try:
            out.write(piece)
            out.flush()
        except BrokenPipeError:  # `naic caption photos | head`: nothing is wrong
            raise
        except OSError as error:
            # What could not be written must not be tried again, and fail again, at our end.
            os.dup2(os.open(os.devnull, os.O_WRONLY), out.fileno())
            why = f"it cannot be written to ({error.strerror})"
            hint = "Free some space, or use --out, which can go on afterwards."
            raise WriteError("standard output", why, hint) from error

    return printed


def _standard_input() -> bytes:
    return sys.stdin.buffer.read() if sys.stdin else b""


def _progress(options: CaptionOptions) -> Callable[[str], AbstractContextManager[Update]]:
    """A bar, unless it would stand between captions on the screen; printing is no news in a log."""
    if options.prints and (sys.stdout.isatty() or not sys.stderr.isatty()):
        return SILENT.progress
    return progress


def _goes_on(options: CaptionOptions) -> str:
    if options.prints:
        return ""
    if options.write == "exif" or options.undo:
        return " All photos are whole; the same command goes on."
    if options.kind == "txt" and options.existing in ("overwrite", "append"):
        return " All files are whole; the same command begins again."
    return " The same command goes on."


def _summary(done: Captioned, options: CaptionOptions) -> str:
    bad = f"; {done.bad:,} could not be used" if done.bad else ""
    if options.undo:
        return f"taken back: {done.captions:,}; {done.kept:,} had nothing of naic{bad}"
    where = f"in {printable(str(options.out))}" if options.out else "beside their images"
    if options.write is not None:
        where = "in XMP files" if options.write == "xmp" else "in their photos"
    resumed = f", {done.resumed:,} of them from before" if done.resumed else ""
    stay = "stay as they are" if options.write else "were there already"
    kept = f"; {done.kept:,} {stay}" if done.kept else ""
    skipped = f"; {done.skipped:,} {_SKIPPED}" if done.skipped else ""
    new = " new" if done.kept else ""
    unsure = f"; {done.unsure:,} left out, below --min-confidence" if done.unsure else ""
    return f"captions: {done.captions:,}{new} {where}{resumed}{kept}{skipped}{unsure}{bad}"
