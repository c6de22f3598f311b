"""A vision transformer made fit for products of 8 bits.

The inputs of a product are rounded with one scale for all of an image. That is fine as long as they
are of one size, and in a vision transformer they are not: a few tokens of the middle blocks are
twenty times as large as the others after the activation, and a few channels are after a LayerNorm.
Both are evened out before the rounding, in a way that changes nothing but the rounding.
"""

from typing import TypeAlias

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.backbones.vit import VitBlock

SHARE = 0.7  # of a channel's size after a LayerNorm that goes from the inputs to the weights
VALUES_SHARE = 0.85  # the same of attention's values, whose size is an estimate
SPREADS = 3.0  # of a value: what it rarely goes beyond
LEAST = 1e-5
LOWEST = 0.3  # GELU, and SiLU, go no further below 0
# By the name of a weight, what became of it: its inputs were multiplied by, or its outputs divided.
Changes: TypeAlias = dict[str, list[tuple[str, Tensor]]]
# Noise of several grains, the coarse ones strongest, as in photos: side of its grid, and strength.
GRAINS = ((3, 60.0), (9, 36.0), (27, 21.0), (81, 12.0), (256, 6.0))


def soft_noise(count: int, side: int) -> Tensor:
    """uint8 (count, side, side, 3) images without anything on them, always the same."""
    dice = torch.Generator().manual_seed(0)
    images = torch.full((count, 3, side, side), 128.0)
    for cells, strength in GRAINS:
        grain = strength * torch.randn(count, 3, cells, cells, generator=dice)
        images += F.interpolate(grain, (side, side), mode="bilinear", align_corners=False)
    return images.clamp(0, 255).to(torch.uint8).permute(0, 2, 3, 1).contiguous()


@torch.no_grad()
def even_out(module: nn.Module, pixels: Tensor) -> Changes:
    """Make all vision transformers inside a module fit for products by 8 bits; in place.

    They see what they saw before.

    Args:
        module: takes pixels.
        pixels: uint8 (B, P, P, 3), to find out which channels are large. That hardly depends on
            what is on an image, so that it need not be a photo.

    Returns:
        What was done to which weight.
    """
    parts = {n: m for n, m in module.named_modules() if isinstance(m, VitBlock)}
    blocks = {name: m for name, m in parts.items() if isinstance(m.fall, nn.Linear)}
    sizes: dict[nn.Module, Tensor] = {}

    def look(norm: nn.Module, _: object, found: Tensor) -> None:
        sizes[norm] = found.abs().flatten(0, -2).amax(0)  # (D,) the largest of all tokens

    norms = [norm for block in blocks.values() for norm in (block.norm1, block.norm2)]
    hooks = [norm.register_forward_hook(look) for norm in norms]
    if hooks:
        module(pixels)
    for hook in hooks:
        hook.remove()
    changes: Changes = {}
    for name, block in blocks.items():
        values = _even_values(block)
        changes |= {f"{name}.qkv.bias": [("outputs", values)]}
        changes |= {f"{name}.out.weight": [("inputs", values[-block.out.in_features :])]}
        for norm, layer, before in (("norm1", "qkv", [("outputs", values)]), ("norm2", "rise", [])):
            own = block.get_submodule(norm)
            factor = _even_channels(own, block.get_submodule(layer), sizes[own])
            changes[f"{name}.{layer}.weight"] = [*before, ("inputs", factor)]
            changes |= {f"{name}.{norm}.{end}": [("outputs", factor)] for end in ("weight", "bias")}
        block.fall = EvenTokens(block.fall)  # type: ignore[assignment]
    return changes


def _even_channels(norm: nn.Module, layer: nn.Module, sizes: Tensor) -> Tensor:
    """Large channels become smaller and their weights larger; (D,) by how much."""
    assert isinstance(norm, nn.LayerNorm)
    assert isinstance(layer, nn.Linear)
    factor = _factor(sizes, layer.weight, SHARE)
    norm.weight.data = norm.weight / factor
    norm.bias.data = norm.bias / factor
    layer.weight.data = layer.weight * factor
    return factor


def _even_values(block: VitBlock) -> Tensor:
    """The same of what attention finds, by what the norm and the weights before it tell.

    Made-up images would tell less: what attention picks out depends on what is there.
    """
    norm, width = block.norm1, block.out.in_features
    weight, bias = block.qkv.weight.clone(), block.qkv.bias.clone()
    values = weight[2 * width :]  # (D, D)
    means = values @ norm.bias + bias[2 * width :]
    spreads = (values * norm.weight).square().sum(1).sqrt()
    factor = _factor(means.abs() + SPREADS * spreads, block.out.weight, VALUES_SHARE)
    weight[2 * width :] /= factor[:, None]
    bias[2 * width :] /= factor
    block.qkv.weight.data, block.qkv.bias.data = weight, bias
    block.out.weight.data = block.out.weight * factor
    return torch.cat((factor.new_ones(2 * width), factor))  # (3D,) queries and keys stay


def _factor(sizes: Tensor, weight: Tensor, share: float) -> Tensor:
    """(D,) by what to divide inputs of these sizes (D,), and multiply their weights (L, D)."""
    weights = weight.abs().amax(0)  # (D,)
    factor = sizes.clamp(min=LEAST) ** share / weights.clamp(min=LEAST) ** (1 - share)
    return factor / factor.median()


class EvenTokens(nn.Module):
    """A product after an activation, of tokens of one size: each gets its own back afterwards."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, 4D) -> (B, T, D)."""
        size = x.amax(-1, keepdim=True).clamp(min=LOWEST)  # (B, T, 1)
        return F.linear(x / size, self.layer.weight) * size + self.layer.bias
