"""The device that was asked for, and how memory is kept on it."""

import ctypes
import sys

import torch

from naic.errors import ConfigError

_TRIM_THRESHOLD, _MMAP_MAX, _LARGEST_INT = -1, -4, 2**31 - 1  # of glibc's malloc.h


def choose_device(device: str) -> torch.device:
    """The device asked for, or a clear word that it is not there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ConfigError(
            "--device", f"{device!r} is no device", "Try auto, cpu or cuda."
        ) from None
    if chosen.type not in ("cpu", "cuda"):
        raise ConfigError("--device", f"{device} is not supported", "Use auto, cpu or cuda.")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            "--device", f"{device} is not there", "Use --device cpu, or check the driver."
        )
    return chosen


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


def device_name(device: torch.device) -> str:
    """The card's name, or "cpu"."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
