"""The parts that encoder and decoder are made of.

B images, T places in a sequence, D the width, H heads of d = D/H numbers each.
"""

import math
from typing import get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.data.features import BOX_NUMBERS
from naic.errors import ConfigError
from naic.models.config import Boxes

_BOX_TOLD = BOX_NUMBERS + 1  # left, top, right, bottom, and the area


def linear(inputs: int, outputs: int, blocks: int = 1) -> nn.Linear:
    """`blocks` linear layers side by side, so that one multiplication serves them all.

    Each block is drawn by its own size: drawn as one they would start out too small.
    """
    layer = nn.Linear(inputs, outputs * blocks)
    for block in layer.weight.detach().chunk(blocks):
        nn.init.xavier_uniform_(block)
    nn.init.zeros_(layer.bias)
    return layer


def embedding(words: int, width: int) -> nn.Embedding:
    """(words, width) a row for each word, of variance 1/width.

    Drawn evenly, as the linear layers are: on the device "meta", where a folder's shapes are found,
    torch's own normal draw imports an algebra system first, which takes longer than loading.
    """
    table = nn.Embedding(words, width, _weight=torch.empty(words, width))
    largest = math.sqrt(3 / width)
    nn.init.uniform_(table.weight, -largest, largest)
    return table


class WordScores(nn.Linear):
    """The output layer: a score for every word of the vocabulary.

    Under mixed precision it computes in float32: the score of a likely word is about 34, and there
    bfloat16 goes in steps of 0.25 nats.
    """

    ALIGNED = 64  # outputs: rows of such a length are written and read in whole pieces by a GPU

    def __init__(self, width: int, words: int) -> None:
        super().__init__(width, words)
        nn.init.xavier_uniform_(self.weight)
        nn.init.zeros_(self.bias)

    def forward(self, x: Tensor) -> Tensor:
        """(..., D) to (..., V)."""
        if not torch.is_autocast_enabled(x.device.type):
            return self._scores(x)
        with torch.autocast(x.device.type, enabled=False):
            return self._scores(x.to(self.weight.dtype))

    def _scores(self, x: Tensor) -> Tensor:
        """On a GPU with some more outputs, which are left out again: odd numbers are slow."""
        spare = -self.out_features % self.ALIGNED
        if not x.is_cuda or not spare:
            return super().forward(x)
        weight, bias = F.pad(self.weight, (0, 0, 0, spare)), F.pad(self.bias, (0, spare))
        return F.linear(x, weight, bias)[..., : self.out_features]


def sinusoids(length: int, width: int) -> Tensor:
    """(length, width) the position codes of the Transformer: sines and cosines in turns."""
    if torch.get_default_device().type == "meta":
        # A folder's shapes are wanted, no numbers. To compute there, if only in name, torch imports
        # an algebra system first, which takes longer than all the rest of loading a model.
        return torch.empty(length, width)
    places = torch.arange(length, dtype=torch.float64)[:, None]
    rates = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(1e4) / width))
    angles = places * rates
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(1).float()


def mean_region(features: Tensor, mask: Tensor | None, weight: Tensor) -> Tensor:
    """(B, F) the mean of an image's real regions, in the precision of a weight.

    It is summed in float32 at least: features are float16, and there are many of them.

    Args:
        features: (B, R, F), any kind of float.
        mask: (B, R), True for a real region; None when all are.
        weight: of the layer that the mean is for.
    """
    kind = torch.promote_types(weight.dtype, torch.float32)
    if mask is None:
        return features.mean(1, dtype=kind).to(weight.dtype)
    real = features.masked_fill(~mask[..., None], 0.0).sum(1, dtype=kind)
    return (real / mask.sum(1, keepdim=True)).to(weight.dtype)


def grid_side(regions: int, where: str, hint: str) -> int:
    """Cells on each side of a square grid; refuses, as `where`, regions that are none."""
    side = math.isqrt(regions)
    if side * side != regions:
        raise ConfigError(where, f"{regions} regions are no square grid", hint)
    return side


def grid_codes(regions: int, width: int, device: torch.device) -> Tensor:
    """(regions, width) the row and the column of each region of a square grid, as sinusoids.

    Computed where it is needed: a table brought from the host could not be part of a CUDA graph.
    """
    side = grid_side(regions, "model.grid", "Set it to false for these features.")
    half = width // 2
    places = torch.arange(side, device=device)[:, None]
    # Waves from 6 cells to some 25 sides long: those of the words' codes, made for sentences of
    # thousands, would hardly differ from one cell to the next.
    longest = 4 * side
    angles = places * torch.exp(
        torch.arange(0, half, 2, device=device) * (-math.log(longest) / half)
    )
    codes = torch.cat((angles.sin(), angles.cos()), -1)  # (side, half)
    rows = codes[:, None].expand(side, side, half)
    columns = codes[None].expand(side, side, half)
    return torch.cat((rows, columns), -1).reshape(regions, width)


class GridCodes(nn.Module):
    """Tells each region of a square grid its row and its column."""

    def forward(self, x: Tensor) -> Tensor:
        """(R, D) to be added to regions x (B, R, D)."""
        return grid_codes(x.shape[1], x.shape[2], x.device).to(x.dtype)


