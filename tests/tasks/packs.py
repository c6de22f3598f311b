"""Models that nobody trained, with a backbone or without, for packing."""

from pathlib import Path

import torch

from naic.backbones.patches import PATCH
from naic.models.captioners import CAPTIONERS
from naic.models.config import TransformerConfig
from naic.models.folder import ModelSettings, write_model
from naic.text.vocabulary import SPECIAL, Vocabulary

NETWORK = "efficientnet-lite0"
VOCABULARY = Vocabulary((*SPECIAL, "a", "circle", "square"))
CARD = "# A model\n\nIt knows two shapes.\n"


def make_model(
    folder: Path,
    *,
    backbone: str = "",
    source: str = NETWORK,
    digest: str = "",
    pixels: int | None = 64,
    seed: int = 0,
) -> Path:
    """A folder of a parallel captioner; its backbone, if any, is as random as the rest."""
    config = TransformerConfig(
        width=32, heads=2, encoder_layers=1, decoder_layers=1, hidden=64, backbone=backbone
    )
    features = PATCH if backbone else 1280
    torch.manual_seed(seed)
    model = CAPTIONERS["parallel"].build(config, features, len(VOCABULARY))
    source = "pixels" if backbone else source
    settings = ModelSettings("parallel", features, len(VOCABULARY), source, config, pixels, digest)
    write_model(folder, model.state_dict(), settings, VOCABULARY, CARD)
    return folder
