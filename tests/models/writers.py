"""Captioners that write word by word, small enough to be checked against a slow and simple way."""

from typing import Any

import torch

from naic.models.captioners import CAPTIONERS
from tests.models.small import FEATURES

TRANSFORMER = {"width": 16, "heads": 2, "encoder_layers": 2, "decoder_layers": 2, "hidden": 24}
SIZES: dict[str, dict[str, Any]] = {
    "nic": {"width": 16},
    "updown": {"width": 16, "embedding": 12, "attention": 8},
    "ort": {**TRANSFORMER, "geometry": 16},
    "eta": {**TRANSFORMER, "attributes": 7, "told": 3},
    "vsua": {
        **{"width": 16, "embedding": 12, "attention": 8},
        **{"content": 7, "relations": 3, "named": 3, "pairs": 4},
    },
    "satic": {**TRANSFORMER, "group": 2},
}
GRIDS = ("ort",)  # an image's regions are those of a whole grid, some of them masked


def writer(
    name: str,
    *,
    seed: int = 0,
    words: int = 12,
    length: int = 6,
    features: int = FEATURES,
    dtype: torch.dtype = torch.float64,
) -> Any:
    """A random captioner without dropout; its scores are spread out, so that words differ."""
    torch.manual_seed(seed)
    spec = CAPTIONERS[name]
    config = spec.config(**SIZES[name], dropout=0.0, length=length)
    model: Any = spec.build(config, features, words).to(dtype).eval()
    noise = 0.2 if "heads" in SIZES[name] else 0.4
    with torch.no_grad():
        for parameter in model.parameters():  # biases too: none may be forgotten
            parameter.add_(noise * torch.randn_like(parameter))
        model.decoder.output.weight.mul_(2)
    return model
