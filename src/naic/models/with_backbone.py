"""A captioner with a backbone: pixels in, words out, and the backbone learns with the rest.

The paper's features come from a network that stays as it is. Ours was trained to name one object in
an image; trained on with the captions, it learns to see what people speak of.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from naic.backbones.efficientnet import GRID_CHANNELS, VARIANTS, EfficientNetLite
from naic.backbones.patches import CELL, COLOURS, put_together, vary
from naic.backbones.weights import PREFIX, load_efficientnet
from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.decoder import Memory
from naic.models.transformer import Captioner

PATCH = CELL * CELL * COLOURS  # numbers of a cell in a store of pixels


class SeeingCaptioner(Captioner):
    """A captioner that takes images instead of features.

    Attributes:
        backbone: the backbone.
    """

    def __init__(
        self, config: TransformerConfig, features: int, words: int, *, causal: bool
    ) -> None:
        if config.backbone not in VARIANTS:
            why = f"there is no backbone called {config.backbone!r}"
            raise ConfigError("model.backbone", why, f"Known are: {', '.join(VARIANTS)}.")
        if features != PATCH:
            why = f"a backbone needs pixels, and these are features of size {features}"
            hint = "Prepare a store with --backbone pixels, or leave model.backbone empty."
            raise ConfigError("model.backbone", why, hint)
        super().__init__(config, GRID_CHANNELS, words, causal=causal)
        self.backbone = EfficientNetLite(config.backbone, labels=False)
        self.backbone.to(memory_format=torch.channels_last)  # type: ignore[call-overload]

    def regions(self, features: Tensor) -> int:
        """How many cells these images have."""
        if features.dim() == 3:
            return features.shape[1]
        return -(-features.shape[1] // CELL) * -(-features.shape[2] // CELL)

    def encode(self, features: Tensor, mask: Tensor | None = None) -> Memory:
        """What the decoder needs to know of the images.

        Args:
            features: uint8 pixels (B, P, P, 3), or the same in cells (B, R, 3072), as a store has
                them. While training, something else of them is seen each time (`vary`).
            mask: None: an image has no region that is not there.
        """
        pixels = put_together(features) if features.dim() == 3 else features
        if self.training:
            pixels = vary(pixels)
        grid: Tensor = self.backbone(pixels)  # (B, R, F)
        return super().encode(grid, mask)


def pretrained_backbone(name: str) -> dict[str, Tensor]:
    """The package's weights of this backbone, by their names in a captioner."""
    model, _ = load_efficientnet(name)
    return {
        PREFIX + key: value
        for key, value in model.state_dict().items()
        if not key.startswith("classifier.")
    }


def without_backbone(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is left for a captioner that takes the features of this backbone."""
    return {name: value for name, value in weights.items() if not name.startswith(PREFIX)}
