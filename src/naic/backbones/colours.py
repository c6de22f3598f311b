"""Colours beside a network's features: `NAME+colours`.

A network trained to name objects learns to overlook their colours: from the features of
EfficientNet-Lite2 a probe tells the colour of a drawn shape in 84 of 100 cases, and one that also
sees plain colours in nearly all. Captions speak of colours.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.backbones.load import COLOURS
from naic.errors import BackboneError

PARTS = 4  # each cell has the mean colours of its 4x4 parts, 48 numbers: small things have some
SPREAD = 6.0  # colours run from -3 to 3: as large as the network's features, which end at 6


class WithColours(nn.Module):
    """A backbone whose cells also say which colours they have."""

    def __init__(self, name: str, network: nn.Module) -> None:
        super().__init__()
        self.name = name
        self.network = network

    def forward(self, pixels: Tensor) -> Tensor:
        """uint8 (B, H, W, 3) -> (B, R, F + 48)."""
        features: Tensor = self.network(pixels)
        regions = features.shape[1]
        side = math.isqrt(regions)
        if side * side != regions:
            why = f"its {regions} regions are no square grid, so that no cell has a colour"
            raise BackboneError(self.name, why, f"Leave out {COLOURS}.")
        colours = pixels.permute(0, 3, 1, 2).to(features.dtype)  # (B, 3, H, W)
        colours = F.adaptive_avg_pool2d(colours, PARTS * side)
        cells = F.pixel_unshuffle(colours, PARTS)  # (B, 48, side, side)
        scaled = (cells / 255 - 0.5) * SPREAD
        return torch.cat((features, scaled.flatten(2).transpose(1, 2)), dim=2)
