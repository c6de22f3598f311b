"""The device that was asked for, what it has to compute with, and how memory is kept on it.

torch is imported where it is asked for a device: captions on a processor need none of it.
"""

import ctypes
import importlib.util
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from naic.errors import ConfigError

if TYPE_CHECKING:
    import torch

_TRIM_THRESHOLD, _MMAP_MAX, _LARGEST_INT = -1, -4, 2**31 - 1  # of glibc's malloc.h
# What drivers put there: NVIDIA's, on a Jetson, AMD's, and where Linux runs inside Windows.
_DRIVER = ("/dev/nvidiactl", "/proc/driver/nvidia/version", "/dev/nvmap", "/dev/kfd", "/dev/dxg")
_SIBLINGS = "/sys/devices/system/cpu/cpu{}/topology/thread_siblings_list"


@dataclass(frozen=True, slots=True)
class Place:
    """A device by its name, where torch is not needed to compute on it.

    Attributes:
        type: "cpu" or "cuda".
        index: which GPU; None: the first.
    """

    type: str
    index: int | None = None

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"


CPU = Place("cpu")


def has_torch() -> bool:
    """Whether torch is installed, without importing it."""
    return importlib.util.find_spec("torch") is not None


def may_have_gpu() -> bool:
    """Whether it is worth a second to import torch and ask: there is a driver of a GPU."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in ("", "-1"):
        return False
    return sys.platform == "linux" and any(Path(path).exists() for path in _DRIVER)


def choose_device(device: str) -> "torch.device":
    """The device asked for, or a clear word that it is not there."""
    import torch

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


def device_name(device: "torch.device | Place") -> str:
    """The card's name, or "cpu"."""
    if device.type != "cuda":
        return device.type
    import torch

    return torch.cuda.get_device_name(str(device))


def threads() -> int:
    """How many threads a network gets on a processor: OMP_NUM_THREADS, or one for each core.

    Two threads of one core wait for each other in matrix products: cores are counted, not threads.
    """
    asked = os.environ.get("OMP_NUM_THREADS", "").split(",")[0]
    if asked.isdecimal() and int(asked) > 0:
        return int(asked)
    return min(usable_cores(), _real_cores())


def usable_cores() -> int:
    """The threads of processors that this process gets: a container may have few of many."""
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
        return min(cores, max(1, round(int(quota) / int(period))))
    except (OSError, ValueError):  # no such limit, or no Linux
        return cores


def _real_cores() -> int:
    """Of those that this process may use; where the system does not tell, all count."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    own = os.sched_getaffinity(0)
    try:
        return len({Path(_SIBLINGS.format(core)).read_text() for core in own})
    except OSError:
        return len(own)
