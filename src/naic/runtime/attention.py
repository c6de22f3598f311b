"""Where agents look: the attention of the decoder to the image, read off a pass as it runs.

Nothing is computed in another way for it. While a pass is recorded, hooks keep the queries that
each layer asks the image by, and the keys that it asks; their weights are made of these afterwards.
Passes that are not recorded have no hooks.
"""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from naic.models.decoder import DecoderLayer, Memory
from naic.models.transformer import TransformerCaptioner


class Looks(NamedTuple):
    """Where the agents looked.

    Attributes:
        weights: (N, R) float64, what each of the R regions counted for each agent; a row sums to 1.
        grid: the rows and columns of the regions, which then follow row by row and cover the whole
            image; None: they are no grid.
    """

    weights: npt.NDArray[np.float64]
    grid: tuple[int, int] | None


@dataclass
class Recorded:
    """What was asked of the image in a pass.

    Attributes:
        queries: (B, T, D) of each layer.
        memory: whose keys were asked.
    """

    queries: dict[int, Tensor] = field(default_factory=dict)
    memory: Memory | None = None

    def weights(self) -> Tensor:
        """(L, B, H, T, R) float32, as `attend` weighs the values."""
        assert self.memory is not None
        found = []
        for number, keys in enumerate(self.memory.keys.unbind(0)):  # (B, H, R, d)
            batch, heads, _, size = keys.shape
            query = self.queries[number].view(batch, -1, heads, size).transpose(1, 2)
            scores = query.float() @ keys.float().transpose(-1, -2) / math.sqrt(size)
            if self.memory.mask is not None:
                scores = scores + self.memory.mask.float()
            found.append(scores.softmax(-1))
        return torch.stack(found)

    def looks(self) -> Looks:
        """Of the one image of the pass: the mean over heads and layers."""
        mean = self.weights()[:, 0].double().mean((0, 1))  # (T, R)
        weights = mean / mean.sum(-1, keepdim=True)
        side = math.isqrt(weights.shape[1])
        # Backbones that see a grid see a square one; the six patches of `blobs` are none.
        grid = (side, side) if side * side == weights.shape[1] else None
        return Looks(weights.cpu().numpy(), grid)


@contextmanager
def recording(model: TransformerCaptioner) -> Iterator[Recorded]:
    """Keep what the agents of a parallel captioner ask the image in the passes within."""
    recorded = Recorded()

    def remember(_: nn.Module, given: tuple[Any, ...]) -> None:
        recorded.memory = given[0]

    with ExitStack() as hooks:
        handle = model.decoder.register_forward_pre_hook(remember)
        hooks.callback(handle.remove)
        for number, layer in enumerate(model.decoder.layers):
            assert isinstance(layer, DecoderLayer)

            def keep(_m: nn.Module, _g: object, query: Tensor, number: int = number) -> None:
                recorded.queries[number] = query

            handle = layer.cross.query.register_forward_hook(keep)
            hooks.callback(handle.remove)
        yield recorded
