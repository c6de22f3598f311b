"""Vision transformers that were made ready for use see what they saw before."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from naic.backbones.vit import VITS, Joined, VisionTransformer
from naic.runtime.engines import EagerEngine
from naic.runtime.export import export_graph
from naic.runtime.fuse_vit import (
    FoldedTransformer,
    ForkedJoined,
    SiluBlock,
    fold_vits,
    side_by_side,
)
from naic.runtime.load import load_whole
from naic.runtime.ready import make_ready
from tests.backbones.test_vit import TINY, network, noise
from tests.runtime.small import PIXELS, make_model

PAIR = "clip-vit-b16+dinov2-vits14"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, shape in TINY.items():
        monkeypatch.setitem(VITS, name, shape)


def pair() -> nn.ModuleDict:
    """Both networks joined, inside something, as they are inside a captioner."""
    return nn.ModuleDict({"eye": Joined([network(shape) for shape in TINY.values()])})


@pytest.mark.parametrize("size", [32, 40, 64, 256])  # 32 and 64 are their own sizes
def test_they_see_the_same(size: int) -> None:
    module, pixels = pair(), noise(2, size, size, 3)
    before, given = module["eye"](pixels), module["eye"].networks[0]  # type: ignore[index]
    assert isinstance(given, VisionTransformer)
    weights = given.patch.weight.clone()
    fold_vits(module)
    joined = module["eye"]
    assert type(joined) is ForkedJoined
    assert {type(one) for one in joined.networks} == {FoldedTransformer}
    clip, dino = joined.networks
    assert {type(block) for block in clip.blocks} == {SiluBlock}  # type: ignore[union-attr]
    assert SiluBlock not in {type(block) for block in dino.blocks}  # type: ignore[union-attr]
    assert_close(joined(pixels), before, atol=1e-5, rtol=1e-5)
    assert torch.equal(given.patch.weight, weights)  # what was given to it is not changed


def test_pixels_that_are_floats_are_taken_too() -> None:
    """As they come from crops and mirrors."""
    module, pixels = pair(), noise(1, 64, 64, 3).float() + 0.25
    before = module["eye"](pixels)
    fold_vits(module)
    assert_close(module["eye"](pixels), before, atol=1e-5, rtol=1e-5)


def test_a_second_time_changes_nothing() -> None:
    module, pixels = pair(), noise(1, 64, 64, 3)
    fold_vits(module)
    before, seen = list(module.modules()), module["eye"](pixels)
    fold_vits(module)
    assert list(module.modules()) == before
    assert torch.equal(module["eye"](pixels), seen)


def test_folded_networks_compile_as_one_graph() -> None:
    module, pixels = pair(), noise(1, 64, 64, 3)
    fold_vits(module)
    compiled = torch.compile(module["eye"], fullgraph=True, backend="eager")
    assert_close(compiled(pixels), module["eye"](pixels))


@pytest.mark.parametrize("captioner", ["parallel", "causal"])
def test_a_captioner_with_them_inside_says_the_same(
    tiny: None, tmp_path: Path, captioner: str
) -> None:
    folder = make_model(tmp_path / "model", captioner, backbone=PAIR)
    plain, pixels = load_whole(folder).whole, noise(3, PIXELS, PIXELS, 3)
    with torch.inference_mode():
        words, log_probs, _ = plain(pixels)
    engine = make_ready(folder, "cpu", "auto", "auto").engine
    assert (engine.runtime, engine.precision) == ("eager", "float32")
    said = engine(pixels)
    assert np.array_equal(said.words[..., 0], words.numpy()[..., 0])
    np.testing.assert_allclose(said.log_probs, log_probs.numpy(), atol=1e-5)
    assert any(isinstance(part, ForkedJoined) for part in engine._whole.modules())  # type: ignore[attr-defined]


def test_features_outside_a_captioner_too(tiny: None, tmp_path: Path) -> None:
    """A model that learnt from a store's features has its networks beside it."""
    loaded = load_whole(make_model(tmp_path / "model", backbone=PAIR))
    vits = loaded.whole.model.backbone
    whole = loaded.whole
    whole.backbone = vits  # type: ignore[assignment]
    EagerEngine(whole, PIXELS, torch.device("cpu"), "float32")
    assert type(whole.backbone) is ForkedJoined


def features(module: nn.Module, pixels: Tensor) -> Tensor:
    with torch.inference_mode():
        found: Tensor = module(pixels)
    return found.float()


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_in_half_precision_they_see_nearly_the_same(kind: torch.dtype) -> None:
    module, pixels = pair(), noise(2, 256, 256, 3).cuda()
    exact = features(module.cuda()["eye"], pixels)
    fold_vits(module.cpu())
    found = features(module.to("cuda", kind)["eye"], pixels)
    assert nn.functional.cosine_similarity(found, exact, dim=2).min() > 0.98


@pytest.mark.gpu
def test_two_streams_see_the_same_in_a_graph() -> None:
    """Replayed with other pixels than it was recorded with, many times in a row."""
    module = pair()
    fold_vits(module)
    eye = module.cuda()["eye"]
    pixels = noise(1, 256, 256, 3).cuda()
    stream, side = torch.cuda.Stream(), torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.inference_mode(), side_by_side(side):
        with torch.cuda.stream(stream):
            for _ in range(3):
                eye(pixels)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=stream):
            found = eye(pixels)
    for seed in range(50):
        generator = torch.Generator().manual_seed(seed)
        other = torch.randint(0, 256, pixels.shape, dtype=torch.uint8, generator=generator)
        pixels.copy_(other)
        graph.replay()
        assert_close(found, features(eye, other.cuda()), atol=1e-4, rtol=1e-4)


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 4, 5])
def test_a_graph_with_two_streams_says_what_the_model_says(
    tiny: None, tmp_path: Path, count: int
) -> None:
    folder = make_model(tmp_path / "model", backbone=PAIR)
    pixels = noise(count, PIXELS, PIXELS, 3)
    exact = make_ready(folder, "cuda", "eager", "float32").engine(pixels)
    graph = make_ready(folder, "cuda", "graph", "float32").engine
    for _ in range(3):
        said = graph(pixels)
        np.testing.assert_allclose(said.log_probs, exact.log_probs, atol=1e-3)
    half = make_ready(folder, "cuda", "auto", "auto").engine
    assert (half.runtime, half.precision) == ("graph", "float16")
    np.testing.assert_allclose(half(pixels).log_probs[..., 0], exact.log_probs[..., 0], atol=0.05)


def test_what_is_no_vision_transformer_stays() -> None:
    module = nn.Sequential(nn.Linear(3, 3))
    fold_vits(module)
    assert type(module[0]) is nn.Linear


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_graph_is_made_of_a_copy(tiny: None, tmp_path: Path, precision: str) -> None:
    """Whoever exports a model can go on with it as it was."""
    loaded = load_whole(make_model(tmp_path / "model", backbone=PAIR))
    kinds = [(name, type(part)) for name, part in loaded.whole.named_modules()]
    weights = {name: tensor.clone() for name, tensor in loaded.whole.state_dict().items()}
    export_graph("model", loaded, precision)
    assert [(name, type(part)) for name, part in loaded.whole.named_modules()] == kinds
    after = loaded.whole.state_dict()
    assert after.keys() == weights.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in weights.items())
