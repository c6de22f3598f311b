"""ORT, the Object Relation Transformer of Herdade et al. (NeurIPS 2019), as a captioner here.

A Transformer that writes word by word, whose regions see in the encoder where the others are from
their own place. Between regions m and n with boxes (x, y, w, h) there are four numbers (eq. 5):

    λ(m, n) = (log |x_m - x_n| / w_m, log |y_m - y_n| / h_m, log w_n / w_m, log h_n / h_m)

Each head weighs what m sees in n by ω_G = ReLU(Emb(λ) W_G) beside the exponential of its scaled
scores ω_A (eq. 6 and 7): ω = ω_G exp(ω_A), normalised over n. That is the softmax of ω_A + log ω_G,
so attention stays as it is and gets one more term to add. Decoder, search and sampling are those of
the causal captioner.

What differs from the paper: where features come with no boxes of a detector, these are the cells
of a square grid; layers are normalised before attention instead of after it; see
docs/decisions/046-ort.md and 060-regions.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from naic.errors import ConfigError
from naic.models.config import MOST, TransformerConfig
from naic.models.layers import grid_side, linear
from naic.models.transformer import CAUSAL, Encoder, TransformerCaptioner

NEAREST = 1e-3  # in widths of the box: where two centres are level the logarithm has no value
THINNEST = 1e-3  # of the image: no box is less wide or high, not even one that only fills up
LEAST = 1e-6  # of ω_G, for the same reason
SCALE, LONGEST = 100.0, 1000.0  # of λ before its waves, and of these, as in relation networks


@dataclass(frozen=True)
class RelationConfig(TransformerConfig):
    """A Transformer's, and of its relations.

    Attributes:
        geometry: Numbers that tell where a region is from another: waves of four logarithms.
    """

    geometry: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 8 <= self.geometry <= MOST or self.geometry % 8:
            why = f"{self.geometry} is no multiple of 8 up to {MOST}"
            hint = "Give 64: a sine and a cosine of each of the four logarithms, some times over."
            raise ConfigError("model.geometry", why, hint)
        if self.seen < 1:
            why = "regions are related to each other as cells of a whole grid"
            raise ConfigError("model.seen", f"{self.seen} cannot be: {why}", "Leave it out.")


def grid_boxes(regions: int, device: torch.device) -> Tensor:
    """(R, 4) centre, width and height of each cell of a square grid, in cells, in reading order."""
    hint = "Use the captioner causal for these features, or prepare them with boxes."
    side = grid_side(regions, "captioner", hint)
    places = torch.arange(regions, device=device)
    centres = torch.stack((places % side, places // side), -1) + 0.5
    return torch.cat((centres, torch.ones_like(centres)), -1)


def centred(boxes: Tensor) -> Tensor:
    """(..., 4) centre, width and height of boxes by their corners, in float32."""
    first, last = boxes.float().chunk(2, -1)  # (..., 2) each
    return torch.cat(((first + last) / 2, (last - first).clamp(min=THINNEST)), -1)


def relations(boxes: Tensor) -> Tensor:
    """(..., R, R, 4) λ of each box (..., R, 4) and each other one, eq. 5."""
    centres, sizes = boxes[..., :2], boxes[..., 2:]  # (..., R, 2) each
    own = sizes[..., :, None, :]
    away = (centres[..., :, None, :] - centres[..., None, :, :]).abs() / own
    return torch.cat((away.clamp(min=NEAREST), sizes[..., None, :, :] / own), -1).log()


def waves(numbers: Tensor, width: int) -> Tensor:
    """(..., width) sines and cosines of (..., 4) numbers, `width` / 8 of each."""
    rates = torch.arange(width // 8, device=numbers.device) * (-math.log(LONGEST) / (width // 8))
    angles = SCALE * numbers[..., None] * rates.exp()  # (..., 4, width / 8)
    return torch.cat((angles.sin(), angles.cos()), -1).flatten(-2)


class RelationEncoder(Encoder):
    """The encoder of the causal captioner, whose regions know where the others are."""

    def __init__(self, config: TransformerConfig, features: int) -> None:
        super().__init__(config, features)
        assert isinstance(config, RelationConfig)
        self.heads, self.geometry = config.heads, config.geometry
        # W_G of all heads of all layers: one multiplication serves them all
        self.weigh = linear(self.geometry, 1, blocks=config.encoder_layers * config.heads)

    def added(
        self, x: Tensor, blocked: Tensor | None, boxes: Tensor | None
    ) -> Sequence[Tensor | None]:
        """The logarithms of ω_G of each layer, (B, H, R, R); (1, H, R, R) of the same grid."""
        placed = grid_boxes(x.shape[1], x.device)[None] if boxes is None else centred(boxes)
        told = waves(relations(placed), self.geometry)  # (B, R, R, G)
        if not torch.is_autocast_enabled(x.device.type):
            told = told.to(x.dtype)
        found: Tensor = self.weigh(told)
        logs = found.float().clamp(min=LEAST).log().to(found.dtype)  # ReLU, and then the logarithm
        images, regions = told.shape[:2]
        parts = logs.permute(3, 0, 1, 2).reshape(-1, self.heads, images, regions, regions)
        layers = parts.transpose(1, 2).unbind(0)
        return [layer if blocked is None else layer + blocked for layer in layers]


ORT = replace(
    CAUSAL,
    config=RelationConfig,
    build=partial(TransformerCaptioner, causal=True, encoder=RelationEncoder),
)
