"""Captioners small enough to be checked against a slow and simple way."""

from dataclasses import replace

import torch
from torch import Tensor

from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.eta import EntangledConfig
from naic.models.ort import RelationConfig
from naic.models.transformer import TransformerCaptioner

FEATURES = 5
SIZES = TransformerConfig(
    width=16, heads=2, encoder_layers=2, decoder_layers=2, hidden=24, dropout=0.0, length=6
)
WORD_BY_WORD = {  # those with a Transformer's decoder, and their settings
    "causal": SIZES,
    "eta": EntangledConfig(**(vars(SIZES) | {"attributes": 7, "told": 3})),
    "ort": RelationConfig(**(vars(SIZES) | {"geometry": 16})),
}


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
    return spread(TransformerCaptioner(config, FEATURES, words, causal=causal).to(dtype))


def small_of(name: str, *, seed: int = 0, words: int = 12) -> TransformerCaptioner:
    """A random captioner of `WORD_BY_WORD`, in float64."""
    torch.manual_seed(seed)
    model = CAPTIONERS[name].build(WORD_BY_WORD[name], FEATURES, words).double()
    assert isinstance(model, TransformerCaptioner)
    return spread(model)


def spread(model: TransformerCaptioner) -> TransformerCaptioner:
    """The same, ready to speak, and its scores are spread out, so that words differ."""
    with torch.no_grad():
        for parameter in model.parameters():  # biases and norms too: none may be forgotten
            parameter.add_(0.2 * torch.randn_like(parameter))
        model.decoder.output.weight.mul_(2)
    return model.eval()


def images(
    batch: int, regions: int = 4, seed: int = 1, dtype: torch.dtype = torch.float64
) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, regions, FEATURES, dtype=dtype, generator=generator)
