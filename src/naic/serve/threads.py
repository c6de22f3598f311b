"""Work in threads that nobody waits for at the end.

Those of asyncio.to_thread are joined when the loop ends, and one that hangs holds up the server.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")


def aside(work: Callable[[], T], name: str) -> "Future[T]":
    """What `work` will have given, in a thread of that name; it cannot be cancelled."""
    done = Future[T]()
    done.set_running_or_notify_cancel()  # from now on it can be told, if to nobody

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:
            done.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return done
