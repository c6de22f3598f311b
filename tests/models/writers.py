"""Captioners that write word by word, small enough to be checked against a slow and simple way."""

from typing import Any

import torch

from naic.models.captioners import CAPTIONERS
from tests.models.small import FEATURES

SIZES: dict[str, dict[str, Any]] = {
    "nic": {"width": 16},
    "updown": {"width": 16, "embedding": 12, "attention": 8},
}


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
    with torch.no_grad():
        for parameter in model.parameters():  # biases too: none may be forgotten
            parameter.add_(0.4 * torch.randn_like(parameter))
        model.decoder.output.weight.mul_(2)
    return model
