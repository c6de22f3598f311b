"""What wakes a watch: the file system's events, where there are any, and whoever stops it."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Protocol

from naic.errors import Problem
from naic.files import printable
from naic.tasks.caption.find import is_image

# Reading a photo is no news, and what is gone needs no caption.
_NO_NEWS = ("opened", "closed_no_write", "deleted")
# Of a folder: that something in it changed is told of that thing, too.
_NEW_FOLDER = ("created", "moved")


class Alarm(Protocol):
    """What a watch sleeps by."""

    @property
    def stopped(self) -> bool:
        """Whether the watch is to end."""
        ...

    def ring(self) -> None:
        """Something may be new."""
        ...

    def wait(self, least: float, most: float) -> None:
        """Sleep for `least` seconds, and on until it rings, or for `most` in all."""
        ...


class Bell:
    """An alarm that signal handlers and other threads may ring.

    A SimpleQueue may be put to within a signal handler, whatever the program was doing; a lock, and
    so an Event, may not.
    """

    def __init__(self) -> None:
        self._rings: SimpleQueue[None] = SimpleQueue()
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether someone stopped it."""
        return self._stopped

    def ring(self) -> None:
        """Wake who waits; thousands of rings before that are as good as one."""
        if self._rings.empty():
            self._rings.put(None)

    def stop(self) -> None:
        """End all waiting, now and later."""
        self._stopped = True
        self._rings.put(None)

    def wait(self, least: float, most: float) -> None:
        """Sleep for `least` seconds, and on until it rings, or for `most` in all."""
        began, until = time.monotonic(), max(least, most)
        while not self._stopped and (left := began + until - time.monotonic()) > 0:
            with suppress(Empty):
                self._rings.get(timeout=left)
                until = least


@contextmanager
def events(folder: Path, ring: Callable[[], None], *, recursive: bool) -> Iterator[Problem | None]:
    """Have `ring` called when a photo or a folder comes; gives why there are no events, if so."""
    try:
        from watchdog.events import FileSystemEvent, FileSystemEventHandler
        from watchdog.observers import Observer
    except ImportError:
        why = "watchdog is not installed, which tells of new files"
        yield Problem("naic[watch]", why, "The folder is looked at now and then instead.")
        return

    class Handler(FileSystemEventHandler):
        def on_any_event(self, event: FileSystemEvent) -> None:
            path = os.fsdecode(event.dest_path or event.src_path)
            if is_news(event.event_type, path, folder=event.is_directory):
                ring()

    observer = Observer()
    try:
        # A link to a folder sends no events of what is in the folder.
        observer.schedule(Handler(), os.path.realpath(folder), recursive=recursive)
        observer.start()
    except OSError as error:  # too many watches for the system, or none at all
        why = f"its events cannot be had ({error.strerror or error})"
        hint = "It is looked at now and then instead."
        yield Problem(printable(str(folder)), why, hint)
        return
    try:
        yield None
    finally:
        observer.stop()
        observer.join()


def is_news(kind: str, path: str, *, folder: bool) -> bool:
    """Whether an event may be of a new photo."""
    if folder:
        return kind in _NEW_FOLDER
    name = os.path.basename(path)  # noqa: PTH119
    return kind not in _NO_NEWS and not name.startswith(".") and is_image(name)