def additive(allowed: Tensor, dtype: torch.dtype) -> Tensor:
    """The mask as what is added to attention scores: 0 where allowed, -inf elsewhere.

    Attention takes a boolean mask too, but would turn it into this one again in every layer.
    """
    zeros = torch.zeros(allowed.shape, dtype=dtype, device=allowed.device)
    return zeros.masked_fill_(~allowed, -math.inf)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    dropout: float,
    *,
    causal: bool = False,
) -> Tensor:
    """(B, T, D) what queries (B, H, T, d) see in keys and values (B, H, S, d), heads merged."""
    seen = F.scaled_dot_product_attention(
        query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal
    )
    return seen.transpose(1, 2).flatten(2)


class SelfAttention(nn.Module):
    """Places of one sequence look at each other."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = linear(width, width, blocks=3)
        self.out = linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None, *, causal: bool = False) -> Tensor:
        """(B, T, D) to (B, T, D).

        Args:
            x: the places.
            mask: additive, or None for none at all.
            causal: no place sees those after it.
        """
        found: Tensor = self.out(self.look(self.qkv(x), mask, causal=causal))
        return found

    def look(self, qkv: Tensor, mask: Tensor | None, *, causal: bool) -> Tensor:
        """What the places see in each other, (B, T, D), by queries, keys and values (B, T, 3D)."""
        batch, places, width = qkv.shape
        parts = qkv.view(batch, places, 3, self.heads, width // (3 * self.heads))
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, T, d) each
        rate = self.dropout if self.training else 0.0
        return attend(query, key, value, mask, rate, causal=causal)

    def step(self, x: Tensor, past: Tensor, position: Tensor, visible: Tensor) -> Tensor:
        """One more word of each of W sentences an image, (B, W, D), after those in `past`."""
        found: Tensor = self.out(self.look_back(self.qkv(x), past, position, visible))
        return found

    def look_back(self, qkv: Tensor, past: Tensor, position: Tensor, visible: Tensor) -> Tensor:
        """What one word of each sentence sees of those before it, (B, W, D).

        `past` (B, N, W, 2, H, d) holds the keys and values said so far; those of this word are
        written into it at `position`. All N*W slots of an image are looked at in each step, so
        that its shapes never change; `visible` (B, 1, W, N*W) lets through the sentence's own.
        """
        batch, beams, width = qkv.shape
        parts = qkv.view(batch, beams, 3, self.heads, width // (3 * self.heads))
        past.index_copy_(1, position.view(1), parts[:, None, :, 1:])
        key, value = past.flatten(1, 2).permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, N*W, d)
        query = parts[:, :, 0].transpose(1, 2)  # (B, H, W, d)
        rate = self.dropout if self.training else 0.0
        return attend(query, key, value, visible, rate)


class CrossAttention(nn.Module):
    """Words look at the image, whose keys and values are given: they were computed once."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = linear(width, width)
        self.out = linear(width, width)

    def forward(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D) to (B, T, D).

        T runs over the words of all captions of an image. Captions do not see each other here, so
        they can share one long sequence, and the image's keys and values (B, H, R, d) need not be
        repeated for each of them.
        """
        found: Tensor = self.out(self.look(self.query(x), keys, values, mask))
        return found

    def look(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """What the words see in the image, (B, T, D), by their queries (B, T, D)."""
        batch, places, width = query.shape
        query = query.view(batch, places, self.heads, width // self.heads).transpose(1, 2)
        rate = self.dropout if self.training else 0.0
        return attend(query, keys, values, mask, rate)


class FeedForward(nn.Sequential):
    """Each place by itself: out to the hidden width and back, (B, T, D) to (B, T, D)."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__(
            linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), linear(hidden, width)
        )


def own_size(features: int, boxes: Boxes) -> int:
    """F without the numbers of the boxes."""
    if boxes not in get_args(Boxes):
        raise ConfigError("model.boxes", f"there is no {boxes!r}", 'Try "coded" or "apart".')
    if boxes and features <= BOX_NUMBERS:
        why = f"features of size {features} cannot end in a box"
        raise ConfigError("model.boxes", why, "Leave it out.")
    return features - BOX_NUMBERS if boxes else features


def take_apart(features: Tensor) -> tuple[Tensor, Tensor]:
    """Features (B, R, F) and boxes (B, R, 4) of both (B, R, F + 4)."""
    return features[..., :-BOX_NUMBERS], features[..., -BOX_NUMBERS:]


class BoxCodes(nn.Module):
    """Tells each region of a detector its corners and its area, by numbers that are learnt.

    Boxes travel as the last four numbers of a region's features, so that whatever passes features
    on (stores, batches, graphs) need not know of them: docs/decisions/060-regions.md.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.project = linear(_BOX_TOLD, width)

    def forward(self, boxes: Tensor) -> Tensor:
        """(B, R, D) to be added to the regions, of their boxes (B, R, 4)."""
        sides = boxes[..., 2:] - boxes[..., :2]  # (B, R, 2)
        told = torch.cat((boxes, sides.prod(-1, keepdim=True)), -1)
        if not torch.is_autocast_enabled(boxes.device.type):
            told = told.to(self.project.weight.dtype)
        found: Tensor = self.project(told)
        return found
