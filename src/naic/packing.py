"""Weights in a few bits each, so that a model fits into a package.

A matrix is cut into groups of inputs of one output. A group has a step, its scale, and each of its
weights is a whole number of steps: a code of 2 to 12 bits. Vectors (biases, norms) are few and stay
what they are, as float16. In a file the matrix NAME is two tensors, and their shapes say all that
it takes to read them:

    NAME/codes     uint8 (bits, bytes): bit b of all codes, one after the other, is row b
    NAME/scales    float16 (outputs, groups of an output)

The model gets float32 weights back: packing saves room on the disk, not in memory.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from naic.errors import CheckpointError, ConfigError
from naic.files import CODES
from naic.unpacking import FEWEST_BITS, MOST_BITS, SCALES, misfit, unpacked

CONVOLUTION_BITS = 10  # of a backbone of convolutions, where rounding adds up from layer to layer
MATRIX_BITS = 5  # of a vision transformer in the backbone, which has many weights and is robust
CALIBRATED_BITS = 4  # of the same, rounded by what it does on images (`models/rounding.py`)
FIRST_BITS = 10  # of what a vision transformer begins with
_FIRST = (".patch.weight", ".positions")
_OF_WORDS = (
    "decoder.output.weight",
    "decoder.embedding.weight",
    "decoder.transitions.before.weight",
    "decoder.transitions.after.weight",
)
# Steps are tried from 0.6 of the one that reaches the largest weight: with few bits it is better
# to cut off the largest than to be coarse everywhere.
_SHRINKS = tuple(0.6 + 0.025 * i for i in range(17))
_CHUNK = 1 << 22  # weights searched at once: what is in the processor's cache is quick


@dataclass(frozen=True, slots=True)
class PackRule:
    """How many bits a weight gets, and how many weights share a scale.

    A convolution of the backbone has one scale for each output channel. The matrices of a vision
    transformer are in groups, as those of a captioner are. What it begins with, the layer that
    reads pixels and the positions, is a hundredth of its weights, and what is wrong there goes
    through all layers: that has `FIRST_BITS` at least.

    Attributes:
        bits: of the layers between the backbone and the words.
        output_bits: of what stands for words: the output layer, a causal model's embedding, and
            what words do to their neighbours in a model with transitions.
        backbone_bits: of the backbone inside a model; None: `CONVOLUTION_BITS` or `MATRIX_BITS`.
        group: the most inputs that share a scale.
    """

    bits: int = 5
    output_bits: int = 6
    backbone_bits: int | None = None
    group: int = 64

    def __post_init__(self) -> None:
        for name in ("bits", "output_bits", "backbone_bits"):
            value = getattr(self, name)
            if value is not None and not FEWEST_BITS <= value <= MOST_BITS:
                why = f"{value} is not from {FEWEST_BITS} to {MOST_BITS}"
                raise ConfigError(name, why, "Try 5.")
        if self.group < 1:
            raise ConfigError("group", f"{self.group} is below 1", "Try 64.")

    def of(self, name: str, weight: Tensor) -> tuple[int, int] | None:
        """Bits and group of a weight; None: it is a vector, and is not packed."""
        if weight.dim() < 2 or not weight.is_floating_point() or not weight.numel():
            return None
        inputs = prod(weight.shape[1:])
        if name.startswith("backbone."):
            if name.endswith(_FIRST):
                return max(self.backbone_bits or 0, FIRST_BITS), inputs
            if weight.dim() > 2:
                return self.backbone_bits or CONVOLUTION_BITS, inputs
            return self.backbone_bits or MATRIX_BITS, largest_divisor(inputs, self.group)
        bits = self.output_bits if name in _OF_WORDS else self.bits
        return bits, largest_divisor(inputs, self.group)


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of `number` that is not above `most`: groups are all of one size."""
    return next(size for size in range(min(number, most), 0, -1) if number % size == 0)


def pack(
    weights: Mapping[str, Tensor],
    rule: PackRule,
    ready: Mapping[str, Tensor] = MappingProxyType({}),
) -> dict[str, Tensor]:
    """The tensors of a packed file.

    Args:
        weights: of a model, by name.
        rule: how many bits each gets.
        ready: codes and scales of some of them, which are taken as they are.

    Raises:
        CheckpointError: a weight is no finite number, or too large for float16.
    """
    packed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        chosen = rule.of(name, weight)
        if name + CODES in ready:
            packed |= {name + end: ready[name + end] for end in (CODES, SCALES)}
        elif chosen is None:
            packed[name] = _halve(name, weight)
        else:
            bits, group = chosen
            codes, scales = quantise(weight.detach().float().reshape(-1, group), bits)
            packed |= packed_matrix(name, codes, scales.reshape(weight.shape[0], -1), bits)
    return packed


