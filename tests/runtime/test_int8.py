"""Graphs of 8 bits of a model with vision transformers inside."""

import copy
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.testing import assert_close

from naic.backbones.vit import VITS, VisionTransformer, VitBlock
from naic.device import CPU
from naic.runtime.captioner import Captioner
from naic.runtime.export import export_graph
from naic.runtime.graphs import exported
from naic.runtime.int8 import LOWEST, EvenTokens, even_out
from naic.runtime.load import load_whole
from naic.runtime.onnx_engine import OnnxEngine
from tests.backbones.test_vit import TINY, network, noise
from tests.runtime.small import make_model

PAIR = "clip-vit-b16+dinov2-vits14"
PIXELS = 256  # as usual: the second network shrinks them by a matrix


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with two tiny networks inside, and its graphs."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name, shape in TINY.items():
            patch.setitem(VITS, name, shape)
        loaded = load_whole(make_model(home / "model", backbone=PAIR, pixels=PIXELS))
        for precision in ("float32", "int8"):
            graph = export_graph("model", loaded, precision).graph
            (home / f"{precision}.onnx").write_bytes(graph)
    return home


def test_every_product_of_the_blocks_is_by_8_bits(home: Path) -> None:
    graph = onnx.load(home / "int8.onnx").graph
    products = [n for n in graph.node if n.op_type == "MatMulInteger" and "backbone" in n.name]
    names = ("qkv", "out", "rise", "fall")
    blocks = sum(shape.depth for shape in TINY.values())
    for name in names:
        assert sum(f"/{name}/" in node.name for node in products) == blocks
    assert len(products) == len(names) * blocks  # not those that read the pixels
    kinds = {tensor.name: tensor for tensor in graph.initializer}
    for node in products:
        weights = kinds[node.input[1]]
        assert weights.data_type == onnx.TensorProto.INT8
        scale = next(v for k, v in kinds.items() if k == f"{node.input[1][:-10]}_scale")
        assert list(scale.dims) == [weights.dims[1]]  # one for each output


def test_the_graphs_say_nearly_the_same(home: Path) -> None:
    pixels = noise(3, PIXELS, PIXELS, 3)
    exact, rounded = (
        OnnxEngine(exported(home / f"{p}.onnx"), CPU)(pixels) for p in ("float32", "int8")
    )
    difference = np.abs(exact.log_probs[..., 0] - rounded.log_probs[..., 0]).max()
    assert 0 < difference < 0.2
    captions = Captioner(home / "int8.onnx", device="cpu")(list(pixels.numpy()))
    assert len(captions) == 3


def test_cores_with_an_image_each_say_what_they_say_together(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = noise(5, PIXELS, PIXELS, 3)
    before = OnnxEngine(exported(home / "int8.onnx"), CPU)  # one thread, as all tests here
    expected = before(pixels)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for engine in (before, OnnxEngine(exported(home / "int8.onnx"), CPU)):
        found = engine(pixels)
        assert np.array_equal(found.words, expected.words)
        assert np.array_equal(found.log_probs, expected.log_probs)
        one = engine(pixels[:1])  # both cores at one image
        assert np.array_equal(one.words[0], expected.words[0])


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
    even_out(model)
    assert_close(model(pixels), before, atol=1e-4, rtol=1e-4)
    fine = with_rounding(model, pixels)
    assert (fine - before).norm() < 0.7 * (rough - before).norm()
    even_out(model)  # a second time changes nothing
    assert torch.equal(with_rounding(model, pixels), fine)


def test_tokens_of_all_sizes_are_rounded_alike() -> None:
    torch.manual_seed(0)
    layer = nn.Linear(32, 8).requires_grad_(False)
    x = F.gelu(torch.randn(1, 2, 32) * torch.tensor([1.0, 100.0])[:, None])
    exact = layer(x)  # (1, 2, 8)
    assert_close(EvenTokens(layer)(x), exact)
    fine, rough = (Rounded(one)(x) - exact for one in (EvenTokens(layer), layer))
    assert fine[0, 0].norm() < 0.1 * rough[0, 0].norm()  # the small one beside the large one
