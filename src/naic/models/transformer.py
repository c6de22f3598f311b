"""The captioner: one class, causal (AIC, the teacher) or parallel (NAIC, the student)."""

from torch import Tensor, nn

from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.decoder import Cache, Decoder, Memory
from naic.models.encoder import Encoder


class Captioner(nn.Module):
    """Features of an image in, scores of every word at each of N places out.

    Causal, each place hears the words before it. Parallel, the places are agents that hear no
    words: they see the image and each other, and all speak at the same moment. The two differ in
    the word embedding only, so that the student can start from the teacher's weights.

    Attributes:
        config: its size.
        causal: whether it writes word by word.
        length: N, the places.
        words: V, the size of the vocabulary.
    """

    def __init__(
        self, config: TransformerConfig, features: int, words: int, *, causal: bool
    ) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        self.length = config.length
        self.words = words
        self.encoder = Encoder(config, features)
        self.decoder = Decoder(config, words, causal=causal)

    def forward(
        self, features: Tensor, mask: Tensor | None = None, words: Tensor | None = None
    ) -> Tensor:
        """Logits (B, C, N, V) of C captions an image; parallel (B, 1, N, V), whatever the words.

        The image is encoded once for all its captions.

        Args:
            features: (B, R, F), any kind of float.
            mask: (B, R), True for a real region; None when all are, which is faster.
            words: (B, C, N) int64, the captions to be said. A causal captioner hears them one
                place later, after BOS; PAD among them is harmless.
        """
        logits: Tensor = self.decoder(self.encode(features, mask), words)
        return logits

    def encode(self, features: Tensor, mask: Tensor | None = None) -> Memory:
        """What the decoder needs to know of the images."""
        encoded, blocked = self.encoder(features, mask)
        return self.decoder.remember(encoded, blocked)

    def regions(self, features: Tensor) -> int:
        """How many regions these images have."""
        return features.shape[1]

    def settle(self, regions: int) -> None:
        """Make ready for use alone: what depends on no image is computed once.

        For a model in eval mode whose weights stay as they are, after it was brought to its device.
        It says what it said before; images of another number of regions take a little longer.
        """
        self.encoder.settle(regions)
        self.decoder.settle()

    def empty_cache(self, memory: Memory, width: int = 1) -> Cache:
        """Room for writing `width` sentences an image."""
        if not self.causal:
            raise ConfigError(
                "captioner",
                "a parallel one says all words at once, not word by word",
                "Decode it with naic.decode.parallel.",
            )
        return self.decoder.empty_cache(memory, width)

    def step(self, words: Tensor, position: Tensor, memory: Memory, cache: Cache) -> Tensor:
        """(B, W, V) logits of the next word; for use without gradients.

        Args:
            words: (B, W) int64, what was said last; BOS at first.
            position: 0-dim int64 tensor on the device, how many words were said.
            memory: the images, B of them whatever W is.
            cache: the sentences so far; written into.
        """
        return self.decoder.step(words, position, memory, cache)

    def follow(self, cache: Cache, parents: Tensor, position: Tensor) -> Cache:
        """The cache when, after word `position`, sentence w goes on from sentence parents[b, w]."""
        return self.decoder.follow(cache, parents, position)