def packed_matrix(name: str, codes: Tensor, scales: Tensor, bits: int) -> dict[str, Tensor]:
    """A matrix as it is in a file: codes of any shape, scales (outputs, groups of an output)."""
    check_finite(name, scales)
    return {name + CODES: pack_bits(codes, bits), name + SCALES: scales}


def unpack(
    path: Path, tensors: Mapping[str, Tensor], expected: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """The weights of a packed file; those in it that are plain stay as they are.

    Nothing is unpacked that is not as large as `expected` asks for: a stranger's file takes no more
    memory than its model. Tensors that belong to no expected weight are left for the check of names
    and shapes that every file goes through.
    """
    weights = dict(tensors)
    for name, like in expected.items():
        codes, scales = tensors.get(name + CODES), tensors.get(name + SCALES)
        if codes is None or scales is None or name in tensors:
            continue
        both, shape = (_array(codes), _array(scales)), tuple(like.shape)
        if why := misfit(*both, shape):
            raise CheckpointError(str(path), f"{name}: {why}", "Use a whole copy of it.")
        weights[name] = torch.from_numpy(unpacked(*both, shape))
        del weights[name + CODES], weights[name + SCALES]
    return weights


def _array(tensor: Tensor) -> npt.NDArray[Any]:
    """As numpy has it, which has no bfloat16."""
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


def quantise(groups: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    """Codes int16 (K, G) and scales float16 (K,) of groups of weights float32 (K, G).

    A weight is about scale · (code - 2^(bits-1)). There is one more code below zero than above it,
    so a scale has a sign: the side that reaches farther gets the extra code. Of the steps that are
    tried, each group keeps the one with the least squared error.
    """
    rows = max(1, _CHUNK // groups.shape[1])
    found = [search(groups[i : i + rows], bits) for i in range(0, len(groups), rows)]
    codes, scales = zip(*found, strict=True)
    return torch.cat(codes), torch.cat(scales)


def search(groups: Tensor, bits: int, costs: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """What `quantise` gives, of no more groups than fit a cache.

    With `costs` (G,), a squared error counts as much as its place in the group says.
    """
    half = 1 << bits - 1
    low, high = (-groups.amin(1)).clamp(min=0), groups.amax(1).clamp(min=0)
    turned = high > low  # the positive side reaches farther
    far, near = torch.where(turned, high, low), torch.where(turned, low, high)
    sign = torch.where(turned, -1.0, 1.0)
    scales = (sign * far / (half - 1)).half()  # what does without the extra code
    least = _squared_error(groups, scales, bits, costs)
    widest = sign * torch.maximum(far / half, near / (half - 1))
    for shrink in _SHRINKS:
        tried = (widest * shrink).half()
        error = _squared_error(groups, tried, bits, costs)
        better = error < least
        least = torch.where(better, error, least)
        scales = torch.where(better, tried, scales)
    return encode(groups, scales, bits), scales


def _squared_error(groups: Tensor, scales: Tensor, bits: int, costs: Tensor | None) -> Tensor:
    squares = (dequantise(encode(groups, scales, bits), scales, bits) - groups).square_()
    return squares.sum(1) if costs is None else squares @ costs


def encode(groups: Tensor, scales: Tensor, bits: int) -> Tensor:
    """The nearest codes (K, G), int16, of weights (K, G) by these scales (K,)."""
    half = 1 << bits - 1
    inverse = torch.where(scales == 0, 0.0, 1 / scales.float())  # all zeros, or too small to count
    steps = (groups * inverse[:, None]).round_().clamp_(-half, half - 1)
    return steps.add_(half).to(torch.int16)


def dequantise(codes: Tensor, scales: Tensor, bits: int) -> Tensor:
    """Weights float32 (K, G) of codes (K, G) and scales (K,)."""
    return codes.float().sub_(1 << bits - 1).mul_(scales.float()[:, None])


def pack_bits(codes: Tensor, bits: int) -> Tensor:
    """uint8 (bits, ⌈n/8⌉): the lowest bit of all n codes first, then the next."""
    flat = codes.reshape(-1).numpy()
    rows = [np.packbits(flat >> bit & 1) for bit in range(bits)]
    return torch.from_numpy(np.stack(rows))


def _halve(name: str, vector: Tensor) -> Tensor:
    if not vector.is_floating_point():
        return vector
    halved = vector.detach().half()
    check_finite(name, halved)
    return halved


def check_finite(name: str, tensor: Tensor) -> None:
    """Refuse a weight that no few bits can stand for."""
    if not tensor.isfinite().all():
        why = "it has numbers that are not finite, or are beyond float16"
        raise CheckpointError(name, why, "Use the model of an earlier step.")
