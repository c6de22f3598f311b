"""One way to get a backbone by name, ready to be called, and one to show it many images.

A new backbone is a module beside this one, and one line in `BACKBONES`; or a plug-in's
(`naic.plugins`). The module is imported when the backbone is asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn

from naic.backbones.inside import PREFIX
from naic.data.decoding import decode_batches
from naic.data.features import IMPORTED
from naic.data.joined import TUNED
from naic.device import choose_device, keep_freed_memory
from naic.errors import BackboneError, ConfigError, ImageError, MissingExtraError
from naic.importing import asks_for

if TYPE_CHECKING:
    from naic.images.sources import ImageSource

DEFAULT_PIXELS = 256  # gives the EfficientNets their 8x8 grid
COLOURS = "+colours"  # after a name: each cell's features end in its colours
TIMM = "timm:"  # before a name: a model of that collection


class Trained(NamedTuple):
    """A network with its weights, ready for inference.

    Attributes:
        module: uint8 (B, H, W, 3) to features (B, R, F).
        digest: SHA-256 of the weights, or of a version: other weights make other features.
        pixels: the side of the images that it was made for.
    """

    module: nn.Module
    digest: str
    pixels: int = DEFAULT_PIXELS


class Trainable(NamedTuple):
    """A network that can be part of a captioner and learn with it.

    Attributes:
        make: the network as it is built, its weights random.
        dim: F, the numbers of a region.
        side: cells a side of its grid, whatever the image; 0: one for each 32 pixels.
    """

    make: Callable[[], nn.Module]
    dim: int
    side: int = 0


@dataclass(frozen=True, slots=True)
class BackboneSpec:
    """What there is to know of a backbone before it is loaded.

    Attributes:
        load: (name, weights) to the trained network. Weights are a file or folder; None: its own.
        trainable: (name) to the network for a captioner; None: it cannot be part of one.
        recordable: whether it is known to be fit for a CUDA graph and for float16.
        dtype: what a store keeps its features as.
        weightless: it has no weights, so that none can be given.
    """

    load: Callable[[str, Path | None], Trained]
    trainable: Callable[[str], Trainable] | None = None
    recordable: bool = False
    dtype: str = "float16"
    weightless: bool = False


def _efficientnet(name: str, weights: Path | None) -> Trained:
    from naic.backbones.weights import load_efficientnet

    return Trained(*load_efficientnet(name, weights))


def _trainable_efficientnet(name: str) -> Trainable:
    from naic.backbones.efficientnet import GRID_CHANNELS, make_trainable

    return Trainable(lambda: make_trainable(name), GRID_CHANNELS)


def _blobs(name: str, weights: Path | None) -> Trained:
    from naic.backbones.blobs import DIGEST, Blobs

    return Trained(Blobs(), DIGEST)


def _pixels(name: str, weights: Path | None) -> Trained:
    from naic.backbones.patches import DIGEST, Patches

    return Trained(Patches(), DIGEST)


def _vit(name: str, weights: Path | None) -> Trained:
    from naic.backbones.vit_weights import load_vit

    return Trained(*load_vit(name, weights))


def _trainable_vit(name: str) -> Trainable:
    from naic.backbones.vit import make_vit, vit_dim, vit_grid

    return Trainable(lambda: make_vit(name), vit_dim(name), vit_grid(name))


def _timm(name: str, weights: Path | None) -> Trained:
    from naic.backbones.timm_models import load_timm  # timm is an extra, and slow to import

    return Trained(*load_timm(name.removeprefix(TIMM), weights))


_EFFICIENTNET = BackboneSpec(_efficientnet, _trainable_efficientnet, recordable=True)
_VIT = BackboneSpec(_vit, _trainable_vit, recordable=True)
BACKBONES: dict[str, BackboneSpec] = {
    "efficientnet-lite0": _EFFICIENTNET,
    "efficientnet-lite1": _EFFICIENTNET,
    "efficientnet-lite2": _EFFICIENTNET,
    "clip-vit-b16": _VIT,
    "dinov2-vits14": _VIT,
    "blobs": BackboneSpec(_blobs, weightless=True),
    "pixels": BackboneSpec(_pixels, dtype="uint8", weightless=True),
}
BROUGHT: dict[str, str] = {}  # of those that a plug-in brought, by name, its module
_TIMM = BackboneSpec(_timm)


@dataclass(frozen=True, slots=True)
class Backbone:
    """A network on its device, with what has to be known to use and to name its features."""

    name: str
    module: nn.Module
    digest: str  # SHA-256 of the weights, or of a version: other weights make other features
    pixels: int  # images are squashed to this many pixels a side
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
    made_with: Sequence[str] | None = None,
) -> Backbone:
    """A backbone by name: one of `BACKBONES`, or `timm:NAME`.

    `clip-vit-b16@16` has a grid of 16 x 16 cells, `clip-vit-b16+dinov2-vits14` both side by side.

    With `+colours` after the name each cell's features end in its colours. `blobs` is for drawn
    images only: their even patches, and no weights. `pixels` leaves the seeing to the model.

    On a CPU this also tells the C library to keep freed memory (`keep_freed_memory` says why).

    Args:
        name: which network.
        pixels: images are squashed to this many pixels a side; None takes the network's own.
        weights: the folder of a model that has such a backbone inside; for a `timm:` model or a
            vision transformer also a safetensors file. None takes the pretrained ones.
        device: `auto` (CUDA when there is one), `cpu`, `cuda`, `cuda:1`, ...
        made_with: the plug-ins that the model folder tells of which names this backbone.
    """
    spec = backbone_spec(name, made_with)
    if weights is not None and spec.weightless:
        raise ConfigError("--weights", f"{name} has no weights", "Leave it out.")
    plain = name.removesuffix(COLOURS)
    module, digest, own_pixels = spec.load(plain, weights)
    if name != plain:
        from naic.backbones.colours import WithColours

        module = WithColours(name, module)
    chosen = choose_device(device)
    if chosen.type == "cpu":
        keep_freed_memory()
    module.to(chosen)
    size = own_pixels if pixels is None else pixels
    regions, dim = _measure(name, module, size, chosen)
    return Backbone(name, module, digest, size, regions, dim, chosen, spec.dtype)


def backbone_spec(name: str, made_with: Sequence[str] | None = None) -> BackboneSpec:
    """What there is to know of the backbone of this name."""
    plain = name.removesuffix(COLOURS)
    if plain.startswith(TIMM):
        return _TIMM
    if all(BACKBONES.get(part.split("@")[0]) is _VIT for part in plain.split("+")):
        return _VIT  # one, perhaps with the side of its grid, or several joined
    if plain.split(":")[0] == IMPORTED:
        why = "these features were there already, and naic cannot make them of an image"
        hint = "A model that learnt from them reads feature stores only: naic prepare --features."
        raise BackboneError(name, why, hint)
    spec = BACKBONES.get(plain)
    if spec is None or (name != plain and spec.weightless):
        hint = f"Try {', '.join(BACKBONES)} or {TIMM}NAME. {asks_for(made_with)}"
        raise BackboneError(name, "unknown backbone", hint)
    return spec


def trainable_backbone(name: str) -> Trainable:
    """The backbone of this name as a part of a captioner."""
    if not can_be_inside(name):
        known = ", ".join(trainable_names())
        why = f"there is no backbone called {name!r}"
        joined = "Vision transformers can be joined by +, each as NAME or NAME@SIDE"
        raise ConfigError("model.backbone", why, f"Known are: {known}. {joined}.")
    make = backbone_spec(name).trainable
    assert make is not None
    return make(name)


def can_be_inside(name: str) -> bool:
    """Whether the backbone of this name can be part of a captioner."""
    try:
        return COLOURS not in name and backbone_spec(name).trainable is not None
    except BackboneError:
        return False


def trainable_names() -> list[str]:
    """The backbones that can be part of a captioner; vision transformers can also be joined."""
    return [name for name, spec in BACKBONES.items() if spec.trainable is not None]


def pretrained_backbone(name: str) -> dict[str, Tensor]:
    """The trained weights of this backbone, by their names in a captioner."""
    trained = backbone_spec(name).load(name, None).module.state_dict()
    with torch.device("meta"):
        wanted = trainable_backbone(name).make().state_dict()
    return {PREFIX + key: value for key, value in trained.items() if key in wanted}


def is_tuned(index: Mapping[str, Any]) -> bool:
    """Whether the features of a store come from a model's own backbone, trained on captions.

    `index` is the store's, where `naic prepare` notes it. Earlier stores have the digest of the
    weights alone: an EfficientNet's tells whether they are the published ones, if those are here.
    Published weights of a vision transformer come in several files, each with a digest of its own.
    """
    if TUNED in index:
        return index[TUNED] is True
    name = str(index["backbone"]).removesuffix(COLOURS)
    if not can_be_inside(name) or backbone_spec(name) is _VIT:
        return False
    try:
        return str(index.get("weights")) != backbone_spec(name).load(name, None).digest
    except (MissingExtraError, BackboneError):
        return False


def _measure(name: str, module: nn.Module, pixels: int, device: torch.device) -> tuple[int, int]:
    """Regions and feature size, by trying: some networks accept one image size only."""
    blank = torch.zeros(1, pixels, pixels, 3, dtype=torch.uint8, device=device)
    try:
        with torch.inference_mode():
            _, regions, dim = module(blank).shape  # (1, R, F)
    except (RuntimeError, AssertionError, ValueError) as error:
        raise BackboneError(
            name, f"does not work at {pixels} pixels ({error})", "Try another --pixels."
        ) from error
    return regions, dim


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came of one batch of images."""

    positions: list[int]  # which images the rows of `features` belong to
    features: Tensor  # (len(positions), R, F), on the backbone's device
    errors: list[tuple[int, ImageError]]


def extract(
    images: "Iterable[ImageSource]", backbone: Backbone, *, batch: int = 16, workers: int = 0
) -> Iterator[Extracted]:
    """Features of `images`, a batch at a time, in order; decoding overlaps with the network.

    Which images make a batch does not depend on timing, and so the numbers that come out do not
    either. `workers` is the number of decoders; 0 means one for each core.
    """
    # A network on a CPU leaves little to decode with: threads do, and spare it the pipes.
    processes = backbone.device.type != "cpu"
    for decoded in decode_batches(
        images, backbone.pixels, batch=batch, processes=processes, workers=workers
    ):
        if decoded.positions:
            features = backbone(torch.from_numpy(decoded.pixels))
        else:
            features = torch.empty(0, backbone.regions, backbone.dim)
        yield Extracted(decoded.positions, features, decoded.errors)
