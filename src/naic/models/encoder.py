"""The encoder: regions of an image look at each other."""

import torch
from torch import Tensor, nn

from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.layers import FeedForward, GridCodes, SelfAttention, additive, linear


class EncoderLayer(nn.Module):
    """Self-attention and feed-forward, each on normalised input and added to what was there."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.width, config.heads, config.dropout)
        self.attention_norm = nn.LayerNorm(config.width)
        self.feed_forward = FeedForward(config.width, config.hidden, config.dropout)
        self.feed_forward_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """(B, R, D) to (B, R, D)."""
        x = x + self.dropout(self.attention(self.attention_norm(x), mask))
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x


def some_regions(x: Tensor, share: float) -> Tensor:
    """(B, R, D) to (B, S, D): S of each image's regions by chance, and in an order of chance.

    They are left out rather than masked: the step gets faster instead of slower.
    """
    count = max(1, round(share * x.shape[1]))
    chosen = torch.rand(x.shape[:2], device=x.device).topk(count, dim=1).indices  # (B, S)
    return x.gather(1, chosen[..., None].expand(-1, -1, x.shape[2]))


class Encoder(nn.Module):
    """Features of any width in, the model's own view of each region out.

    Regions get no positions unless the config says that they are a grid: those of a detector have
    no order.
    """

    def __init__(self, config: TransformerConfig, features: int) -> None:
        super().__init__()
        self.codes: nn.Module | None = GridCodes() if config.grid else None
        self.seen = config.seen
        self.project = linear(features, config.width)
        self.project_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, features: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(B, R, F) to (B, R, D), and the mask (B, R) as attention takes it, (B, 1, 1, R)."""
        if not torch.is_autocast_enabled(features.device.type):  # autocast chooses by itself
            features = features.to(self.project.weight.dtype)
        projected: Tensor = self.project(features)
        blocked = None
        if mask is not None:
            blocked = additive(mask[:, None, None, :], projected.dtype)
        x: Tensor = self.project_norm(self.dropout(projected.relu()))
        if self.codes is not None:
            x = x + self.codes(x)
        if self.training and self.seen < 1:
            if mask is not None:
                why = "its images have different numbers of regions"
                raise ConfigError("model.seen", f"{self.seen} cannot be: {why}", "Leave it out.")
            x = some_regions(x, self.seen)
        for layer in self.layers:
            x = layer(x, blocked)
        x = self.norm(x)
        return x, blocked
