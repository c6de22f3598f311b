"""A vision transformer made fit for 8 bits sees what it saw, and rounding costs it less."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from naic.backbones.vit import VisionTransformer, VitBlock
from naic.runtime.even import LOWEST, EvenTokens, even_out, soft_noise
from tests.backbones.test_vit import TINY, network, noise


def rounded(x: Tensor) -> Tensor:
    """As a graph rounds the inputs of a product: one scale for all of an image."""
    low, high = x.min().clamp(max=0), x.max().clamp(min=0)
    step = (high - low) / 255
    return (x / step).round() * step


class Rounded(nn.Module):
    """A product whose inputs are rounded; between tokens of one size, if they are evened out."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.even = isinstance(layer, EvenTokens)
        inner = layer.layer if isinstance(layer, EvenTokens) else layer
        assert isinstance(inner, nn.Linear)
        self.layer = inner

    def forward(self, x: Tensor) -> Tensor:
        size = x.amax(-1, keepdim=True).clamp(min=LOWEST) if self.even else torch.ones(1)
        bias = self.layer.bias
        found: Tensor = self.layer(rounded(x / size))
        return (found - bias) * size + bias


def with_rounding(model: VisionTransformer, pixels: Tensor) -> Tensor:
    """What a copy of it sees if the inputs of all products but the first are rounded."""
    model = copy.deepcopy(model)
    for block in model.blocks:
        for name in ("qkv", "out", "rise", "fall"):
            setattr(block, name, Rounded(getattr(block, name)))
    seen: Tensor = model(pixels)
    return seen


@pytest.mark.parametrize("name", TINY)
def test_evened_out_a_network_sees_the_same_and_rounding_costs_less(name: str) -> None:
    model = network(TINY[name])
    for block in model.blocks:
        assert isinstance(block, VitBlock)
        block.norm1.weight.data[3] = 40  # a channel far larger than the others
        block.norm2.weight.data[5] = 40
        block.qkv.weight.data[:, 3] /= 40
        block.rise.weight.data[:, 5] /= 40
    pixels = noise(1, model.side, model.side, 3)
    before, rough = model(pixels), with_rounding(model, pixels)
    even_out(model, soft_noise(2, model.side))
    assert_close(model(pixels), before, atol=1e-4, rtol=1e-4)
    fine = with_rounding(model, pixels)
    assert (fine - before).norm() < 0.7 * (rough - before).norm()
    even_out(model, soft_noise(2, model.side))  # a second time changes nothing
    assert torch.equal(with_rounding(model, pixels), fine)


def test_tokens_of_all_sizes_are_rounded_alike() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(32, 8).requires_grad_(False)
    x = F.gelu(torch.randn(1, 2, 32) * torch.tensor([1.0, 100.0])[:, None])
    exact = layer(x)  # (1, 2, 8)
    assert_close(EvenTokens(layer)(x), exact)
    fine, rough = (Rounded(one)(x) - exact for one in (EvenTokens(layer), layer))
    assert fine[0, 0].norm() < 0.1 * rough[0, 0].norm()  # the small one beside the large one


def test_values_that_attention_finds_are_evened_out_too() -> None:
    model = network(TINY["clip-vit-b16"])
    pixels = noise(1, model.side, model.side, 3)
    width = TINY["clip-vit-b16"].width
    for block in model.blocks:
        assert isinstance(block, VitBlock)
        block.qkv.weight.data[2 * width + 3] *= 40
        block.out.weight.data[:, 3] /= 40
    before = model(pixels)
    sizes: list[Tensor] = []
    last = model.blocks[-1]
    assert isinstance(last, VitBlock)
    last.out.register_forward_hook(
        lambda _, given, __: sizes.append(given[0].abs().flatten(0, 1).amax(0))
    )
    assert_close(model(pixels), before, atol=1e-4, rtol=1e-4)
    even_out(model, soft_noise(2, model.side))
    assert_close(model(pixels), before, atol=1e-4, rtol=1e-4)
    rough, fine = (found.max() / found.median() for found in (sizes[0], sizes[-1]))
    assert fine < 0.3 * rough


def test_soft_noise_is_always_the_same_and_no_image_is_another() -> None:
    images = soft_noise(3, 64)
    assert (images.dtype, images.shape) == (torch.uint8, (3, 64, 64, 3))
    assert torch.equal(images, soft_noise(3, 64))
    assert not torch.equal(images[0], images[1])
    assert images.float().std() > 20  # neither black nor white
