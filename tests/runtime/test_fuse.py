"""A captioner that was made ready for use says what it said before."""

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.decoder import Decoder
from naic.models.layers import WordScores
from naic.models.transformer import CAUSAL, PARALLEL, EncoderLayer, TransformerCaptioner
from naic.runtime.fuse import (
    FEW,
    AlignedScores,
    FusedDecoderLayer,
    FusedEncoderLayer,
    KeptCodes,
    OpenedDecoder,
    fewer_kernels,
    fuse,
    fuse_layers,
)
from tests.models.small import FEATURES, images, small

GRID = TransformerConfig(
    width=16, heads=2, encoder_layers=1, decoder_layers=1, hidden=24, length=4, grid=True
)


@pytest.mark.parametrize("regions", [4, 9])
def test_the_agents_say_the_same(regions: int) -> None:
    """Also of images with another number of regions than it was made ready for."""
    model = small(causal=False)
    features = images(3, regions=regions)
    mask = torch.arange(regions) < torch.tensor([regions, 2, 3])[:, None]
    with torch.no_grad():
        before = model(features), model(features, mask)
        fuse(model, images(1))
        assert type(model.decoder) is OpenedDecoder
        assert_close(model(features), before[0])
        assert_close(model(features, mask), before[1])


def test_the_first_layer_is_not_asked_again() -> None:
    model = small(causal=False)
    fuse(model, images(1))
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
        fuse(model, images(1))
        assert type(model.decoder) is Decoder
        assert torch.equal(model(images(2), None, words), before)


@pytest.mark.parametrize("regions", [4, 9])
def test_the_codes_of_a_grid_are_kept(regions: int) -> None:
    torch.manual_seed(0)
    model = TransformerCaptioner(GRID, FEATURES, 9, causal=False).eval()
    features = images(2, regions=regions, dtype=torch.float32)
    with torch.no_grad():
        before = model(features)
        fuse(model, images(1, regions=9, dtype=torch.float32))
        kept = model.encoder.codes
        assert isinstance(kept, KeptCodes)
        assert kept.codes.shape == (9, 16)
        assert_close(model(features), before)


def test_nothing_of_it_is_saved() -> None:
    model = small(causal=False)
    names = set(model.state_dict())
    fuse(model, images(1))
    assert set(model.state_dict()) == names


def test_a_second_time_changes_nothing() -> None:
    """A recorded graph may read what the first left behind."""
    torch.manual_seed(0)
    model = TransformerCaptioner(GRID, FEATURES, 9, causal=False).eval()
    features = images(2, regions=9, dtype=torch.float32)
    fuse(model, features)
    codes, decoder = model.encoder.codes, model.decoder
    fuse(model, features)
    assert model.encoder.codes is codes
    assert model.decoder is decoder


@pytest.mark.parametrize("causal", [True, False])
def test_fused_layers_say_the_same_on_a_cpu_too(causal: bool) -> None:
    """Where no kernel of our own runs: what is left is the order of the steps."""
    model = small(causal=causal)
    features, words = images(2), torch.randint(4, 12, (2, 3, 6))
    with torch.no_grad():
        before = model(features, None, words)
        said = propose(model, features)
        fuse_layers(model)
        assert {type(layer) for layer in model.encoder.layers} == {FusedEncoderLayer}
        assert {type(layer) for layer in model.decoder.layers} == {FusedDecoderLayer}
        assert_close(model(features, None, words), before)
        for found, expected in zip(propose(model, features), said, strict=True):
            assert_close(found, expected)


@pytest.mark.parametrize("name", ["mnic", "fnic"])
def test_others_of_the_same_layers_are_made_ready_likewise(name: str) -> None:
    """In one table the time of one of them is not that of other kernels."""
    torch.manual_seed(0)
    spec, sizes = CAPTIONERS[name], {"width": 16, "heads": 2, "hidden": 24, "length": 4}
    model: Any = spec.build(spec.config(**sizes, grid=True), 8, 12).eval()
    features = torch.randn(2, 9, 8)
    before = spec.propose(model, features, None, 2)
    with torch.no_grad():
        fuse(model, features)
    assert type(model.encoder.codes) is KeptCodes
    fuse_layers(model)
    assert {type(layer) for layer in model.encoder.layers} == {FusedEncoderLayer}
    assert {type(layer) for layer in model.decoder.layers} == {FusedDecoderLayer}
    for found, expected in zip(spec.propose(model, features, None, 2)[:2], before[:2], strict=True):
        assert_close(found, expected)


