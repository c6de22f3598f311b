"""Models that nobody trained, in folders: what they say makes no sense, but is always the same."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from naic.backbones.patches import PATCH
from naic.models.captioners import CAPTIONERS
from naic.models.folder import ModelSettings, write_model
from naic.text import Vocabulary

NETWORK = "efficientnet-lite0"
FEATURES = 1280
PIXELS = 64
LENGTH = 6
CHAIN = 7  # words of each agent that a model with transitions looks at
WORDS = Vocabulary.build(
    ["a black cat sits on the red sofa and looks at two small dogs"], more_than=0
)


def make_model(
    folder: Path,
    captioner: str = "parallel",
    *,
    backbone: str = "",
    source: str = NETWORK,
    seed: int = 0,
    says: str | None = None,
    spoilt: bool = False,
    transitions: int = 0,
    **settings: Any,
) -> Path:
    """A model folder. With `says`, that word stands at every place, whatever the image.

    `backbone` is inside the model, `source` is what made the features of a model without one;
    `settings` are put over those of ModelSettings. With `transitions` neighbours matter: what
    starts at nothing is set by chance.
    """
    spec = CAPTIONERS[captioner]
    sizes: dict[str, Any] = {"width": 32, "length": LENGTH}
    sizes |= {"heads": 2, "encoder_layers": 1, "decoder_layers": 1, "hidden": 64}
    sizes |= {"transitions": transitions, "choices": CHAIN, "backbone": backbone}
    own = {field.name for field in fields(spec.config)}
    config = spec.config(**{name: size for name, size in sizes.items() if name in own})
    torch.manual_seed(seed)
    features = PATCH if backbone else FEATURES
    model = spec.build(config, features, len(WORDS))
    weights: dict[str, Tensor] = model.state_dict()
    if transitions:
        for name in ("after", "context"):
            weights[f"decoder.transitions.{name}.weight"].normal_(std=0.4)
    if says is not None:
        weights["decoder.output.weight"].zero_()
        weights["decoder.output.bias"].zero_()[WORDS.id(says)] = 2.0
    if spoilt:
        weights["decoder.output.bias"].fill_(torch.nan)
    values: dict[str, Any] = {
        "backbone": "pixels" if backbone else source,
        "pixels": PIXELS,
    } | settings
    made = ModelSettings(captioner, features, len(WORDS), model=config, **values)
    write_model(folder, weights, made, WORDS, "")
    return folder
