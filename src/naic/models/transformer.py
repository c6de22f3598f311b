"""The paper's captioner: one class, causal (AIC, the teacher) or parallel (NAIC, the student).

Here are the encoder, in which the regions of an image look at each other, and the whole; the
decoder is in `decoder.py`.
"""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from naic.decode.policy import choose, log_policy, parallel
from naic.errors import ConfigError
from naic.models import writing
from naic.models.chain import ChainScores, Transitions, steps
from naic.models.chain import sample as sample_chain
from naic.models.config import TransformerConfig
from naic.models.contract import CaptionerSpec, Proposed
from naic.models.decoder import Cache, Decoder, Memory
from naic.models.layers import (
    BoxCodes,
    FeedForward,
    GridCodes,
    SelfAttention,
    additive,
    linear,
    own_size,
    take_apart,
)
from naic.text.vocabulary import NEVER


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

    Regions get no positions unless the config says that they are a grid, or that they end in the
    boxes of a detector: its regions have no order.
    """

    def __init__(self, config: TransformerConfig, features: int) -> None:
        super().__init__()
        self.codes: nn.Module | None = GridCodes() if config.grid else None
        self.boxed = bool(config.boxes)
        self.box_codes = BoxCodes(config.width) if config.boxes == "coded" else None
        self.seen = config.seen
        self.project = linear(own_size(features, config.boxes), config.width)
        self.project_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.width)

    def forward(self, features: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """(B, R, F) to (B, R, D), and the mask (B, R) as attention takes it, (B, 1, 1, R)."""
        boxes = None
        if self.boxed:
            features, boxes = take_apart(features)
        if not torch.is_autocast_enabled(features.device.type):  # autocast chooses by itself
            features = features.to(self.project.weight.dtype)
        projected: Tensor = self.project(features)
        blocked = None
        if mask is not None:
            blocked = additive(mask[:, None, None, :], projected.dtype)
        x: Tensor = self.project_norm(self.dropout(projected.relu()))
        if self.codes is not None:
            x = x + self.codes(x)
        if self.box_codes is not None and boxes is not None:
            x = x + self.box_codes(boxes)
        if self.training and self.seen < 1:
            if mask is not None:
                why = "its images have different numbers of regions"
                raise ConfigError("model.seen", f"{self.seen} cannot be: {why}", "Leave it out.")
            x = some_regions(x, self.seen)
        for layer, added in zip(self.layers, self.added(x, blocked, boxes), strict=True):
            x = layer(x, added)
        x = self.norm(x)
        return x, blocked

    def added(
        self, x: Tensor, blocked: Tensor | None, boxes: Tensor | None
    ) -> Sequence[Tensor | None]:
        """What is added to the attention scores (B, H, R, R) of each layer, if regions are x.

        `boxes` (B, R, 4) are theirs, if they have some.
        """
        return [blocked] * len(self.layers)


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
        self,
        config: TransformerConfig,
        features: int,
        words: int,
        *,
        causal: bool,
        encoder: type[Encoder] = Encoder,
        decoder: type[Decoder] = Decoder,
    ) -> None:
        super().__init__()
        self._side = 0  # of the backbone's grid, where it does not depend on the image
        if config.backbone:  # what the paper's captioner does not need is not imported for it
            from naic.backbones.load import trainable_backbone
            from naic.backbones.patches import PATCH, as_pixels

            inside = trainable_backbone(config.backbone)
            if features != PATCH:
                why = f"a backbone needs pixels, and these are features of size {features}"
                hint = "Prepare a store with --backbone pixels, or leave model.backbone empty."
                raise ConfigError("model.backbone", why, hint)
            features = inside.dim
            self._side = inside.side
        self.config = config
        self.causal = causal
        self.length = config.length
        self.words = words
        self.encoder = encoder(config, features)
        self.decoder = decoder(config, words, causal=causal)
        self.backbone: nn.Module | None = None
        if config.backbone:
            self.backbone, self._as_pixels = inside.make(), as_pixels

    @property
    def transitions(self) -> Transitions | None:
        """What the agents hear of each other; None: nothing."""
        return self.decoder.transitions

    def forward(
        self,
        features: Tensor,
        mask: Tensor | None = None,
        words: Tensor | None = None,
        shown: Tensor | None = None,
    ) -> Tensor | ChainScores:
        """Logits (B, C, N, V) of C captions an image; parallel (B, 1, N, V), whatever the words.

        With transitions a pair: the logits, and what `Transitions.chain` needs beside them.

        The image is encoded once for all its captions.

        Args:
            features: (B, R, F), any kind of float; with a backbone, see `see`.
            mask: (B, R), True for a real region; None when all are, which is faster.
            words: (B, C, N) int64, the captions to be said. A causal captioner hears them one
                place later, after BOS; PAD among them is harmless.
            shown: (B, C, N) int64, for a parallel one that learns by glancing: words that some
                agents are told, PAD for the others. The logits are then (B, C, N, V).
        """
        said: Tensor | ChainScores = self.decoder(self.encode(features, mask), words, shown)
        return said

    def encode(self, features: Tensor, mask: Tensor | None = None) -> Memory:
        """What the decoder needs to know of the images."""
        encoded, blocked = self.encoder(self.see(features), mask)
        return self.decoder.remember(encoded, blocked)

    def see(self, features: Tensor) -> Tensor:
        """(B, R, F) what the encoder reads: the features, or what the backbone makes of pixels.

        Pixels are uint8 (B, P, P, 3) or in cells (`as_pixels`), and while training something else
        of them is seen each time. They have no mask: an image has no region that is not there.
        """
        if self.backbone is None:
            return features
        config, training = self.config, self.training
        crop, mirror = (config.crop, config.mirror) if training else (1.0, 0.0)
        grid: Tensor = self.backbone(self._as_pixels(features, crop=crop, mirror=mirror))
        return grid

    def regions(self, features: Tensor) -> int:
        """R of these images; of pixels (B, P, P, 3) the cells, without looking at them."""
        if features.dim() == 3 and not self._side:
            return features.shape[1]
        from naic.backbones.patches import CELL

        if self._side:
            return self._side**2
        return -(-features.shape[1] // CELL) * -(-features.shape[2] // CELL)

    def empty_cache(self, memory: Memory, width: int = 1) -> Cache:
        """Room for writing `width` sentences an image."""
        if not self.causal:
            raise ConfigError(
                "captioner",
                "a parallel one says all words at once, not word by word",
                "Decode it with naic.decode.policy.",
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
) -> Proposed:
    """The likeliest words of each agent, (B, N, K)."""
    said = model(features, mask)
    if model.transitions is None:
        return Proposed(*parallel(said[:, 0], min(choices, model.words - len(NEVER))))
    words, log_probs = parallel(said.logits[:, 0], model.transitions.choices)
    return Proposed(words, log_probs, model.transitions.pairs(words, said.context[:, 0]))


@torch.no_grad()
def _sample(
    model: TransformerCaptioner, features: Tensor, mask: Tensor | None, samples: int
) -> Tensor:
    """(B, S, N) what agents say by chance."""
    said = model(features, mask)
    if model.transitions is not None:
        chain = model.transitions.chain(said.logits[:, 0], said.context[:, 0])
        return sample_chain(steps(chain), samples)
    log_probs = log_policy(said)  # (B, 1, N, V)
    return choose(log_probs.expand(-1, samples, -1, -1))


CAUSAL = CaptionerSpec(
    TransformerConfig,
    partial(TransformerCaptioner, causal=True),
    writing.propose,
    writing.beams,
    writing.sample,
    reads_words=True,
    one_pass=False,
    holds_backbone=True,
)
PARALLEL = CaptionerSpec(
    TransformerConfig,
    partial(TransformerCaptioner, causal=False),
    _propose,
    sample=_sample,
    glances=True,
    holds_backbone=True,
)