def propose(model: TransformerCaptioner, features: Tensor) -> tuple[Tensor, Tensor]:
    words, log_probs, pairs = (CAUSAL if model.causal else PARALLEL).propose(
        model, features, None, 2
    )
    assert pairs is None
    return words, log_probs


def test_agents_that_hear_each_other_say_the_same() -> None:
    torch.manual_seed(0)
    model = TransformerCaptioner(replace(GRID, transitions=3, choices=4), 8, 12, causal=False)
    transitions = model.eval().transitions
    assert transitions is not None
    for part in (transitions.after, transitions.context):
        torch.nn.init.normal_(part.weight)
    features = torch.randn(2, 9, 8)
    with torch.no_grad():
        before = PARALLEL.propose(model, features, None, 2)
        fuse(model, features)
        assert type(model.decoder) is OpenedDecoder
        fuse_layers(model)
        after = PARALLEL.propose(model, features, None, 2)
    assert torch.equal(after.words, before.words)
    assert before.pairs is not None
    assert before.pairs.shape == (2, 3, 4, 4)
    assert_close(after.pairs, before.pairs)


@pytest.mark.parametrize("causal", [False, True])
def test_fused_layers_compile_as_one_graph(causal: bool) -> None:
    """What chooses kernels must not be in the compiler's way."""
    model = small(causal=causal)
    fuse_layers(model)
    words = torch.zeros(2, 1, model.length, dtype=torch.long) if causal else None
    with torch.no_grad():
        expected = model(images(2), None, words)
        compiled = torch.compile(model, fullgraph=True, backend="eager")
        assert_close(compiled(images(2), None, words), expected)


def test_other_captioners_stay_as_they_are() -> None:
    model = nn.Linear(3, 3)
    fuse(model, torch.zeros(1, 4, 3))
    assert type(model) is nn.Linear


def test_a_layer_that_is_aligned_beforehand_has_the_same_values() -> None:
    torch.manual_seed(0)
    layer = WordScores(32, 91).double()
    longer = AlignedScores(layer)
    assert longer.out_features == 128
    x = torch.randn(5, 3, 32, dtype=torch.float64)
    torch.testing.assert_close(longer(x), layer(x))


@pytest.mark.gpu
@pytest.mark.parametrize("places", [5, FEW, FEW + 1])
@pytest.mark.parametrize("width", [64, 512])
def test_fused_layers_have_the_same_values(places: int, width: int) -> None:
    """In half precision on a GPU they are computed in fewer steps."""
    torch.manual_seed(0)
    sizes = {"width": width, "heads": 8, "encoder_layers": 1, "decoder_layers": 1, "hidden": 2048}
    config = TransformerConfig(**sizes, dropout=0.0)  # type: ignore[arg-type]
    model = TransformerCaptioner(config, FEATURES, 9, causal=False)
    for own in model.encoder.layers.parameters():
        nn.init.normal_(own, std=0.05)
    model.cuda().half().eval()
    x = torch.randn(1, places, width, device="cuda").half()
    (plain,) = model.encoder.layers
    assert type(plain) is EncoderLayer
    with torch.no_grad(), fewer_kernels():
        fuse(model, images(1).cuda().half())
        (layer,) = model.encoder.layers
        assert type(layer) is FusedEncoderLayer
        found = layer(x, None)
        expected = plain.float()(x.float(), None)
    assert found.shape == x.shape
    scale = expected.abs().max().item()
    assert_close(found.float(), expected, atol=0.005 * scale, rtol=0.01)


@pytest.mark.gpu
@pytest.mark.parametrize("places", [1, 16, 40])
def test_one_kernel_does_what_several_do(places: int) -> None:
    from naic.runtime import fused

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
