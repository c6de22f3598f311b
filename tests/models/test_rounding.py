"""Rounding by what a layer does: its output moves less, and its codes are codes like any other."""

import pytest
import torch
from torch import Tensor, nn

from naic.errors import CheckpointError, ConfigError
from naic.models.rounding import input_products, round_columns, round_matrices
from naic.packing import PackRule, dequantise, quantise
from naic.unpacking import unpack_bits

GROUP = 32


def draw(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def correlated(inputs: int, count: int = 2000) -> Tensor:
    """Inputs of which each has something of many others, as those of a network do."""
    return draw(1, count, inputs) @ (torch.eye(inputs) + 0.3 * draw(2, inputs, inputs))


def plain(weight: Tensor, bits: int) -> tuple[Tensor, Tensor]:
    codes, scales = quantise(weight.reshape(-1, GROUP), bits)
    return codes.reshape(weight.shape), scales.reshape(len(weight), -1)


def whole(codes: Tensor, scales: Tensor, bits: int) -> Tensor:
    return dequantise(codes.reshape(-1, GROUP), scales.reshape(-1), bits).reshape(codes.shape)


@pytest.mark.parametrize("bits", [2, 3, 4, 6])
@pytest.mark.parametrize("outputs", [1, 40])
def test_the_output_moves_less_than_by_plain_rounding(bits: int, outputs: int) -> None:
    weight, x = draw(3, outputs, 4 * GROUP), correlated(4 * GROUP)
    before = weight.clone()
    codes, scales = round_columns(weight, x.T @ x, bits, GROUP)
    assert torch.equal(weight, before)
    assert codes.shape == weight.shape
    assert scales.shape == (outputs, 4)
    assert codes.min() >= 0
    assert codes.max() < 1 << bits
    off = ((whole(codes, scales, bits) - weight) @ x.T).norm()
    coarse = ((whole(*plain(weight, bits), bits) - weight) @ x.T).norm()
    assert off < 0.9 * coarse
    again = round_columns(weight, x.T @ x, bits, GROUP)
    assert torch.equal(again[0], codes)
    assert torch.equal(again[1], scales)


@pytest.mark.parametrize("scale", [0.0, 1.0, 300.0])
def test_without_correlation_it_is_plain_rounding(scale: float) -> None:
    weight = draw(4, 10, 3 * GROUP)
    codes, scales = round_columns(weight, scale * torch.eye(3 * GROUP), 4, GROUP)
    expected = plain(weight, 4)
    assert torch.equal(codes, expected[0])
    assert torch.equal(scales, expected[1])


def test_inputs_that_never_come_do_no_harm() -> None:
    """An input that is always zero makes H singular."""
    weight, x = draw(5, 8, 2 * GROUP), correlated(2 * GROUP)
    x[:, ::3] = 0
    codes, scales = round_columns(weight, x.T @ x, 4, GROUP)
    assert (whole(codes, scales, 4) - weight).isfinite().all()


def test_where_the_least_cost_is() -> None:
    """Two inputs that are nearly the same: what one weight loses, the other makes good."""
    weight = torch.tensor([[0.4, 0.4, 1.0, -7.0]])
    x = draw(6, 500, 4)
    x[:, 1] = x[:, 0] + 0.01 * draw(7, 500)
    codes, scales = round_columns(weight, x.T @ x, 4, 4)
    found = dequantise(codes, scales[:, 0], 4)[0]
    step = float(scales.abs())
    assert abs(float(found[:2].sum()) - 0.8) < 0.51 * step
    assert float(found[0]) != float(found[1])


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.unused = (nn.Linear(64, 64) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        seen: Tensor = self.second(self.first(x).relu())
        return seen


def test_the_layers_of_a_network() -> None:
    torch.manual_seed(0)
    network, x = Pair(), draw(8, 5, 7, 64)
    products = input_products(network, [x[:3], x[3:]])
    flat = x.reshape(-1, 64)
    torch.testing.assert_close(products["first"], flat.T @ flat)
    assert products.keys() == {"first", "second"}
    packed = round_matrices(network, products, PackRule(backbone_bits=3), "backbone.")
    assert {name: tuple(t.shape) for name, t in packed.items()} == {
        "backbone.first.weight/codes": (3, 512),
        "backbone.first.weight/scales": (64, 1),
        "backbone.second.weight/codes": (3, 512),
        "backbone.second.weight/scales": (64, 1),
    }
    codes, _ = round_columns(network.second.weight, products["second"], 3, 64)
    stored = torch.from_numpy(unpack_bits(packed["backbone.second.weight/codes"].numpy(), 64 * 64))
    assert torch.equal(stored.reshape(64, 64), codes.to(torch.uint8))
    assert not network.second._forward_pre_hooks


def test_what_cannot_be_rounded_is_refused() -> None:
    network = Pair()
    products = input_products(network, [draw(9, 2, 3, 64)])
    with torch.no_grad():
        network.first.weight[0, 0] = torch.nan
    with pytest.raises(CheckpointError, match=r"backbone\.first\.weight: it has numbers"):
        round_matrices(network, products, PackRule(), "backbone.")
    with pytest.raises(ConfigError, match="no matrices"):
        input_products(nn.Conv2d(3, 2, 1), [draw(10, 1, 3, 4, 4)])
