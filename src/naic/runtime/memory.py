"""A GPU that is too small for a batch: an error that says so, and what to do."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from naic.errors import ConfigError

_ON_CPU = '--device cpu (in Python: device="cpu")'
_TOO_MANY = f"Lower it (in Python: each(images, batch=4)), or use {_ON_CPU}."


@contextmanager
def enough_memory(batch: int, device: object) -> Iterator[None]:
    """Where these are run.

    Raises:
        ConfigError: `batch` images at once do not fit the memory of the device.
    """
    try:
        yield
    except RuntimeError as error:
        if not _out_of_memory(error):
            raise
        why = f"{batch} images at once do not fit the memory of {device}"
        raise ConfigError("--batch", why, _TOO_MANY) from error


def _out_of_memory(error: BaseException | None) -> bool:
    """Whether the GPU was too small: then recording a graph ends in another error about that."""
    torch = sys.modules.get("torch")
    while error is not None and torch is not None:
        if isinstance(error, torch.OutOfMemoryError):
            return True
        error = error.__cause__ or error.__context__
    return False
