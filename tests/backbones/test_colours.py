"""`NAME+colours`: what a cell's features say of its colours."""

import pytest
import torch
from torch import Tensor, nn

from naic.backbones.colours import WithColours
from naic.backbones.load import load_backbone
from naic.errors import BackboneError


class Grid(nn.Module):
    """A network with so many regions of two features."""

    def __init__(self, regions: int) -> None:
        super().__init__()
        self.regions = regions

    def forward(self, pixels: Tensor) -> Tensor:
        return torch.ones(len(pixels), self.regions, 2)


def test_each_cell_says_the_mean_colours_of_its_parts() -> None:
    pixels = torch.zeros(1, 16, 16, 3, dtype=torch.uint8)  # 2x2 cells of 4x4 parts of 2x2 pixels
    pixels[0, :2, 14:, 0] = 255  # red in the last part of the first row of the upper right cell
    pixels[0, 14:, :2, 2] = torch.tensor([[255, 0], [0, 0]])  # a quarter of blue, lower left
    found = WithColours("x", Grid(4))(pixels)
    assert found.shape == (1, 4, 50)
    assert (found[..., :2] == 1).all()
    lit = (found[0, :, 2:] + 3).nonzero().tolist()
    # Cells run row by row; in a cell, red green blue with sixteen parts each.
    assert lit == [[1, 0 + 3], [2, 32 + 12]]
    assert found[0, 1, 2 + 3] == 3
    assert found[0, 2, 2 + 44] == pytest.approx(-3 + 6 / 4)


def test_regions_that_are_no_grid_are_refused() -> None:
    with pytest.raises(BackboneError, match="no square grid"):
        WithColours("x", Grid(5))(torch.zeros(1, 8, 8, 3, dtype=torch.uint8))


def test_the_suffix_goes_with_the_name() -> None:
    pixels = torch.randint(0, 256, (2, 256, 256, 3), dtype=torch.uint8)
    plain = load_backbone("efficientnet-lite0", device="cpu")
    both = load_backbone("efficientnet-lite0+colours", device="cpu")
    assert (both.name, both.dim) == ("efficientnet-lite0+colours", plain.dim + 48)
    assert torch.equal(both(pixels)[..., : plain.dim], plain(pixels))
    with pytest.raises(BackboneError, match="unknown backbone"):
        load_backbone("nonsense+colours")
