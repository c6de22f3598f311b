"""Where a region lies: a detector's boxes, which are the last four numbers of a region's features.

They travel there, so that whatever passes features on (stores, batches, graphs) need not know of
them, and the encoder takes them apart again: docs/decisions/060-regions.md.
"""

from typing import get_args

import torch
from torch import Tensor, nn

from naic.data.features import BOX_NUMBERS
from naic.errors import ConfigError
from naic.models.config import Boxes
from naic.models.layers import linear

_TOLD = BOX_NUMBERS + 1  # left, top, right, bottom, and the area


def own_size(features: int, boxes: Boxes) -> int:
    """F without the numbers of the boxes."""
    if boxes not in get_args(Boxes):
        raise ConfigError("model.boxes", f"there is no {boxes!r}", 'Try "coded" or "apart".')
    if boxes and features <= BOX_NUMBERS:
        why = f"features of size {features} cannot end in a box"
        raise ConfigError("model.boxes", why, "Leave it out.")
    return features - BOX_NUMBERS if boxes else features


def take_apart(features: Tensor) -> tuple[Tensor, Tensor]:
    """Features (B, R, F) and boxes (B, R, 4) of both (B, R, F + 4)."""
    return features[..., :-BOX_NUMBERS], features[..., -BOX_NUMBERS:]


class BoxCodes(nn.Module):
    """Tells each region its corners and its area, by numbers that are learnt."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = linear(_TOLD, width)

    def forward(self, boxes: Tensor) -> Tensor:
        """(B, R, D) to be added to the regions, of their boxes (B, R, 4)."""
        sides = boxes[..., 2:] - boxes[..., :2]  # (B, R, 2)
        told = torch.cat((boxes, sides.prod(-1, keepdim=True)), -1)
        if not torch.is_autocast_enabled(boxes.device.type):
            told = told.to(self.project.weight.dtype)
        found: Tensor = self.project(told)
        return found
