import numpy as np
import pytest
import torch

from naic.backbones.load import load_backbone
from naic.backbones.patches import CELL, Patches, put_together, vary
from naic.errors import BackboneError, ConfigError


def images(count: int = 2, size: int = 96) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, size, size, 3), dtype=torch.uint8, generator=generator)


def test_a_cell_holds_its_own_pixels_row_by_row() -> None:
    given = images()
    cells = Patches()(given)
    assert cells.shape == (2, 9, CELL * CELL * 3)
    upper_right = given[1, :CELL, 2 * CELL :]
    assert torch.equal(cells[1, 2], upper_right.flatten())


def test_cells_make_the_image_again() -> None:
    given = images()
    assert torch.equal(put_together(Patches()(given)), given)


def test_the_backbone_of_pixels_has_the_shape_of_an_efficientnet_and_whole_numbers() -> None:
    backbone = load_backbone("pixels", device="cpu")
    assert (backbone.pixels, backbone.regions, backbone.dim) == (256, 64, 3072)
    assert backbone.dtype == "uint8"
    assert backbone(images(1, 256)).dtype == torch.uint8
    assert load_backbone("efficientnet-lite0", device="cpu").dtype == "float16"


def test_a_size_that_cannot_be_cut_is_refused() -> None:
    with pytest.raises(BackboneError, match="multiple of 32"):
        load_backbone("pixels", pixels=100, device="cpu")


def test_pixels_have_no_weights(tmp_path: object) -> None:
    with pytest.raises(ConfigError, match="has no weights"):
        load_backbone("pixels", weights=tmp_path, device="cpu")  # type: ignore[arg-type]


def test_the_whole_image_varies_into_itself_or_its_mirror() -> None:
    given = images(16)
    torch.manual_seed(0)
    varied = vary(given, least=1.0)
    mirrored = 0
    for own, other in zip(given.float(), varied, strict=True):
        same = torch.allclose(own, other, atol=1e-2)
        mirror = torch.allclose(own.flip(1), other, atol=1e-2)
        assert same or mirror
        mirrored += mirror
    assert 0 < mirrored < 16


def test_a_part_is_enlarged_and_stays_inside_the_image() -> None:
    ramp = torch.arange(96, dtype=torch.uint8)[:, None, None].expand(96, 96, 3)  # by row
    torch.manual_seed(1)
    varied = vary(ramp[None].repeat(64, 1, 1, 1), least=0.5)
    steps = (
        varied[:, 80, 48, 0] - varied[:, 16, 48, 0]
    ) / 64  # how fast rows go by: the part's size
    assert ((steps > 0.49) & (steps < 1.01)).all()
    assert steps.std() > 0.1
    assert np.ptp(varied[:, 48, 48, 0].numpy()) > 5  # parts of other places
