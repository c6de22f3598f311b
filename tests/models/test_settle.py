"""A settled model says what it said before."""

import pytest
import torch
from torch.testing import assert_close

from naic.models.config import TransformerConfig
from naic.models.transformer import TransformerCaptioner
from tests.models.small import FEATURES, images, small

GRID = TransformerConfig(
    width=16, heads=2, encoder_layers=1, decoder_layers=1, hidden=24, length=4, grid=True
)


@pytest.mark.parametrize("regions", [4, 9])
def test_the_agents_say_the_same(regions: int) -> None:
    """Also of images with another number of regions than it was settled for."""
    model = small(causal=False)
    features = images(3, regions=regions)
    mask = torch.arange(regions) < torch.tensor([regions, 2, 3])[:, None]
    with torch.no_grad():
        before = model(features), model(features, mask)
        model.settle(4)
        assert model.decoder.opening is not None
        assert_close(model(features), before[0])
        assert_close(model(features, mask), before[1])


def test_the_first_layer_is_not_asked_again() -> None:
    model = small(causal=False)
    model.settle(4)
    with torch.no_grad():
        before = model(images(2))
        model.decoder.layers[0].attention.out.weight.zero_()  # type: ignore[union-attr, operator]
        assert torch.equal(model(images(2)), before)
        model.decoder.layers[1].attention.out.weight.zero_()  # type: ignore[union-attr, operator]
        assert not torch.allclose(model(images(2)), before)


def test_a_causal_model_says_the_same() -> None:
    model = small(causal=True)
    words = torch.randint(4, 12, (2, 1, 6))
    with torch.no_grad():
        before = model(images(2), None, words)
        model.settle(4)
        assert model.decoder.opening is None
        assert torch.equal(model(images(2), None, words), before)


@pytest.mark.parametrize("regions", [4, 9])
def test_the_codes_of_a_grid_are_kept(regions: int) -> None:
    torch.manual_seed(0)
    model = TransformerCaptioner(GRID, FEATURES, 9, causal=False).eval()
    features = images(2, regions=regions, dtype=torch.float32)
    with torch.no_grad():
        before = model(features)
        model.settle(9)
        assert model.encoder.codes is not None
        assert model.encoder.codes.shape == (9, 16)
        assert_close(model(features), before)


def test_nothing_of_it_is_saved() -> None:
    model = small(causal=False)
    names = set(model.state_dict())
    model.settle(4)
    assert set(model.state_dict()) == names
