"""`naic watch FOLDER`."""

import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from naic.cli.caption import printer
from naic.cli.main import GOES_ON, INTERRUPTED, SOME_SKIPPED, parse
from naic.errors import Problem
from naic.progress import Callbacks
from naic.tasks.watch.events import Bell
from naic.tasks.watch.options import WatchOptions
from naic.tasks.watch.run import watch

HELP = """Caption photos as they arrive in a folder: photo.txt beside each photo.jpg.

Each new photo gets a line on standard output when it has its text; what cannot be used is named on
standard error, once, and tried again when it changes. Photos that have a text are left alone, so
after a restart the watch goes on. SIGTERM ends it after the photos in hand, with exit code 0.
With --once, exit code 3 means: done, but some photos could not be used."""
OPTIONS = WatchOptions  # what the verb takes: shell completion finds it here


def run(arguments: Sequence[str]) -> int:
    """Parse, watch until someone stops it."""
    options = parse(WatchOptions, "watch", HELP, arguments)
    printed = printer(sys.stdout)
    callbacks = Callbacks(lambda text: _tell(f"{text}."), problem=_tell_of)
    bell = Bell()
    with _stopped_by_signals(bell) as heard:
        done = watch(options, lambda line: printed(f"{line}\n"), callbacks, bell)
    if signal.SIGINT in heard:
        print(f"\nnaic watch: stopped.{GOES_ON['watch']}", file=sys.stderr)
        return INTERRUPTED
    return SOME_SKIPPED if options.once and done.bad else 0


@contextmanager
def _stopped_by_signals(bell: Bell) -> Iterator[list[int]]:
    """Let Ctrl-C and SIGTERM stop the bell, and at the second time everything; gives which did."""
    heard: list[int] = []

    def stop(number: int, _: FrameType | None) -> None:
        if heard:
            raise KeyboardInterrupt
        heard.append(number)
        bell.stop()

    before = {}
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) != signal.SIG_IGN:  # as nohup and shells' jobs have it
            before[number] = signal.signal(number, stop)
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell_of(problem: Problem) -> None:
    _tell(str(problem))


def _tell(text: str) -> None:
    print(f"naic watch: {text}", file=sys.stderr, flush=True)
