"""How large a Transformer captioner is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from naic.errors import ConfigError

OLD_KEYS = {"eyes": "backbone"}  # of [model], as an earlier naic wrote them
Boxes = Literal["", "coded", "apart"]  # what becomes of the boxes that regions end in
MOST = 1024  # layers and places: a stranger's config must not keep us busy for ever


def current_keys(table: Mapping[str, Any]) -> dict[str, Any]:
    """[model] of a model or a run that may be of an earlier naic, by the keys of today."""
    return {OLD_KEYS.get(key, key): value for key, value in table.items()}


@dataclass(frozen=True)
class TransformerConfig:
    """The size of a captioner; Transformer-base unless told otherwise.

    Attributes:
        width: Numbers that stand for a word or a region inside the model.
        heads: Attention heads; they share the width.
        encoder_layers: Layers that look at the regions.
        decoder_layers: Layers that speak.
        hidden: Width of the feed-forward layers.
        dropout: Share of the numbers left out while training.
        length: Words of a caption at most, its period counted; also the number of agents.
        grid: The regions are a square grid in reading order, and the encoder is told each one's
            row and column. Not in the paper, whose regions come in no order.
        boxes: For a feature store with boxes, which are the last four numbers of each region:
            "coded", the encoder is told each region's corners and area; "apart", it is not, and
            only who relates regions (ort) knows of them. Empty: the store has none.
        backbone: The backbone inside the model, such as efficientnet-lite2: the model takes pixels,
            and the backbone learns with the rest. Empty: the model takes features, and the backbone
            that makes them stays as it is.
        crop: With a backbone: the least part of each side of an image that is seen while training,
            enlarged to the whole, another one each time; 1: always all of it.
        mirror: With a backbone: share of the images that are mirrored while training.
        seen: Share of an image's regions that are seen while training, others each time: an image
            is then harder to overfit. For images that all have the same number of them.
        transitions: Rank of the scores that pairs of neighbouring words have beside each agent's
            own (`chain.py`); 0: agents hear nobody. For a parallel captioner.
        choices: With transitions: the likeliest words of each agent that sentences are made of.
    """

    width: int = 512
    heads: int = 8
    encoder_layers: int = 6
    decoder_layers: int = 6
    hidden: int = 2048
    dropout: float = 0.1
    length: int = 16
    grid: bool = False
    boxes: Boxes = ""
    backbone: str = ""
    seen: float = 1.0
    crop: float = 0.75
    mirror: float = 0.5
    transitions: int = 0
    choices: int = 16

    def __post_init__(self) -> None:
        for name in ("width", "heads", "encoder_layers", "decoder_layers", "hidden", "length"):
            value = getattr(self, name)
            if value < 1:
                raise ConfigError(f"model.{name}", f"{value} is below 1", "Give at least 1.")
            if value > MOST and name not in ("width", "heads", "hidden"):
                raise ConfigError(f"model.{name}", f"{value} is above {MOST}", "Give fewer.")
        if self.width % self.heads:
            why = f"{self.width} cannot be shared out among {self.heads} heads"
            hint = "Choose a width that is a multiple of model.heads, such as 512 with 8 heads."
            raise ConfigError("model.width", why, hint)
        if self.width % 2:
            why = f"{self.width} is odd, and positions are pairs of a sine and a cosine"
            raise ConfigError("model.width", why, "Choose an even width.")
        if self.grid and self.width % 4:
            why = f"{self.width} cannot be halved into even codes of a row and a column"
            raise ConfigError("model.width", why, "Choose a multiple of 4, or grid = false.")
        if self.boxes and self.backbone:
            why = f"a model that sees by its own {self.backbone} gets no boxes from a detector"
            raise ConfigError("model.boxes", why, "Leave it out.")
        for name in ("seen", "crop"):
            value = getattr(self, name)
            if not 0 < value <= 1:
                raise ConfigError(
                    f"model.{name}", f"{value} is not above 0 and up to 1", "Try 0.9."
                )
        if not 0 <= self.mirror <= 1:
            raise ConfigError("model.mirror", f"{self.mirror} is not from 0 to 1", "Try 0.5.")
        for name, least in (("transitions", 0), ("choices", 2)):
            value = getattr(self, name)
            if not least <= value <= MOST:
                why = f"{value} is not from {least} to {MOST}"
                raise ConfigError(f"model.{name}", why, "Try 16.")
        if not 0 <= self.dropout < 1:
            why = f"{self.dropout} is not from 0 to below 1"
            raise ConfigError("model.dropout", why, "Try 0.1.")
