"""A worker must not outlive its launcher: an orphan would hold its GPU and its port for hours."""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import time

LAUNCHER_PID = "NAIC_LAUNCHER_PID"
POLL_SECONDS = 1.0
PR_SET_PDEATHSIG = 1  # Linux, <sys/prctl.h>
ORPHANED = 1  # the exit code: nobody is left to read it


def watch_parent() -> None:
    """End this process, wherever it is stuck, as soon as its parent is gone.

    Call it first thing in a worker, in the main thread. On Linux the kernel kills the worker, even
    inside C code that holds the interpreter. Elsewhere a thread looks once a second, which needs
    the interpreter: collectives and sleeps release it.
    """
    # A launcher of ours names itself, so that one who died before this line is missed too. The
    # name is for this process alone, not for programs that it starts.
    named = os.environ.pop(LAUNCHER_PID, None)
    parent = int(named) if named else os.getppid()
    if sys.platform == "linux":
        _ask_the_kernel()
    if os.getppid() != parent:  # after the request: who dies from here on is seen by the kernel
        os._exit(ORPHANED)
    threading.Thread(target=_poll, args=(parent,), name="watch-parent", daemon=True).start()


def _ask_the_kernel() -> None:
    """SIGKILL for us when the thread that started us ends; where refused, the polling remains."""
    with contextlib.suppress(OSError, AttributeError):  # a libc without prctl
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)


def _poll(parent: int) -> None:
    # Ctrl-C is for the main thread: a signal that lands here would not wake it.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    while os.getppid() == parent:
        time.sleep(POLL_SECONDS)
    os._exit(ORPHANED)  # not sys.exit: the main thread may never come back from a collective
