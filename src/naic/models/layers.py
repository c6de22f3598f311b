"""The parts that encoder and decoder are made of.

B images, T places in a sequence, D the width, H heads of d = D/H numbers each.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.errors import ConfigError


def linear(inputs: int, outputs: int, blocks: int = 1) -> nn.Linear:
    """`blocks` linear layers side by side, so that one multiplication serves them all.

    Each block is drawn by its own size: drawn as one they would start out too small.
    """
    layer = nn.Linear(inputs, outputs * blocks)
    for block in layer.weight.detach().chunk(blocks):
        nn.init.xavier_uniform_(block)
    nn.init.zeros_(layer.bias)
    return layer


HALF = (torch.float16, torch.bfloat16)
FEW = 64  # places: with more of them the libraries' own kernels are as fast
_FEWER: ContextVar[bool] = ContextVar("fewer_kernels", default=False)
ALIGNED = 64  # outputs: rows of such a length are written and read in whole pieces by a GPU


def aligned_linear(x: Tensor, layer: nn.Linear, words: int) -> Tensor:
    """The first `words` outputs of `layer(x)`, with rows that a GPU can handle in whole pieces.

    A vocabulary has an odd number of words; products with rows of such a length take slow paths
    in half precision, so they get some more outputs, which are left out again. The layer of a
    settled model has them already (`aligned`).
    """
    if not x.is_cuda or layer.out_features % ALIGNED == 0:
        found: Tensor = layer(x)
        return found if layer.out_features == words else found[..., :words]
    spare = -layer.out_features % ALIGNED
    weight = F.pad(layer.weight, (0, 0, 0, spare))
    bias = F.pad(layer.bias, (0, spare))
    return F.linear(x, weight, bias)[..., :words]


def aligned(layer: nn.Linear) -> nn.Linear:
    """The layer with as many outputs more, of no weight, as `aligned_linear` would give it."""
    spare = -layer.out_features % ALIGNED
    if not layer.weight.is_cuda or not spare:
        return layer
    with torch.device("meta"):
        longer = nn.Linear(layer.in_features, layer.out_features + spare)
    weights = {
        "weight": F.pad(layer.weight.detach(), (0, 0, 0, spare)),
        "bias": F.pad(layer.bias.detach(), (0, spare)),
    }
    longer.load_state_dict(weights, assign=True)
    return longer.eval()


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


def grid_codes(regions: int, width: int, device: torch.device) -> Tensor:
    """(regions, width) the row and the column of each region of a square grid, as sinusoids.

    Computed where it is needed: a table brought from the host could not be part of a CUDA graph.
    """
    side = math.isqrt(regions)
    if side * side != regions:
        why = f"{regions} regions are no square grid"
        raise ConfigError("model.grid", why, "Set it to false for these features.")
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


def project(x: Tensor, norm: nn.LayerNorm, layer: nn.Linear, *, relu: bool = False) -> Tensor:
    """What `layer` makes of norm(x), and ReLU of that if it is asked for.

    On a GPU, for use and not for training, in one kernel where there are few places.
    """
    if by_hand(x):
        if in_one_kernel(x, layer, norm):
            from naic.models.fused import linear as fused

            return fused(x, layer, norm, relu=relu)
        if relu:  # which a product can end in at no cost
            flat = norm(x).flatten(0, -2)
            ended = torch._addmm_activation(layer.bias, flat, layer.weight.t())
            return ended.view(*x.shape[:-1], -1)
    found: Tensor = layer(norm(x))
    return found.relu() if relu else found


def add(residual: Tensor, x: Tensor, layer: nn.Linear, dropout: nn.Dropout) -> Tensor:
    """The sum of `residual` and dropout(layer(x)), likewise."""
    if by_hand(x) and not dropout.training and in_one_kernel(x, layer, None):
        from naic.models.fused import linear as fused

        return fused(x, layer, None, residual)
    found: Tensor = residual + dropout(layer(x))
    return found


def by_hand(x: Tensor) -> bool:
    """Whether what a compiler would do is done by hand: for use, on a GPU, in half precision."""
    if not x.is_cuda or x.dtype not in HALF or torch.is_grad_enabled():
        return False
    return not torch.compiler.is_compiling() and not torch.is_autocast_enabled(x.device.type)


@contextmanager
def fewer_kernels() -> Iterator[None]:
    """While a graph is recorded: kernels of our own are used where places are few.

    Elsewhere they are not: to start one of them takes Python longer than several of torch's.
    """
    token = _FEWER.set(True)
    try:
        yield
    finally:
        _FEWER.reset(token)


def in_one_kernel(x: Tensor, layer: nn.Linear, norm: nn.LayerNorm | None) -> bool:
    """Whether there are so few places that starting a kernel takes longer than running it."""
    if not _FEWER.get() or x.numel() > FEW * x.shape[-1]:
        return False
    try:
        from naic.models.fused import fits, works
    except ImportError:  # no Triton
        return False
    return fits(layer, norm) and works(x.device, x.dtype)


class SelfAttention(nn.Module):
    """Places of one sequence look at each other."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.qkv = linear(width, width, blocks=3)
        self.out = linear(width, width)

    def forward(
        self,
        x: Tensor,
        norm: nn.LayerNorm,
        dropout: nn.Dropout,
        mask: Tensor | None = None,
        *,
        causal: bool = False,
    ) -> Tensor:
        """(B, T, D) to (B, T, D), the sum with what was there.

        Args:
            x: what is there.
            norm: through which it is looked at.
            dropout: of what is added.
            mask: additive, or None for none at all.
            causal: no place sees those after it.
        """
        batch, places, width = x.shape
        qkv = project(x, norm, self.qkv)
        parts = qkv.view(batch, places, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, T, d) each
        rate = self.dropout if self.training else 0.0
        seen = attend(query, key, value, mask, rate, causal=causal)
        return add(x, seen, self.out, dropout)

    def step(
        self,
        x: Tensor,
        norm: nn.LayerNorm,
        dropout: nn.Dropout,
        past: Tensor,
        position: Tensor,
        visible: Tensor,
    ) -> Tensor:
        """One more word of each of W sentences an image, (B, W, D), after those in `past`.

        `past` (B, N, W, 2, H, d) holds the keys and values said so far; those of this word are
        written into it at `position`. All N*W slots of an image are looked at in each step, so
        that its shapes never change; `visible` (B, 1, W, N*W) lets through the sentence's own.
        """
        batch, beams, width = x.shape
        qkv = project(x, norm, self.qkv)
        parts = qkv.view(batch, beams, 3, self.heads, width // self.heads)
        past.index_copy_(1, position.view(1), parts[:, None, :, 1:])
        key, value = past.flatten(1, 2).permute(2, 0, 3, 1, 4).unbind(0)  # (B, H, N*W, d)
        query = parts[:, :, 0].transpose(1, 2)  # (B, H, W, d)
        rate = self.dropout if self.training else 0.0
        return add(x, attend(query, key, value, visible, rate), self.out, dropout)


class CrossAttention(nn.Module):
    """Words look at the image, whose keys and values are given: they were computed once."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.query = linear(width, width)
        self.out = linear(width, width)

    def forward(
        self,
        x: Tensor,
        norm: nn.LayerNorm,
        dropout: nn.Dropout,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
    ) -> Tensor:
        """(B, T, D) to (B, T, D), the sum with what was there.

        T runs over the words of all captions of an image. Captions do not see each other here, so
        they can share one long sequence, and the image's keys and values (B, H, R, d) need not be
        repeated for each of them.
        """
        batch, places, width = x.shape
        query = project(x, norm, self.query)
        query = query.view(batch, places, self.heads, width // self.heads).transpose(1, 2)
        rate = self.dropout if self.training else 0.0
        return add(x, attend(query, keys, values, mask, rate), self.out, dropout)


class FeedForward(nn.Sequential):
    """Each place by itself: out to the hidden width and back."""

    def __init__(self, width: int, hidden: int, dropout: float) -> None:
        super().__init__(
            linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), linear(hidden, width)
        )

    def forward(  # type: ignore[override]
        self, x: Tensor, norm: nn.LayerNorm, dropout: nn.Dropout
    ) -> Tensor:
        """(B, T, D) to (B, T, D), the sum with what was there."""
        first, _, drop, last = self
        assert isinstance(first, nn.Linear)
        assert isinstance(last, nn.Linear)
        hidden = drop(project(x, norm, first, relu=True))
        return add(x, hidden, last, dropout)
