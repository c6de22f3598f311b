"""Vision transformers made ready for inference: the same values, in fewer and cheaper steps.

Three things, all of them exact but for rounding. Bringing pixels to -1..1 is folded into the
weights of the first layer, which becomes a plain matrix product; CLIP's x·sigmoid(1.702·x) becomes
SiLU, one step in place of three, as 1.702 goes into the matrices around it; and while a CUDA graph
is recorded, networks that are joined run side by side on two streams: with one image, neither of
them fills a GPU.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.backbones.vit import MIDDLE, QUICK, Joined, VisionTransformer, VitBlock

_SIDE: ContextVar[torch.cuda.Stream | None] = ContextVar("side", default=None)


@contextmanager
def side_by_side(stream: torch.cuda.Stream) -> Iterator[None]:
    """While a graph is recorded, and in the passes before it: a second stream for joined networks.

    Elsewhere they run one after the other: another thread could be given the memory of a stream
    that it shares, before it is free on the other one.
    """
    token = _SIDE.set(stream)
    try:
        yield
    finally:
        _SIDE.reset(token)


@torch.no_grad()
def fold_vits(module: nn.Module) -> None:
    """Put what runs faster in the place of all vision transformers inside a module.

    It works in place: the module has other parts afterwards. The parts that were there, and their
    weights, are not changed.

    Best before it is brought to half precision: the weights are then rounded once. A second time
    changes nothing.
    """
    for name, child in module.named_children():
        fold_vits(child)
        if type(child) is VisionTransformer:
            setattr(module, name, FoldedTransformer(child))
        elif type(child) is VitBlock and child.quick:
            setattr(module, name, SiluBlock(child))
        elif type(child) is Joined:
            setattr(module, name, ForkedJoined(child))


class FoldedTransformer(VisionTransformer):
    """`VisionTransformer` that takes pixels as they are, and cuts them into rows of a matrix."""

    def __init__(self, network: VisionTransformer) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(network.__dict__)
        self._parameters, self._modules = dict(network._parameters), dict(network._modules)
        self._buffers = dict(network._buffers)
        kernel = network.patch.weight  # (D, 3, p, p)
        self.cell = kernel.shape[2]
        rows = kernel.permute(0, 2, 3, 1).flatten(1) / MIDDLE  # (D, p·p·3)
        shift = cast(Tensor, network.patch.bias) - kernel.sum((1, 2, 3))  # (D,)
        patch = nn.Linear(rows.shape[1], rows.shape[0], bias=False, device="meta")
        patch.weight = _constant(rows)
        self._modules["patch"] = patch
        self.positions = _constant(network.positions + shift)  # (T², D)

    def embed(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3), 0 to 255 -> (B, T², D), each patch and where it is."""
        images, kind = pixels, self.positions.dtype
        if images.shape[1:3] != (self.side, self.side):
            small = self.resized(images.permute(0, 3, 1, 2).to(kind))  # (B, 3, S, S)
            images = small.permute(0, 2, 3, 1)
        count, tokens = images.shape[0], self.tokens
        cells = images.reshape(count, tokens, self.cell, tokens, self.cell, 3)
        cells = cells.permute(0, 1, 3, 2, 4, 5)  # (B, T, T, p, p, 3)
        rows = cells.to(kind).reshape(count, tokens * tokens, -1)  # (B, T², p·p·3)
        return cast(Tensor, self.patch(rows)) + self.positions


class SiluBlock(VitBlock):
    """`VitBlock` whose activation is one step: x·sigmoid(a·x) is SiLU(a·x) / a."""

    def __init__(self, block: VitBlock) -> None:
        nn.Module.__init__(self)
        self.__dict__.update(block.__dict__)
        self._modules = dict(block._modules)
        self.rise = _scaled(block.rise, QUICK, QUICK)
        self.fall = _scaled(block.fall, 1 / QUICK, 1.0)

    def activate(self, x: Tensor) -> Tensor:
        """(B, T, 4D) -> (B, T, 4D)."""
        return F.silu(x)


class ForkedJoined(Joined):
    """`Joined`, two streams wide while a graph is recorded."""

    def __init__(self, joined: Joined) -> None:
        nn.Module.__init__(self)
        self.networks = joined.networks

    def forward(self, pixels: Tensor) -> Tensor:
        """(B, H, W, 3), 0 to 255 -> (B, R, D + D' + ...)."""
        if torch.compiler.is_compiling() or not pixels.is_cuda:
            return super().forward(pixels)
        side = _SIDE.get()
        if side is None:
            return super().forward(pixels)
        here = torch.cuda.current_stream()
        first, *others = self.networks
        side.wait_stream(here)
        with torch.cuda.stream(side):
            rest = [network(pixels) for network in others]
        seen = first(pixels)
        # What the side stream made is read here after it, and what was given to it is kept until
        # then; the next pass begins with a wait for this one: no memory is used twice at once.
        here.wait_stream(side)
        return torch.cat([seen, *rest], dim=2)


def _constant(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach().contiguous(), requires_grad=False)


def _scaled(layer: nn.Linear, weight: float, bias: float) -> nn.Linear:
    """A layer with its weights and its bias multiplied; the one given stays as it is."""
    made = nn.Linear(layer.in_features, layer.out_features, device="meta")
    made.weight, made.bias = _constant(layer.weight * weight), _constant(layer.bias * bias)
    return made.train(layer.training)
