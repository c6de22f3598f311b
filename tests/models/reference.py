"""The captioner once more, as the formulas have it: one image, one head, one word at a time."""

import math

import torch
from torch import Tensor

from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import BOS

Weights = dict[str, Tensor]


def reference(model: TransformerCaptioner, features: Tensor, words: list[int] | None) -> Tensor:
    """(N, V) logits for one image (R, F); `words` are None for a parallel captioner."""
    w, config = model.state_dict(), model.config
    x = norm(apply(features, w, "encoder.project").clamp(min=0), w, "encoder.project_norm")
    for number in range(config.encoder_layers):
        name = f"encoder.layers.{number}"
        x = x + self_attention(norm(x, w, f"{name}.attention_norm"), w, name, config.heads, False)
        x = x + feed_forward(norm(x, w, f"{name}.feed_forward_norm"), w, name)
    encoded = norm(x, w, "encoder.norm")

    y = torch.stack([position(place, config.width) for place in range(config.length)])
    if words is not None:
        heard = [BOS, *words[:-1]]
        y = y + w["decoder.embedding.weight"][heard] * math.sqrt(config.width)
    remembered = apply(encoded, w, "decoder.remember_all").chunk(2 * config.decoder_layers, -1)
    for number in range(config.decoder_layers):
        name = f"decoder.layers.{number}"
        inner = norm(y, w, f"{name}.attention_norm")
        y = y + self_attention(inner, w, name, config.heads, words is not None)
        query = apply(norm(y, w, f"{name}.cross_norm"), w, f"{name}.cross.query")
        key, value = remembered[number], remembered[config.decoder_layers + number]
        y = y + apply(attend(query, key, value, config.heads, False), w, f"{name}.cross.out")
        y = y + feed_forward(norm(y, w, f"{name}.feed_forward_norm"), w, name)
    return apply(norm(y, w, "decoder.norm"), w, "decoder.output")


def apply(x: Tensor, w: Weights, name: str) -> Tensor:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def norm(x: Tensor, w: Weights, name: str) -> Tensor:
    centred = x - x.mean(-1, keepdim=True)
    spread = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
    return centred / spread * w[f"{name}.weight"] + w[f"{name}.bias"]


def feed_forward(x: Tensor, w: Weights, name: str) -> Tensor:
    hidden = apply(x, w, f"{name}.feed_forward.0").clamp(min=0)
    return apply(hidden, w, f"{name}.feed_forward.3")


def self_attention(x: Tensor, w: Weights, name: str, heads: int, causal: bool) -> Tensor:
    query, key, value = apply(x, w, f"{name}.attention.qkv").chunk(3, dim=-1)
    return apply(attend(query, key, value, heads, causal), w, f"{name}.attention.out")


def attend(query: Tensor, key: Tensor, value: Tensor, heads: int, causal: bool) -> Tensor:
    seen = []
    for q, k, v in zip(*(x.chunk(heads, dim=-1) for x in (query, key, value)), strict=True):
        rows = []
        for place in range(len(q)):
            upto = place + 1 if causal else len(k)
            weights = torch.exp(k[:upto] @ q[place] / math.sqrt(q.shape[-1]))
            rows.append((weights / weights.sum()) @ v[:upto])
        seen.append(torch.stack(rows))
    return torch.cat(seen, dim=-1)


def position(place: int, width: int) -> Tensor:
    angles = [place / 10000 ** (2 * (i // 2) / width) for i in range(width)]
    codes = [math.cos(a) if i % 2 else math.sin(a) for i, a in enumerate(angles)]
    return torch.tensor(codes, dtype=torch.float32).double()
