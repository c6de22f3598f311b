"""Vision transformers of a few thousand weights in the place of CLIP and DINOv2."""

import pytest
import torch
from safetensors.torch import save

from naic.backbones import vit_weights
from naic.backbones.vit import VITS, VisionTransformer
from tests.backbones.test_vit import TINY


def use_tiny(patch: pytest.MonkeyPatch) -> None:
    """Tiny networks by the names of the two; no package is looked for."""
    for name, shape in TINY.items():
        patch.setitem(VITS, name, shape)
    patch.setattr(vit_weights, "_converted", lambda name, _: _weights(name))


def _weights(name: str) -> bytes:
    """As they would be in the cache."""
    shape = TINY[name]
    torch.manual_seed(len(name))
    return save(VisionTransformer(shape, tokens=shape.learnt).state_dict())
