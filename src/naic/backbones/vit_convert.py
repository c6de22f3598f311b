"""Weights of a vision transformer by other people's names, to the module of `vit.py`.

OpenAI, Meta and the `transformers` library name and cut the same tensors in different ways. All
lead to one set of names here, with everything folded in that does not depend on the image.
"""

import re
from collections.abc import Mapping

import torch
from torch import Tensor

from naic.backbones.vit import MIDDLE, VisionTransformer, VitShape
from naic.errors import BackboneError

SCALE = "/scale"  # beside the name of an 8-bit matrix: what its rows are multiplied with
Tensors = dict[str, Tensor]

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
