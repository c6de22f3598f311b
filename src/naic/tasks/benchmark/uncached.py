"""Writing word by word without a cache: for each word, all words before it are read again.

Nobody should caption so. Older captioning code does, and published speed-ups were measured against
it; the benchmark shows how much of such a figure is the missing cache.
"""

import math

import torch
from torch import Tensor

from naic.decode.policy import log_policy
from naic.models.decoder import DecoderLayer, Memory
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import BOS


@torch.no_grad()
def search_again(model: TransformerCaptioner, memory: Memory, width: int) -> tuple[Tensor, Tensor]:
    """The likeliest sentence (B, N) that a beam of `width` finds, and its score (B,).

    For a model that never says the period: no sentence ends before the last place, so that the
    time does not depend on what is said. The image is encoded once, as with a cache.
    """
    batch, device = memory.batch, memory.device
    heard = torch.full((batch, width, 1), BOS, device=device)
    # All beams start out alike, so only the first one counts.
    scores = torch.zeros((batch, width), device=device)
    scores[:, 1:] = -math.inf
    for _ in range(model.length):
        log_probs = log_policy(_after(model, memory, heard))
        scores, best = (scores[..., None] + log_probs).flatten(1).topk(width)
        parents, word = best // model.words, best % model.words
        heard = heard.gather(1, parents[..., None].expand_as(heard))
        heard = torch.cat((heard, word[..., None]), -1)
    return heard[:, 0, 1:], scores[:, 0]


def _after(model: TransformerCaptioner, memory: Memory, heard: Tensor) -> Tensor:
    """(B, W, V) logits of the word that follows `heard` (B, W, T), BOS and the words so far."""
    decoder = model.decoder
    embedded: Tensor = decoder.embedding(heard)
    x = embedded * math.sqrt(model.config.width) + decoder.positions[: heard.shape[-1]]
    for number, layer in enumerate(decoder.layers):
        assert isinstance(layer, DecoderLayer)
        x = layer(x, memory.keys[number], memory.values[number], memory.mask, causal=True)
    scores: Tensor = decoder.output(decoder.norm(x[:, :, -1]))
    return scores
