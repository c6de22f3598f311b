"""One plain vision transformer for both CLIP ViT-B/16 and DINOv2 ViT-S/14.

Written here rather than imported, so that neither a model hub nor torchvision is needed. Both are
the same Transformer of pre-norm blocks; they differ in their sizes, in the activation, and in a
LayerNorm that CLIP has before its first block. What does not change from image to image is done
when the weights are converted (`vit_weights.py`): the learnt positions are resized to the grid, the
position of the class token is added to it, the mean and spread of colours are folded into the
first layer, and DINOv2's LayerScale into the matrices before it. So every layer here is a plain
one, which packing, export and CUDA graphs know already.
"""

from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.errors import BackboneError

MIDDLE = 127.5  # pixels 0..255 are brought to -1..1 with it
PIXELS = 256  # a side of the images that are usual here: DINOv2 shrinks them by a matrix of its own
TOKENS = 16  # patches a side: 256 pixels for CLIP, 224 for DINOv2
GRID = 8  # cells a side that they are averaged to, as many as an EfficientNet gives
AT = "@"  # clip-vit-b16@16: a grid of 16x16 cells
QUICK = 1.702  # of the activation of OpenAI's networks
JOIN = "+"  # clip-vit-b16+dinov2-vits14: both, side by side in each cell


@dataclass(frozen=True, slots=True)
class VitShape:
    """What tells one vision transformer from another.

    Attributes:
        width: numbers that stand for a patch.
        depth: blocks.
        heads: attention heads of a block.
        patch: pixels a side of a patch.
        learnt: positions a side that were learnt; they are resized to `TOKENS`.
        offset: what is added to the new side when they are resized (DINOv2 was trained so).
        quick: x·sigmoid(1.702·x) in place of GELU.
        early_norm: a LayerNorm before the first block.
        epsilon: of all LayerNorms.
        mean: of the red, green and blue of its training images, 0 to 1.
        std: of the same.
    """

    width: int
    depth: int
    heads: int
    patch: int
    learnt: int
    offset: float
    quick: bool
    early_norm: bool
    epsilon: float
    mean: tuple[float, float, float]
    std: tuple[float, float, float]


VITS = {
    "clip-vit-b16": VitShape(
        width=768,
        depth=12,
        heads=12,
        patch=16,
        learnt=14,
        offset=0.0,
        quick=True,
        early_norm=True,
        epsilon=1e-5,
        mean=(0.48145466, 0.4578275, 0.40821073),
        std=(0.26862954, 0.26130258, 0.27577711),
    ),
    "dinov2-vits14": VitShape(
        width=384,
        depth=12,
        heads=6,
        patch=14,
        learnt=37,
        offset=0.1,
        quick=False,
        early_norm=False,
        epsilon=1e-6,
        mean=(0.485, 0.456, 0.406),
        std=(0.229, 0.224, 0.225),
    ),
}


def grid_of(name: str) -> int:
    """Cells a side that one network's name asks for: `NAME@SIDE`, or `NAME` for the usual grid."""
    _, _, asked = name.partition(AT)
    if not asked and AT not in name:
        return GRID
    sides = [side for side in range(1, TOKENS + 1) if TOKENS % side == 0]
    if asked not in map(str, sides):
        why = f"its {TOKENS} x {TOKENS} patches cannot be averaged to a grid of side {asked!r}"
        raise BackboneError(name, why, f"Give one of {', '.join(map(str, sides))} after {AT}.")
    return int(asked)


def vit_grid(name: str) -> int:
    """Cells a side of the grid that a name asks for; networks that are joined must agree in it."""
    sides = {grid_of(part) for part in name.split(JOIN)}
    if len(sides) > 1:
        why = "networks with different grids have no cells in common"
        raise BackboneError(name, why, f"Give all of them the same side after {AT}.")
    return sides.pop()


def vit_dim(name: str) -> int:
    """F, the numbers of a cell, of all networks that are joined."""
    return sum(VITS[part.split(AT)[0]].width for part in name.split(JOIN))


def make_vit(name: str) -> nn.Module:
    """The network of this name, or several joined, with weights that nobody trained."""
    grid = vit_grid(name)
    shapes = [VITS[part.split(AT)[0]] for part in name.split(JOIN)]
    networks = [VisionTransformer(shape, grid=grid) for shape in shapes]
    return networks[0] if len(networks) == 1 else Joined(networks)


class VitBlock(nn.Module):
    """Attention among all patches, then a feed-forward layer; both are added to what came in."""

    def __init__(self, shape: VitShape) -> None:
        super().__init__()
        width = shape.width
        self.heads = shape.heads
        self.quick = shape.quick
        self.norm1 = nn.LayerNorm(width, shape.epsilon)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width, shape.epsilon)
        self.rise = nn.Linear(width, 4 * width)
        self.fall = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        count, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).reshape(count, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)  # each (B, H, T, D/H)
        heard = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(heard.transpose(1, 2).reshape(count, tokens, width))
        inner = self.activate(self.rise(self.norm2(x)))  # (B, T, 4D)
        return x + cast(Tensor, self.fall(inner))

    def activate(self, x: Tensor) -> Tensor:
        """(B, T, 4D) -> (B, T, 4D)."""
        return x * torch.sigmoid(QUICK * x) if self.quick else F.gelu(x)


