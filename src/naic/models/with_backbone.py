"""A captioner with eyes: pixels in, words out, and the backbone learns with the rest.

The paper's features come from a network that stays as it is. Ours was trained to name one object in
a picture; trained on with the captions, it learns to see what people speak of.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from naic.backbones.efficientnet import GRID_CHANNELS, VARIANTS, EfficientNetLite
from naic.backbones.patches import CELL, COLOURS, put_together, vary
from naic.backbones.weights import EYES, load_efficientnet
from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.decoder import Memory
from naic.models.transformer import Captioner

PATCH = CELL * CELL * COLOURS  # numbers of a cell in a store of pixels


class SeeingCaptioner(Captioner):
    """A captioner that takes pictures instead of features.

    Attributes:
        eyes: the backbone.
    """

    def __init__(
        self, config: TransformerConfig, features: int, words: int, *, causal: bool
    ) -> None:
        if config.eyes not in VARIANTS:
            why = f"there are no eyes called {config.eyes!r}"
            raise ConfigError("model.eyes", why, f"Known are: {', '.join(VARIANTS)}.")
        if features != PATCH:
            why = f"eyes need the pixels of a picture, and these are features of size {features}"
            hint = "Prepare a store with --backbone pixels, or leave model.eyes empty."
            raise ConfigError("model.eyes", why, hint)
        super().__init__(config, GRID_CHANNELS, words, causal=causal)
        self.eyes = EfficientNetLite(config.eyes, labels=False)
        self.eyes.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def regions(self, features: Tensor) -> int:
        """How many cells these pictures have."""
        if features.dim() == 3:
            return features.shape[1]
        return -(-features.shape[1] // CELL) * -(-features.shape[2] // CELL)

    def encode(self, features: Tensor, mask: Tensor | None = None) -> Memory:
        """What the decoder needs to know of the images.

        Args:
            features: uint8 pixels (B, P, P, 3), or the same in cells (B, R, 3072), as a store has
                them. While training, something else of them is seen each time (`vary`).
            mask: None: a picture has no region that is not there.
        """
        pixels = put_together(features) if features.dim() == 3 else features
        if self.training:
            pixels = vary(pixels)
        grid: Tensor = self.eyes(pixels)  # (B, R, F)
        return super().encode(grid, mask)


def pretrained_eyes(name: str) -> dict[str, Tensor]:
    """The package's weights of these eyes, by their names in a captioner."""
    model, _ = load_efficientnet(name)
    return {
        EYES + key: value
        for key, value in model.state_dict().items()
        if not key.startswith("classifier.")
    }


def without_eyes(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is left for a captioner that takes the features of these eyes."""
    return {name: value for name, value in weights.items() if not name.startswith(EYES)}
