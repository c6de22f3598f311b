"""The settings of captioners that are put together of the paper's encoder and decoder."""

from dataclasses import dataclass

from naic.models.config import Boxes, TransformerConfig


@dataclass(frozen=True)
class Sizes:
    """The size of a captioner; Transformer-base unless told otherwise.

    Those of `TransformerConfig` that do not belong to the paper's captioner alone.

    Attributes:
        width: Numbers that stand for a word or a region inside the model.
        heads: Attention heads; they share the width.
        encoder_layers: Layers that look at the regions.
        decoder_layers: Layers that speak.
        hidden: Width of the feed-forward layers.
        dropout: Share of the numbers left out while training.
        length: Words of a caption at most, its period counted.
        grid: The regions are a square grid in reading order, and the encoder is told each one's
            row and column.
        boxes: For a feature store with boxes: "coded", the encoder is told each region's corners
            and area; "apart", it is not. Empty: the store has none.
        seen: Share of an image's regions that are seen while training, others each time. For
            images that all have the same number of them.
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
    seen: float = 1.0

    def __post_init__(self) -> None:
        _ = self.transformer  # which refuses what cannot be

    @property
    def transformer(self) -> TransformerConfig:
        """The same for `Encoder` and `Decoder`."""
        return TransformerConfig(
            width=self.width,
            heads=self.heads,
            encoder_layers=self.encoder_layers,
            decoder_layers=self.decoder_layers,
            hidden=self.hidden,
            dropout=self.dropout,
            length=self.length,
            grid=self.grid,
            boxes=self.boxes,
            seen=self.seen,
        )
