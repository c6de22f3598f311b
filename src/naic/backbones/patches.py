"""No network at all: an image's pixels as they are, cell by cell (`--backbone pixels`).

A store of pixels is for a model whose own backbone learns to see (`models/transformer.py`).
The cells are those of an EfficientNet's grid, so the store has the shape of one of features.
"""

import hashlib
import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

CELL = 32  # pixels a side of a cell, as many as an EfficientNet makes one region of
COLOURS = 3
PATCH = CELL * CELL * COLOURS  # numbers of a cell in a store of pixels
VERSION = "naic pixels 1"  # another layout needs another version: stores are told apart by it
DIGEST = hashlib.sha256(VERSION.encode()).hexdigest()


class Patches(nn.Module):
    """Images cut into cells of 32 x 32 pixels, row by row."""

    def forward(self, pixels: Tensor) -> Tensor:
        """uint8 (B, P, P, 3) -> uint8 (B, (P/32)², 3072)."""
        count, size = pixels.shape[:2]
        side = size // CELL
        if size % CELL:
            raise ValueError(f"a side is no multiple of {CELL}")
        cells = pixels.reshape(count, side, CELL, side, CELL, COLOURS)  # (B, h, C, w, C, 3)
        return cells.transpose(2, 3).reshape(count, side * side, PATCH)


def put_together(patches: Tensor) -> Tensor:
    """uint8 (B, R, 3072) -> uint8 (B, P, P, 3): the image again."""
    count, regions = patches.shape[:2]
    side = math.isqrt(regions)
    cells = patches.reshape(count, side, side, CELL, CELL, COLOURS)  # (B, h, w, C, C, 3)
    return cells.transpose(2, 3).reshape(count, side * CELL, side * CELL, COLOURS)


def as_pixels(seen: Tensor, *, crop: float = 1.0, mirror: float = 0.0) -> Tensor:
    """Pixels (B, P, P, 3) for a backbone inside a model, varied by chance if so asked.

    They are given as they are, or in cells (B, R, 3072), as a store has them.
    """
    pixels = put_together(seen) if seen.dim() == 3 else seen
    return vary(pixels, crop, mirror) if crop < 1 or mirror else pixels


def vary(pixels: Tensor, least: float = 0.75, mirrored: float = 0.5) -> Tensor:
    """Other images of the same things, by chance: a part of them enlarged, and mirrored or not.

    uint8 (B, P, P, 3) -> float32 (B, P, P, 3). The part has from `least` to all of each side; a
    share `mirrored` of the images is. Words for left and right are rare in captions of photos, so
    that mirrors do more good than harm.
    """
    count, device = len(pixels), pixels.device
    size = least + (1 - least) * torch.rand(count, 2, device=device)  # (B, 2): width, height
    centre = (1 - size) * (2 * torch.rand(count, 2, device=device) - 1)
    mirror = torch.where(torch.rand(count, device=device) < mirrored, -1.0, 1.0)
    return enlarge(pixels, size, centre, mirror)


def cropped(pixels: Tensor, boxes: Tensor) -> Tensor:
    """A part of each image enlarged to the whole, as `images.sources.Cropped` has it.

    uint8 (B, P, P, 3) and boxes (B, 4), left, top, right and bottom as shares of a side
    -> uint8 (B, P, P, 3).
    """
    boxes = boxes.float()
    size, centre = boxes[:, 2:] - boxes[:, :2], boxes[:, :2] + boxes[:, 2:] - 1  # each (B, 2)
    return enlarge(pixels, size, centre, torch.ones_like(size[:, 0])).round().to(torch.uint8)


def enlarge(pixels: Tensor, size: Tensor, centre: Tensor, mirror: Tensor) -> Tensor:
    """Parts of images as whole ones: uint8 (B, P, P, 3) -> float32 (B, P, P, 3).

    `size` (B, 2) has the shares of width and height, `centre` (B, 2) where the part is, from -1 to
    1, and `mirror` (B,) is -1 for those that are mirrored.
    """
    count, zero = len(pixels), torch.zeros_like(mirror)
    across = torch.stack((size[:, 0] * mirror, zero, centre[:, 0]), dim=1)
    down = torch.stack((zero, size[:, 1], centre[:, 1]), dim=1)
    places = F.affine_grid(
        torch.stack((across, down), dim=1),  # (B, 2, 3)
        [count, COLOURS, *pixels.shape[1:3]],
        align_corners=False,
    )
    images = pixels.permute(0, 3, 1, 2).float()  # (B, 3, P, P)
    varied = F.grid_sample(images, places, padding_mode="border", align_corners=False)
    return varied.permute(0, 2, 3, 1)
