"""What a network on a CPU wants from the system."""

import ctypes
import sys

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
