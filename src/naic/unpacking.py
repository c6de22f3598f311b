"""Packed weights (`packing.py`) back as numbers, without torch.

Who captions photos has no torch, and torch's own way in (`packing.unpack`) goes through here too:
the weights are the same to the bit.
"""

from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
SCALES = "/scales"
FEWEST_BITS, MOST_BITS = 2, 12
_BYTES = 1 << 15  # of a row of bits that are unpacked at once: they stay in the processor's cache


def misfit(codes: Array, scales: Array, shape: tuple[int, ...]) -> str:
    """Why these cannot be the codes and scales of a weight of this shape; empty: they can."""
    count, outputs = prod(shape), shape[0] if shape else 0
    inputs = count // outputs if outputs else 0
    bits = codes.shape[0] if codes.ndim == 2 else 0
    if codes.dtype != np.uint8 or not FEWEST_BITS <= bits <= MOST_BITS:
        return f"its codes are {codes.dtype} {codes.shape}, not 2 to 12 rows of bits"
    if codes.shape[1] != -(-count // 8):
        return f"it has codes of about {codes.shape[1] * 8:,} weights, and {count:,} are needed"
    if scales.dtype != np.float16 or scales.ndim != 2 or scales.shape[0] != outputs:
        return f"its scales are {scales.dtype} {scales.shape}, not some for each output"
    if not inputs or not scales.shape[1] or inputs % scales.shape[1]:
        return f"its {inputs} inputs cannot be cut into {scales.shape[1]} groups"
    if not np.isfinite(scales).all():
        return "its scales are no finite numbers"
    return ""


def unpacked(codes: Array, scales: Array, shape: tuple[int, ...]) -> npt.NDArray[np.float32]:
    """The weight of this shape; codes and scales must fit it (`misfit`)."""
    whole = unpack_bits(codes, prod(shape)).reshape(scales.size, -1)  # (groups, of a group)
    weights = whole.astype(np.float32)
    weights -= np.float32(1 << codes.shape[0] - 1)
    weights *= scales.reshape(-1, 1).astype(np.float32)
    return weights.reshape(shape)


def unpack_bits(packed: Array, count: int) -> Array:
    """The `count` codes that `pack_bits` was given; uint8 where it will do, to save time.

    In pieces that stay in the processor's cache: a model has a hundred million codes, and somebody
    waits for its first caption.
    """
    kind = np.uint8 if len(packed) <= 8 else np.int16
    codes = np.empty(8 * packed.shape[1], kind)
    for first in range(0, packed.shape[1], _BYTES):
        piece = codes[8 * first : 8 * (first + _BYTES)]
        piece[:] = np.unpackbits(packed[0, first : first + _BYTES])
        for bit in range(1, len(packed)):
            ones = np.unpackbits(packed[bit, first : first + _BYTES]).astype(kind, copy=False)
            piece |= np.left_shift(ones, bit, out=ones)
    return codes[:count]
