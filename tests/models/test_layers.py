"""Codes of a grid's cells, and rows of outputs that a GPU likes."""

from functools import partial

import pytest
import torch
from torch import nn

from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.layers import FEW, FeedForward, aligned, aligned_linear, fewer_kernels, grid_codes
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
    layer = nn.Linear(32, 91).double().cuda()
    x = torch.randn(5, 3, 32, dtype=torch.float64, device="cuda")
    for found in (aligned_linear(x, layer, 91), layer(x)):
        layer.zero_grad()
        found.sin().sum().backward()
        torch.testing.assert_close(found, x @ layer.weight.T + layer.bias)
        expected = torch.einsum("abv,abd->vd", found.cos(), x)
        torch.testing.assert_close(layer.weight.grad, expected)
    assert aligned_linear(x, layer, 91).stride(1) % 64 == 0


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


@pytest.mark.gpu
def test_a_layer_that_is_aligned_beforehand_has_the_same_values() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(32, 91).double().cuda()
    longer = aligned(layer)
    assert longer.out_features == 128
    assert aligned(longer) is longer
    x = torch.randn(5, 3, 32, dtype=torch.float64, device="cuda")
    torch.testing.assert_close(aligned_linear(x, longer, 91), layer(x))


@pytest.mark.gpu
@pytest.mark.parametrize("places", [5, FEW, FEW + 1])
@pytest.mark.parametrize("width", [64, 512])
def test_what_is_done_by_hand_has_the_same_values(places: int, width: int) -> None:
    """Without gradients and in half precision it is computed in fewer steps."""
    torch.manual_seed(0)
    layer, norm, dropout = FeedForward(width, 2048, 0.0), nn.LayerNorm(width), nn.Dropout(0.0)
    for own in (*layer.parameters(), *norm.parameters()):
        nn.init.normal_(own, std=0.2)
    whole = nn.ModuleList([layer, norm]).cuda().half().eval()
    x = torch.randn(1, places, width, device="cuda").half()
    with torch.no_grad(), fewer_kernels():
        found = layer(x, norm, dropout)
    expected = whole.float()[0](x.float(), norm, dropout)
    assert found.shape == x.shape
    scale = expected.abs().max().item()
    torch.testing.assert_close(found.float(), expected, atol=0.005 * scale, rtol=0.01)


@pytest.mark.gpu
@pytest.mark.parametrize("places", [1, 16, 40])
def test_one_kernel_does_what_several_do(places: int) -> None:
    from naic.models import fused

    torch.manual_seed(0)
    layer, norm = nn.Linear(512, 1000).cuda().half(), nn.LayerNorm(512).cuda().half()
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    x, residual = (torch.randn(1, places, width, device="cuda").half() for width in (512, 1000))
    with torch.no_grad():
        plain, normed = layer(x), layer(norm(x))
        close = partial(torch.testing.assert_close, atol=0.01, rtol=0.01)
        close(fused.linear(x, layer), plain)
        close(fused.linear(x, layer, norm), normed)
        close(fused.linear(x, layer, norm, relu=True), normed.relu())
        close(fused.linear(x, layer, None, residual), residual + plain)
    assert fused.works(x.device, torch.float16)
    assert fused.works(x.device, torch.bfloat16)
    assert not fused.fits(nn.Linear(2048, 4), nn.LayerNorm(2048))
    assert fused.fits(nn.Linear(2048, 4), None)
    assert not fused.fits(nn.Linear(64, 4), None)
