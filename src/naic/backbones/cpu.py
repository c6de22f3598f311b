"""Two things that a network on a CPU wants from the system; elsewhere they do nothing."""

import contextlib
import ctypes
import os
import sys
import threading

# Numbers of glibc's malloc.h
_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
_LARGEST_INT = 2**31 - 1


def keep_freed_memory() -> None:
    """Let large blocks be reused instead of being returned to the system after each layer.

    glibc hands a block of more than 32 MB back at once, and the next layer's block comes as fresh
    pages that the kernel has to clear: half the time of a forward pass went there. The process
    then holds its largest working set for good, which for a batch of 16 is some 600 MB.
    Elsewhere than on Linux with glibc this does nothing.
    """
    if sys.platform != "linux":
        return
    try:
        library = ctypes.CDLL("libc.so.6")
        library.mallopt(_MMAP_MAX, 0)
        library.mallopt(_TRIM_THRESHOLD, _LARGEST_INT)
    except (OSError, AttributeError):  # another C library
        return


def yield_to_the_network() -> None:
    """Let the calling thread (one that writes, say) run when the network's threads pause.

    A layer is done when its slowest thread is done: a helper that pushes one of them off its core
    makes all the others wait. On Linux a thread can have a priority of its own.
    """
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 10)
