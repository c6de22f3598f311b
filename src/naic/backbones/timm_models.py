"""Any model of the `timm` collection as a backbone (the extra `naic[timm]`)."""

import hashlib
import sys
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from naic.errors import BackboneError, MissingExtraError

# Held for the life of the process: the schemas vanish with the object that declared them.
_torchvision_schemas: list[torch.library.Library] = []


class TimmGrid(nn.Module):
    """Takes pixels as our other backbones do, and gives a timm model's grid as (B, R, F)."""

    def __init__(self, model: nn.Module, mean: tuple[float, ...], std: tuple[float, ...]) -> None:
        super().__init__()
        self.model = model
        self.mean: Tensor
        self.std: Tensor
        self.register_buffer("mean", torch.tensor(mean).view(3, 1, 1) * 255)
        self.register_buffer("std", torch.tensor(std).view(3, 1, 1) * 255)

    def forward(self, pixels: Tensor) -> Tensor:
        """uint8 (B, H, W, 3) -> (B, R, F)."""
        x = (pixels.permute(0, 3, 1, 2).float() - self.mean) / self.std  # (B, 3, H, W)
        model = cast(Any, self.model)
        y: Tensor = model.forward_features(x)
        if y.ndim == 3:  # a vision transformer: (B, prefix + R, F)
            return y[:, getattr(model, "num_prefix_tokens", 0) :]
        if y.shape[1] == model.num_features:  # a convolutional network: (B, F, h, w)
            y = y.permute(0, 2, 3, 1)
        return y.flatten(1, 2)  # (B, h·w, F)


def load_timm(name: str, weights: Path | None) -> tuple[TimmGrid, str, int]:
    """A timm model as (module, SHA-256 of its weights, the image size it was made for)."""
    timm = _import_timm()
    what = f"timm:{name}"
    if not timm.is_model(name.split(".")[0]):
        close = ", ".join(timm.list_models(f"*{name.split('_')[0].split('.')[0]}*")[:5])
        hint = f"Perhaps one of: {close}." if close else "timm.list_models() names them all."
        raise BackboneError(what, "timm knows no such model", hint)
    try:
        model = timm.create_model(name, pretrained=weights is None, num_classes=0)
    except Exception as error:  # the hub client has a tree of errors of its own
        raise BackboneError(
            what,
            f"its pretrained weights cannot be had ({error})",
            "Connect to the network once, or pass --weights FILE.safetensors.",
        ) from error
    if weights is not None:
        _load_file(model, weights, what)
    data = timm.data.resolve_model_data_config(model)
    grid = TimmGrid(model.eval().requires_grad_(False), data["mean"], data["std"])
    digest = hashlib.sha256(save(model.state_dict())).hexdigest()
    return grid, digest, data["input_size"][-1]


def _load_file(model: nn.Module, weights: Path, what: str) -> None:
    """Fill the model from a safetensors file; a classifier in the file is left aside."""
    try:
        found = load(weights.read_bytes())
    except (OSError, SafetensorError) as error:
        raise BackboneError(
            str(weights), f"is no safetensors file ({error})", "Convert the weights first."
        ) from error
    wanted = model.state_dict()
    missing = [
        key for key, value in wanted.items() if key not in found or found[key].shape != value.shape
    ]
    if missing:
        raise BackboneError(
            str(weights),
            f"does not fit {what}: {len(missing)} tensors are missing or of another shape, "
            f"such as {missing[0]}",
            "Check that the file belongs to this model.",
        )
    model.load_state_dict({key: found[key] for key in wanted})


def _import_timm() -> Any:  # noqa: ANN401 - timm ships no types
    """Import timm, or say how to get it.

    timm imports torchvision. The torchvision of the package index is built for CUDA and, on a
    CPU build of torch, dies because its compiled operators are absent. timm needs none of them:
    declaring their names lets the import pass.
    """
    try:
        try:
            import timm
        except RuntimeError:
            for module in [
                key for key in sys.modules if key.split(".")[0] in ("torchvision", "timm")
            ]:
                del sys.modules[module]
            library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
            for operator in ("nms", "qnms"):
                library.define(  # type: ignore[no-untyped-call]
                    f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"
                )
            _torchvision_schemas.append(library)
            import timm
    except ImportError as error:
        raise MissingExtraError(
            "timm", f"is not installed ({error})", "Run: pip install 'naic[timm]'"
        ) from error
    return timm
