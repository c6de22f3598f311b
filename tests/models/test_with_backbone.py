from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from naic.backbones.inside import backbone_digest, backbone_tensors, without_backbone
from naic.backbones.load import pretrained_backbone
from naic.backbones.patches import PATCH, Patches
from naic.backbones.weights import load_efficientnet
from naic.decode.decoding import Decoding
from naic.errors import BackboneError, CheckpointError, ConfigError
from naic.models.captioners import CAPTIONERS, take_weights
from naic.models.config import TransformerConfig
from naic.models.folder import ModelSettings, load_model, write_model
from naic.models.transformer import TransformerCaptioner
from naic.packing import PackRule, pack
from naic.runtime.fuse import fuse
from naic.text import Vocabulary

NETWORK = "efficientnet-lite0"
CONFIG = TransformerConfig(
    width=32, heads=2, encoder_layers=1, decoder_layers=1, hidden=64, length=6, backbone=NETWORK
)
WORDS = Vocabulary.build(["a red dog on grass"] * 6, more_than=5)


def seeing(*, causal: bool = False) -> TransformerCaptioner:
    torch.manual_seed(0)
    model = TransformerCaptioner(CONFIG, PATCH, len(WORDS), causal=causal)
    take_weights(model, pretrained_backbone(NETWORK))
    return model.eval()


def pixels(count: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randint(0, 256, (count, 64, 64, 3), dtype=torch.uint8, generator=generator)


@pytest.mark.parametrize("name", ["causal", "parallel"])
def test_it_says_what_a_captioner_says_of_the_features(name: str) -> None:
    spec = CAPTIONERS[name]
    own = seeing(causal=name == "causal")
    blind = spec.build(replace(CONFIG, backbone=""), 1280, len(WORDS))
    take_weights(blind, without_backbone(own.state_dict()))
    backbone, _ = load_efficientnet(NETWORK)
    with torch.inference_mode():
        features = backbone(pixels())
        words = torch.randint(4, len(WORDS), (2, 1, CONFIG.length))
        torch.testing.assert_close(own(pixels(), None, words), blind.eval()(features, None, words))
        assert torch.equal(
            spec.caption(own, pixels(), None, Decoding()),
            spec.caption(blind, features, None, Decoding()),
        )


def test_the_cells_of_a_store_are_as_good_as_pixels() -> None:
    own = seeing()
    with torch.inference_mode():
        assert torch.equal(own(pixels()), own(Patches()(pixels())))


def test_it_sees_something_else_each_time_while_training() -> None:
    own = TransformerCaptioner(replace(CONFIG, dropout=0.0), PATCH, len(WORDS), causal=False)
    own.train()
    assert not torch.equal(own(pixels()), own(pixels()))
    own.eval()
    assert torch.equal(own(pixels()), own(pixels()))


def test_the_backbone_learn_too() -> None:
    own = seeing().train()
    own(pixels()).square().mean().backward()
    grads = {name: p.grad for name, p in own.named_parameters()}
    assert all(
        g is not None and bool(g.abs().sum() > 0) for n, g in grads.items() if "backbone" in n
    )


def test_a_folder_keeps_them(tmp_path: Path) -> None:
    own = seeing()
    settings = ModelSettings("parallel", PATCH, len(WORDS), "pixels", CONFIG, 64)
    write_model(tmp_path / "model", own.state_dict(), settings, WORDS, "")
    again = load_model(tmp_path / "model").model
    assert isinstance(again, TransformerCaptioner)
    with torch.inference_mode():
        assert torch.equal(own(pixels()), again(pixels()))
    tuned, digest = load_efficientnet(NETWORK, tmp_path / "model")
    assert digest == backbone_digest(backbone_tensors(own.state_dict()))
    with torch.inference_mode():
        assert own.backbone is not None
        assert torch.equal(tuned(pixels()), own.backbone(pixels()))


def test_other_backbone_and_none_are_told_apart(tmp_path: Path) -> None:
    own = seeing()
    settings = ModelSettings("parallel", PATCH, len(WORDS), "pixels", CONFIG, 64)
    write_model(tmp_path / "model", own.state_dict(), settings, WORDS, "")
    with pytest.raises(BackboneError, match="has no backbone that is efficientnet-lite2"):
        load_efficientnet("efficientnet-lite2", tmp_path / "model")
    with pytest.raises(BackboneError, match="cannot be read"):
        load_efficientnet(NETWORK, tmp_path / "nothing")
    write_model(tmp_path / "packed", pack(own.state_dict(), PackRule()), settings, WORDS, "")
    with pytest.raises(BackboneError, match="has no efficientnet-lite2"):
        load_efficientnet("efficientnet-lite2", tmp_path / "packed")


def test_the_backbone_of_a_packed_model_is_what_the_model_sees_with(tmp_path: Path) -> None:
    settings = ModelSettings("parallel", PATCH, len(WORDS), "pixels", CONFIG, 64)
    packed = pack(seeing().state_dict(), PackRule(backbone_bits=5))
    write_model(tmp_path / "packed", packed, settings, WORDS, "")
    model = load_model(tmp_path / "packed").model
    assert isinstance(model, TransformerCaptioner)
    assert model.backbone is not None
    network, digest = load_efficientnet(NETWORK, tmp_path / "packed")
    assert digest == backbone_digest(backbone_tensors(model.state_dict()))
    with torch.inference_mode():
        assert torch.equal(network(pixels()), model.backbone(pixels()))


def test_features_are_refused_and_so_are_unknown_backbone() -> None:
    with pytest.raises(ConfigError, match="a backbone needs pixels"):
        TransformerCaptioner(CONFIG, 1280, len(WORDS), causal=False)
    with pytest.raises(ConfigError, match="no backbone called 'resnet'"):
        TransformerCaptioner(replace(CONFIG, backbone="resnet"), PATCH, len(WORDS), causal=False)


def test_a_folder_with_backbone_that_are_not_known_is_refused(tmp_path: Path) -> None:
    own = seeing()
    config = replace(CONFIG, backbone="resnet")
    settings = ModelSettings("parallel", PATCH, len(WORDS), "pixels", config, 64)
    write_model(tmp_path / "model", own.state_dict(), settings, WORDS, "")
    with pytest.raises(CheckpointError, match="no backbone called 'resnet'"):
        load_model(tmp_path / "model")


def test_a_model_without_backbone_is_a_plain_captioner() -> None:
    model = CAPTIONERS["parallel"].build(replace(CONFIG, backbone=""), 1280, len(WORDS))
    assert isinstance(model, TransformerCaptioner)
    assert model.backbone is None


def test_regions_are_known_without_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Making a model ready for use must not run its backbone once more."""
    model = TransformerCaptioner(replace(CONFIG, grid=True), PATCH, 20, causal=False).eval()
    monkeypatch.setattr(model.backbone, "forward", lambda _: pytest.fail("it was run"))
    for side in (64, 65):
        blank = torch.zeros(1, side, side, 3, dtype=torch.uint8)
        assert model.regions(blank) == (-(-side // 32)) ** 2
    assert model.regions(torch.zeros(1, 9, PATCH)) == 9
    fuse(model, torch.zeros(1, 64, 64, 3, dtype=torch.uint8))
