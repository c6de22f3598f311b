"""Captioners small enough to be checked against a slow and simple way."""

from dataclasses import replace

import torch
from torch import Tensor

from naic.models.config import TransformerConfig
from naic.models.transformer import TransformerCaptioner

FEATURES = 5
SIZES = TransformerConfig(
    width=16, heads=2, encoder_layers=2, decoder_layers=2, hidden=24, dropout=0.0, length=6
)


def small(
    *,
    causal: bool,
    seed: int = 0,
    words: int = 12,
    length: int = 6,
    dtype: torch.dtype = torch.float64,
) -> TransformerCaptioner:
    """A random captioner of the paper's kind."""
    torch.manual_seed(seed)
    config = replace(SIZES, length=length)
    model = TransformerCaptioner(config, FEATURES, words, causal=causal).to(dtype)
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms too: none may be forgotten
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.decoder.output.weight.mul_(2)  # scores are spread out, so that words differ
    return model.eval()


def images(
    batch: int, regions: int = 4, seed: int = 1, dtype: torch.dtype = torch.float64
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, regions, FEATURES, dtype=dtype, generator=generator)
