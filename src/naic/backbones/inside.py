"""A backbone inside a captioner: how its tensors are named there, taken out, and told apart."""

import hashlib
import json
import re
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load
from torch import Tensor, nn

from naic.errors import BackboneError, CheckpointError
from naic.files import CODES

PREFIX = "backbone."  # how the names of its tensors begin inside a captioner
_OLD_PREFIX = re.compile(r"^((?:\w+/)?)eyes\.")  # also in an optimiser's state: exp_avg/eyes....


def current_name(name: str) -> str:
    """A tensor's name in a captioner; older models call the backbone inside them `eyes`."""
    return _OLD_PREFIX.sub(rf"\1{PREFIX}", name)


def backbone_tensors(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The backbone of a captioner alone, by the names it has outside it."""
    return {n.removeprefix(PREFIX): value for n, value in weights.items() if n.startswith(PREFIX)}


def without_backbone(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is left for a captioner that takes the features of this backbone."""
    return {name: value for name, value in weights.items() if not name.startswith(PREFIX)}


def backbone_digest(tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 of a network's weights by name, whatever file they lie in."""
    state = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().float().cpu().contiguous()
        state.update(json.dumps([name, list(tensor.shape)]).encode())
        state.update(tensor.numpy().tobytes())
    return state.hexdigest()


def tuned_backbone(name: str, folder: Path, network: nn.Module) -> dict[str, Tensor]:
    """The backbone of the model in a folder, which must be one for this network.

    That of a packed model is unpacked: the same weights as when the model itself is loaded.
    """
    path = folder / "model.safetensors"
    backbone, expected = stored_backbone(folder), network.state_dict()
    hint = f'Train one with model.backbone = "{name}".'
    if any(key.endswith(CODES) for key in backbone):
        from naic.packing import unpack

        try:
            backbone = unpack(path, backbone, expected)
        except CheckpointError as error:
            raise BackboneError(str(path), f"has no {name} ({error.why})", hint) from error
    if {k: t.shape for k, t in backbone.items()} != {k: t.shape for k, t in expected.items()}:
        raise BackboneError(str(path), f"has no backbone that is {name}", hint)
    return backbone


def stored_backbone(folder: Path) -> dict[str, Tensor]:
    """The tensors of the backbone of the model in a folder as they lie there, packed or not."""
    path = folder / "model.safetensors"
    try:
        found = {current_name(n): tensor for n, tensor in load(path.read_bytes()).items()}
    except (OSError, SafetensorError, KeyError, ValueError, RuntimeError) as error:
        why = f"cannot be read ({error})"
        raise BackboneError(
            str(path), why, "Name the folder of a model that has a backbone."
        ) from error
    return backbone_tensors(found)
