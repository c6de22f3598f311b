"""The paper's captioner: one class, causal (AIC, the teacher) or parallel (NAIC, the student)."""

from functools import partial
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from naic.backbones.load import trainable_backbone
from naic.backbones.patches import PATCH, put_together, vary
from naic.decode.parallel import parallel
from naic.decode.policy import NEVER, choose, log_policy
from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.contract import CaptionerSpec
from naic.models.decoder import Cache, Decoder, Memory
from naic.models.encoder import Encoder

if TYPE_CHECKING:  # how a causal captioner decodes is read where one does
    from naic.decode.beam import Beams


class TransformerCaptioner(nn.Module):
    """Features of an image in, scores of every word at each of N places out.

    Causal, each place hears the words before it. Parallel, the places are agents that hear no
    words: they see the image and each other, and all speak at the same moment. The two differ in
    the word embedding only, so that the student can start from the teacher's weights.

    The paper's features come from a network that stays as it is. With `config.backbone` the model
    has a backbone of its own, takes pixels, and the backbone learns with the rest: it was trained
    to name one object in an image, and learns to see what people speak of.

    Attributes:
        config: its size.
        causal: whether it writes word by word.
        length: N, the places.
        words: V, the size of the vocabulary.
        backbone: its own; None: it takes features.
    """

    def __init__(
        self, config: TransformerConfig, features: int, words: int, *, causal: bool
    ) -> None:
        super().__init__()
        inside = trainable_backbone(config.backbone) if config.backbone else None
        if inside is not None:
            if features != PATCH:
                why = f"a backbone needs pixels, and these are features of size {features}"
                hint = "Prepare a store with --backbone pixels, or leave model.backbone empty."
                raise ConfigError("model.backbone", why, hint)
            features = inside.dim
        self.config = config
        self.causal = causal
        self.length = config.length
        self.words = words
        self.encoder = Encoder(config, features)
        self.decoder = Decoder(config, words, causal=causal)
        self.backbone: nn.Module | None = None if inside is None else inside.make()

    def forward(
        self, features: Tensor, mask: Tensor | None = None, words: Tensor | None = None
    ) -> Tensor:
        """Logits (B, C, N, V) of C captions an image; parallel (B, 1, N, V), whatever the words.

        The image is encoded once for all its captions.

        Args:
            features: (B, R, F), any kind of float; with a backbone, see `see`.
            mask: (B, R), True for a real region; None when all are, which is faster.
            words: (B, C, N) int64, the captions to be said. A causal captioner hears them one
                place later, after BOS; PAD among them is harmless.
        """
        logits: Tensor = self.decoder(self.encode(features, mask), words)
        return logits

    def encode(self, features: Tensor, mask: Tensor | None = None) -> Memory:
        """What the decoder needs to know of the images."""
        encoded, blocked = self.encoder(self.see(features), mask)
        return self.decoder.remember(encoded, blocked)

    def see(self, features: Tensor) -> Tensor:
        """(B, R, F) what the encoder reads: the features, or what the backbone makes of pixels.

        Pixels are uint8 (B, P, P, 3), or the same in cells (B, R, 3072), as a store has them. While
        training, something else of them is seen each time (`vary`). They have no mask: an image has
        no region that is not there.
        """
        if self.backbone is None:
            return features
        pixels = put_together(features) if features.dim() == 3 else features
        if self.training:
            pixels = vary(pixels)
        grid: Tensor = self.backbone(pixels)
        return grid

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


@torch.no_grad()
def _propose(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None, choices: int
) -> tuple[Tensor, Tensor]:
    """The likeliest words of each agent, (B, N, K); a causal one's sentence, (B, N, 1)."""
    if model.causal:
        from naic.decode.stepwise import greedy

        words, log_probs = greedy(model, model.encode(features, mask))
        return words[..., None], log_probs[..., None]
    logits = model(features, mask)[:, 0]  # (B, N, V)
    return parallel(logits, min(choices, model.words - len(NEVER)))


@torch.no_grad()
def _beams(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None, width: int, keep: int
) -> "Beams":
    from naic.decode.beam import beam_search

    return beam_search(model, model.encode(features, mask), width, keep)


@torch.no_grad()
def _sample(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None, samples: int
) -> Tensor:
    if model.causal:
        from naic.decode.stepwise import sample

        return sample(model, model.encode(features, mask), samples).words
    log_probs = log_policy(model(features, mask))  # (B, 1, N, V)
    return choose(log_probs.expand(-1, samples, -1, -1))


CAUSAL = CaptionerSpec(
    TransformerConfig,
    partial(TransformerCaptioner, causal=True),
    _propose,
    _beams,
    _sample,
    reads_words=True,
    one_pass=False,
    holds_backbone=True,
)
PARALLEL = CaptionerSpec(
    TransformerConfig,
    partial(TransformerCaptioner, causal=False),
    _propose,
    sample=_sample,
    holds_backbone=True,
)
