"""One way to get a backbone by name, ready to be called."""

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from naic.backbones.blobs import DIGEST, Blobs
from naic.backbones.colours import SUFFIX, WithColours
from naic.backbones.cpu import keep_freed_memory
from naic.backbones.efficientnet import VARIANTS
from naic.backbones.patches import DIGEST as PIXELS_DIGEST
from naic.backbones.patches import Patches
from naic.backbones.vit import VITS, is_vit
from naic.backbones.vit_weights import load_vit
from naic.backbones.weights import load_efficientnet
from naic.errors import BackboneError, ConfigError

DEFAULT_PIXELS = 256  # gives the EfficientNets their 8x8 grid


@dataclass(frozen=True, slots=True)
class Backbone:
    """A network on its device, with what has to be known to use and to name its features."""

    name: str
    module: nn.Module
    digest: str  # SHA-256 of the weights, or of a version: other weights make other features
    pixels: int  # pictures are squashed to this many pixels a side
    regions: int
    dim: int
    device: torch.device
    dtype: str = "float16"  # what a store keeps its features as

    @torch.inference_mode()
    def __call__(self, pixels: Tensor) -> Tensor:
        """uint8 (B, H, W, 3), on any device -> (B, R, F) on the backbone's device.

        The features are float32; those of `pixels` are uint8.
        """
        features: Tensor = self.module(pixels.to(self.device, non_blocking=True))
        return features


def load_backbone(
    name: str = "efficientnet-lite2",
    *,
    pixels: int | None = None,
    weights: Path | None = None,
    device: str = "auto",
) -> Backbone:
    """A backbone by name: `efficientnet-lite0`, `-lite1`, `-lite2`, `timm:NAME`, `blobs`, `pixels`.

    With `+colours` after the name each cell's features end in its colours. `blobs` is for drawn
    pictures only: their even patches, and no weights. `pixels` leaves the seeing to the model.

    On a CPU this also tells the C library to keep freed memory (`cpu.py` says why).

    Args:
        name: which network.
        pixels: pictures are squashed to this many pixels a side; None takes the network's own.
        weights: a safetensors file for a `timm:` model; for an `efficientnet-` one the folder of a
            model that has such eyes. None takes the pretrained ones.
        device: `auto` (CUDA when there is one), `cpu`, `cuda`, `cuda:1`, ...
    """
    module: nn.Module
    plain = name.removesuffix(SUFFIX)
    if plain.startswith("timm:"):
        from naic.backbones.timm_models import load_timm  # timm is an extra, and slow to import

        module, digest, own_pixels = load_timm(plain.removeprefix("timm:"), weights)
    elif weights is not None and name in ("blobs", "pixels"):
        raise ConfigError("--weights", f"{name} has no weights", "Leave it out.")
    elif plain in VARIANTS:
        module, digest = load_efficientnet(plain, weights)
        own_pixels = DEFAULT_PIXELS
    elif is_vit(plain):
        module, digest = load_vit(plain, weights)
        own_pixels = DEFAULT_PIXELS
    elif name == "blobs":
        module, digest, own_pixels = Blobs(), DIGEST, DEFAULT_PIXELS
    elif name == "pixels":
        module, digest, own_pixels = Patches(), PIXELS_DIGEST, DEFAULT_PIXELS
    else:
        known = ", ".join((*VARIANTS, *VITS, "blobs", "pixels"))
        raise BackboneError(name, "unknown backbone", f"Try {known} or timm:NAME.")
    if name != plain:
        module = WithColours(name, module)
    chosen = choose_device(device)
    if chosen.type == "cpu":
        keep_freed_memory()
    module.to(chosen)
    size = own_pixels if pixels is None else pixels
    regions, dim = _measure(name, module, size, chosen)
    dtype = "uint8" if name == "pixels" else "float16"
    return Backbone(name, module, digest, size, regions, dim, chosen, dtype)


def choose_device(device: str) -> torch.device:
    """The device asked for, or a clear word that it is not there."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError:
        raise ConfigError(
            "--device", f"{device!r} is no device", "Try auto, cpu or cuda."
        ) from None
    if chosen.type not in ("cpu", "cuda"):
        raise ConfigError("--device", f"{device} is not supported", "Use auto, cpu or cuda.")
    if chosen.type == "cuda" and (chosen.index or 0) >= torch.cuda.device_count():
        raise ConfigError(
            "--device", f"{device} is not there", "Use --device cpu, or check the driver."
        )
    return chosen


def _measure(name: str, module: nn.Module, pixels: int, device: torch.device) -> tuple[int, int]:
    """Regions and feature size, by trying: some networks accept one picture size only."""
    blank = torch.zeros(1, pixels, pixels, 3, dtype=torch.uint8, device=device)
    try:
        with torch.inference_mode():
            _, regions, dim = module(blank).shape  # (1, R, F)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise BackboneError(
            name, f"does not work at {pixels} pixels ({error})", "Try another --pixels."
        ) from error
    return regions, dim