class VisionTransformer(nn.Module):
    """An image in, a square grid of feature vectors out: 8x8 cells of `width` numbers.

    Images of any size are taken: they are resized to `tokens` patches a side, since the network
    knows no other scale. The class token takes part in the attention, and is left out at the end.
    """

    def __init__(self, shape: VitShape, *, tokens: int = TOKENS, grid: int = GRID) -> None:
        super().__init__()
        self.side = tokens * shape.patch  # pixels
        self.tokens = tokens
        self.grid = grid
        self.patch = nn.Conv2d(3, shape.width, shape.patch, shape.patch)
        self.start = nn.Parameter(torch.zeros(shape.width))  # the class token and its position
        self.positions = nn.Parameter(torch.zeros(tokens * tokens, shape.width))
        self.early: nn.Module = (
            nn.LayerNorm(shape.width, shape.epsilon) if shape.early_norm else nn.Identity()
        )
        self.blocks = nn.ModuleList(VitBlock(shape) for _ in range(shape.depth))
        self.norm = nn.LayerNorm(shape.width, shape.epsilon)
        self.shrink: Tensor | None
        matrix = None if self.side == PIXELS else shrinking(PIXELS, self.side)  # (side, PIXELS)
        self.register_buffer("shrink", matrix, persistent=False)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3), 0 to 255 -> (B, R, D), R = grid², row by row."""
        x: Tensor = self.norm(self.look(pixels)[:, 1:])  # (B, T², D), the class token left out
        cell = self.tokens // self.grid
        cells = x.reshape(x.shape[0], self.grid, cell, self.grid, cell, x.shape[2])
        return cells.mean((2, 4)).flatten(1, 2)  # (B, R, D)

    def look(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3), 0 to 255 -> (B, 1 + T², D), what comes out of the last block."""
        x = self.embed(pixels)  # (B, T², D)
        start = self.start.to(x.dtype).expand(x.shape[0], 1, -1)  # (B, 1, D)
        x = self.early(torch.cat((start, x), dim=1))
        for block in self.blocks:
            x = block(x)
        return cast(Tensor, x)

    def embed(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3), 0 to 255 -> (B, T², D), each patch and where it is."""
        x = self.resized(pixels.permute(0, 3, 1, 2).to(self.patch.weight.dtype))  # (B, 3, S, S)
        x = x / MIDDLE - 1  # what else there is to do to colours is in the weights of `patch`
        return cast(Tensor, self.patch(x)).flatten(2).transpose(1, 2) + self.positions

    def resized(self, images: Tensor) -> Tensor:
        """(B, 3, H, W) -> (B, 3, S, S), as many pixels as the patches have.

        By two matrix products, which a graph for ONNX can hold; those of usual images are kept.
        """
        size = (int(images.shape[2]), int(images.shape[3]))
        if size == (self.side, self.side):
            return images
        if self.shrink is not None and size == (PIXELS, PIXELS):
            return self.shrink @ images @ self.shrink.T
        down, across = (shrinking(n, self.side, images.device).to(images.dtype) for n in size)
        return down @ images @ across.T


class Joined(nn.Module):
    """Several networks that look at the same image: their features side by side in each cell."""

    def __init__(self, networks: list[VisionTransformer]) -> None:
        super().__init__()
        self.networks = nn.ModuleList(networks)

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3), 0 to 255 -> (B, R, D + D' + ...)."""
        return torch.cat([network(pixels) for network in self.networks], dim=2)


def shrinking(pixels: int, side: int, device: torch.device | None = None) -> Tensor:
    """(side, pixels) what each new pixel takes of the old ones along a line: linear, antialiased.

    Just what `F.interpolate(..., mode="bilinear", antialias=True)` does.
    """
    step = pixels / side
    reach = max(step, 1.0)  # when it grows there is nothing to smooth
    centres = (torch.arange(side, device=device) + 0.5) * step
    gaps = (torch.arange(pixels, device=device) + 0.5 - centres[:, None]).abs()  # (side, pixels)
    shares = (1 - gaps / reach).clamp(min=0)
    return shares / shares.sum(1, keepdim=True)


def resize_positions(
    positions: Tensor, side: int, *, offset: float = 0.0, mode: str = "bicubic"
) -> Tensor:
    """Positions (n², D) learnt for a grid of side n, to (side², D).

    DINOv2 was evaluated by its authors with `offset` 0.1 added to the new side, which moves the
    places that are read by a little; the weights expect the same here.
    """
    own = round(len(positions) ** 0.5)
    if own == side:
        return positions
    grid = positions.reshape(1, own, own, -1).permute(0, 3, 1, 2)  # (1, D, n, n)
    if offset:
        scale = (side + offset) / own
        grid = F.interpolate(grid, scale_factor=(scale, scale), mode=mode)
    else:
        grid = F.interpolate(grid, (side, side), mode=mode, antialias=True)
    return grid.flatten(2)[0].T.contiguous()  # (side², D)
