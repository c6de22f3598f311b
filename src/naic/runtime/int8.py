"""8 bits in place of 32: the matrix products of a graph, and a vision transformer made fit for it.

The inputs of a product are rounded with one scale for all of an image. That is fine as long as they
are of one size, and in a vision transformer they are not: a few tokens of the middle blocks are
twenty times as large as the others after the activation, and a few channels are after a LayerNorm.
Both are evened out before the rounding, in a way that changes nothing but the rounding.
"""

import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.backbones.vit import VitBlock

if TYPE_CHECKING:
    import onnx

SPREADS = 3.0  # of a channel after a LayerNorm: what it rarely goes beyond
SHARE = 0.85  # of a channel's size that goes from the inputs to the weights
LEAST = 1e-5
LOWEST = 0.3  # GELU, and SiLU, go no further below 0
PATCH = (
    "/patch/"  # in the name of the node that reads pixels: it stays as it is, as convolutions do
)


@torch.no_grad()
def even_out(module: nn.Module) -> dict[str, Tensor]:
    """Make all vision transformers inside a module fit for products by 8 bits; in place.

    They see what they saw before.

    Returns:
        By the names of weights, what their inputs (I,) were multiplied by.
    """
    factors = {}
    for name, block in module.named_modules():
        if isinstance(block, VitBlock) and isinstance(block.fall, nn.Linear):
            factors[f"{name}.qkv.weight"] = _even_channels(block.norm1, block.qkv)
            factors[f"{name}.rise.weight"] = _even_channels(block.norm2, block.rise)
            block.fall = EvenTokens(block.fall)  # type: ignore[assignment]
    return factors


def _even_channels(norm: nn.LayerNorm, layer: nn.Linear) -> Tensor:
    """Large channels become smaller and their weights larger, by what the norm tells of them."""
    inputs = norm.bias.abs() + SPREADS * norm.weight.abs()  # (D,) how large each may well be
    weights = layer.weight.abs().amax(0)  # (D,)
    factor = inputs.clamp(min=LEAST) ** SHARE / weights.clamp(min=LEAST) ** (1 - SHARE)
    factor /= factor.median()
    norm.weight.data = norm.weight / factor
    norm.bias.data = norm.bias / factor
    layer.weight.data = layer.weight * factor
    return factor


class EvenTokens(nn.Module):
    """A product after an activation, of tokens of one size: each gets its own back afterwards."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, 4D) -> (B, T, D)."""
        size = x.amax(-1, keepdim=True).clamp(min=LOWEST)  # (B, T, 1)
        return F.linear(x / size, self.layer.weight) * size + self.layer.bias


def quantised(graph: "onnx.ModelProto") -> "onnx.ModelProto":
    """Matrix products by 8-bit weights, a scale for each output; convolutions stay.

    What reads the pixels is the delicate part: each layer works on the rounding errors of those
    before it, and an error there is one in all that follows.
    """
    import onnx
    from onnxruntime.quantization import (  # type: ignore[import-untyped]
        QuantType,
        quantize_dynamic,
    )

    with tempfile.TemporaryDirectory() as folder, quiet():
        path = Path(folder, "int8.onnx")
        quantize_dynamic(
            graph,
            path,
            op_types_to_quantize=["MatMul"],
            per_channel=True,
            weight_type=QuantType.QInt8,
            nodes_to_exclude=[node.name for node in graph.graph.node if PATCH in node.name],
            extra_options={"MatMulConstBOnly": True},  # attention's products are of activations
        )
        return onnx.load(path)


@contextmanager
def quiet() -> Iterator[None]:
    """Without the packages' warnings, which tell of their own plans and of what we know."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
