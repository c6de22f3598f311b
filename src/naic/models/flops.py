"""How much arithmetic a forward pass is: what a GPU's speed is to be compared with."""

from naic.models.config import TransformerConfig


def flops(
    config: TransformerConfig,
    features: int,
    words: int,
    regions: int,
    captions: int,
    causal: bool,
) -> int:
    """Floating-point operations of `Captioner.forward` for one image and its captions.

    Matrix products only, a multiplication and an addition counted as two. Attention among the
    words of a causal captioner is counted in full, though half of it is masked. A training step is
    three times as much.
    """
    width, length = config.width, config.length
    sentences = captions if causal else 1
    places = sentences * length
    square = 2 * width * width  # one place through one width x width layer
    feed_forward = 4 * width * config.hidden
    encoder_layer = regions * (4 * square + feed_forward + 4 * regions * width)
    decoder_layer = places * (6 * square + feed_forward + 4 * (length + regions) * width)
    remember = regions * 2 * config.decoder_layers * square
    return (
        2 * regions * features * width
        + config.encoder_layers * encoder_layer
        + remember
        + config.decoder_layers * decoder_layer
        + 2 * places * width * words
    )
