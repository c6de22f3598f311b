"""Codes of a grid's cells, and rows of outputs that a GPU likes."""

import pytest
import torch
from torch import nn

from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.layers import WordScores, grid_codes
from naic.models.transformer import TransformerCaptioner


def test_a_cells_code_is_its_row_and_its_column() -> None:
    codes = grid_codes(64, 32, torch.device("cpu")).view(8, 8, 32)
    assert torch.equal(codes[3, :, :16], codes[3, :1, :16].expand(8, 16))  # one row, one code
    assert torch.equal(codes[:, 5, 16:], codes[:1, 5, 16:].expand(8, 16))  # one column likewise
    assert torch.equal(codes[2, 0, :16], codes[0, 2, 16:])  # counted alike in both directions
    apart = torch.cdist(codes.flatten(0, 1), codes.flatten(0, 1)) + torch.eye(64) * 9
    assert apart.min() > 0.5  # neighbours differ enough to be told apart


def test_only_a_grid_has_codes() -> None:
    with pytest.raises(ConfigError, match="no square grid"):
        grid_codes(10, 32, torch.device("cpu"))


@pytest.mark.parametrize("grid", [False, True])
def test_the_order_of_regions_matters_to_a_grid_alone(grid: bool) -> None:
    config = TransformerConfig(16, 2, 1, 1, 32, 0.0, 4, grid)
    torch.manual_seed(0)
    model = TransformerCaptioner(config, 6, 9, causal=False).double().eval()
    features = torch.randn(2, 9, 6, dtype=torch.float64)
    same = torch.allclose(model(features), model(features.flip(1)), atol=1e-9)
    assert same == (not grid)


@pytest.mark.gpu
def test_aligned_rows_have_the_same_values_and_gradients() -> None:
    torch.manual_seed(0)
    layer = WordScores(32, 91).double().cuda()
    x = torch.randn(5, 3, 32, dtype=torch.float64, device="cuda")
    for found in (layer(x), nn.functional.linear(x, layer.weight, layer.bias)):
        layer.zero_grad()
        found.sin().sum().backward()
        torch.testing.assert_close(found, x @ layer.weight.T + layer.bias)
        expected = torch.einsum("abv,abd->vd", found.cos(), x)
        torch.testing.assert_close(layer.weight.grad, expected)
    assert layer(x).stride(1) % 64 == 0


def test_scores_are_float32_under_mixed_precision() -> None:
    """In bfloat16 a score of 34 could only change by 0.25."""
    torch.manual_seed(0)
    layer = WordScores(32, 91)
    x = 10 * torch.randn(5, 3, 32)
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(x)
    assert found.dtype == torch.float32
    assert torch.equal(found, layer(x))


@pytest.mark.gpu  # not every CPU can multiply halves
def test_a_grid_in_half_precision() -> None:
    """Codes in float32 would make everything after them float32, which no half layer takes."""
    config = TransformerConfig(16, 2, 1, 1, 32, 0.0, 4, grid=True)
    torch.manual_seed(0)
    model = TransformerCaptioner(config, 6, 9, causal=False).cuda().eval()
    features = torch.randn(2, 9, 6, device="cuda")
    expected = model(features)
    found = model.bfloat16()(features)
    assert found.dtype == torch.bfloat16
    assert torch.allclose(found.float(), expected, atol=0.1)
