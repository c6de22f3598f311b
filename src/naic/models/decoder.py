"""The decoder: word by word (causal), or all N agents at once (parallel)."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from naic.errors import ConfigError
from naic.models.chain import ChainScores, Transitions
from naic.models.config import TransformerConfig
from naic.models.layers import (
    CrossAttention,
    FeedForward,
    SelfAttention,
    WordScores,
    additive,
    linear,
    sinusoids,
)
from naic.models.writing import words_before
from naic.text.vocabulary import PAD


class Memory(NamedTuple):
    """What the decoder keeps of an image: all layers' keys and values, computed once.

    Attributes:
        keys: (L, B, H, R, d).
        values: (L, B, H, R, d).
        mask: (B, 1, 1, R), added to the attention scores; None when all regions are real.
    """

    keys: Tensor
    values: Tensor
    mask: Tensor | None

    @property
    def batch(self) -> int:
        """B, the images."""
        return self.keys.shape[1]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.keys.device


class Cache(NamedTuple):
    """What a causal decoder keeps of W sentences an image while it writes them.

    When a beam is dropped and another goes on twice, no key or value moves: only the small
    `lineage` changes, which tells in whose slot each word of a sentence was written.

    Attributes:
        past: (L, B, N, W, 2, H, d) keys and values; zero where nothing is written yet.
        lineage: (B, W, N) int64, the beam in whose slot sentence w finds its word n.
    """

    past: Tensor
    lineage: Tensor


class DecoderLayer(nn.Module):
    """Self-attention, attention to the image, feed-forward; each adds to what was there."""

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        self.attention = SelfAttention(config.width, config.heads, config.dropout)
        self.attention_norm = nn.LayerNorm(config.width)
        self.cross = CrossAttention(config.width, config.heads, config.dropout)
        self.cross_norm = nn.LayerNorm(config.width)
        self.feed_forward = FeedForward(config.width, config.hidden, config.dropout)
        self.feed_forward_norm = nn.LayerNorm(config.width)
        self.dropout = nn.Dropout(config.dropout)

    def forward(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        *,
        causal: bool,
        heard: Tensor | None = None,
    ) -> Tensor:
        """(B, C, N, D) to (B, C, N, D)."""
        x = self.hear(x, heard, causal=causal)
        return self.look(x, keys, values, mask)

    def hear(self, x: Tensor, heard: Tensor | None = None, *, causal: bool) -> Tensor:
        """The places of each caption look at each other: (B, C, N, D) to (B, C, N, D).

        `heard` (N, N) is additive, and takes the place of the causal mask.
        """
        captions = x.flatten(0, 1)  # (B*C, N, D)
        causal = causal and heard is None
        found = self.attention(self.attention_norm(captions), heard, causal=causal)
        seen: Tensor = self.dropout(found)
        return (captions + seen).view_as(x)

    def look(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """All the rest of the layer: (B, C, N, D) to (B, C, N, D)."""
        return self._look(x.flatten(1, 2), keys, values, mask).view_as(x)

    def step(
        self,
        x: Tensor,
        keys: Tensor,
        values: Tensor,
        mask: Tensor | None,
        past: Tensor,
        position: Tensor,
        visible: Tensor,
    ) -> Tensor:
        """(B, W, D) to (B, W, D): one more word of each sentence."""
        heard = self.attention.step(self.attention_norm(x), past, position, visible)
        x = x + self.dropout(heard)
        return self._look(x, keys, values, mask)

    def _look(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """The parts that treat each word by itself, whatever sentence it belongs to: (B, T, D)."""
        x = x + self.dropout(self.cross(self.cross_norm(x), keys, values, mask))
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x


class Decoder(nn.Module):
    """Speaks about a memory; with words as input (causal), or with positions alone (parallel)."""

    positions: Tensor  # (N, D)
    layer: type[DecoderLayer] = DecoderLayer  # what it is made of

    def __init__(self, config: TransformerConfig, words: int, *, causal: bool) -> None:
        super().__init__()
        self.config = config
        self.causal = causal
        self.remember_all = linear(config.width, config.width, blocks=2 * config.decoder_layers)
        if causal:  # the agents of a parallel decoder hear no words, so it has no embedding
            self.embedding = nn.Embedding(words, config.width)
            nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        self.register_buffer("positions", sinusoids(config.length, config.width), persistent=False)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(self.layer(config) for _ in range(config.decoder_layers))
        self.norm = nn.LayerNorm(config.width)
        self.output: nn.Linear = WordScores(config.width, words)
        self.transitions: Transitions | None = None
        if config.transitions:
            if causal:
                why = "a causal captioner hears all words before, and needs no transitions"
                raise ConfigError("model.transitions", why, "Set it to 0.")
            self.transitions = Transitions(words, config.width, config.transitions, config.choices)

    def remember(self, encoded: Tensor, mask: Tensor | None) -> Memory:
        """All layers' keys and values of the regions (B, R, D), in one multiplication."""
        batch, regions, width = encoded.shape
        layers, heads = self.config.decoder_layers, self.config.heads
        both: Tensor = self.remember_all(encoded)
        both = both.view(batch, regions, 2, layers, heads, width // heads)
        keys, values = both.permute(2, 3, 0, 4, 1, 5).unbind(0)  # (L, B, H, R, d)
        return Memory(keys, values, mask)

    def forward(
        self, memory: Memory, words: Tensor | None, shown: Tensor | None = None
    ) -> Tensor | ChainScores:
        """(B, C, N, V) logits of each word after those before it; parallel: (B, 1, N, V).

        With transitions also how each agent weighs what it hears. `shown` (B, C, N): words that are
        shown to a parallel decoder, see `_show`.
        """
        x = self._inputs(memory, words)
        return self.speak(x if shown is None else x + self._show(shown), memory)

    def speak(self, x: Tensor, memory: Memory) -> Tensor | ChainScores:
        """What is said by places that are given x (B, C, N, D): words, positions or both."""
        x = self.dropout(x)
        heard = self.heard(memory, x.shape[2])
        # unbind, not an index for each layer: its gradient is one stack instead of L sums
        for layer, keys, values in zip(
            self.layers, memory.keys.unbind(0), memory.values.unbind(0), strict=True
        ):
            assert isinstance(layer, DecoderLayer)
            x = layer(x, keys, values, memory.mask, causal=self.causal, heard=heard)
        return self.answer(x)

    def heard(self, memory: Memory, places: int) -> Tensor | None:
        """(N, N) what is added to the places' scores of each other.

        None: a causal decoder's places hear themselves and those before them; a parallel one's all.
        """
        return None

    def answer(self, x: Tensor) -> Tensor | ChainScores:
        """What is said by the last layer's (B, C, N, D)."""
        x = self.norm(x)
        scores: Tensor = self.output(x)
        if self.transitions is None:
            return scores
        return ChainScores(scores, self.transitions.context(x))

    def _inputs(self, memory: Memory, words: Tensor | None) -> Tensor:
        """(B, C, N, D) what the first layer is given."""
        if not self.causal:
            return self.positions.expand(memory.keys.shape[1], 1, -1, -1)
        if words is None:
            raise ValueError("a causal captioner needs the words that it is to say next")
        return self.embed(words_before(words)) + self.positions

    def _show(self, words: Tensor) -> Tensor:
        """(B, C, N, D) what agents are told of the words (B, C, N) that they are to say; PAD: none.

        There is no embedding, so a word is its row of the output matrix, scaled as embeddings are:
        no weights that only training would use. The rows do not learn from being read here. When
        the captioner speaks nothing is shown, and they have to be good for speaking alone.
        """
        rows = nn.functional.embedding(words, self.output.weight.detach())
        return (rows * math.sqrt(self.config.width)).where((words != PAD)[..., None], 0.0)

    def embed(self, words: Tensor) -> Tensor:
        """(..., D) of words (...), as they are heard."""
        embedded: Tensor = self.embedding(words)
        return embedded * math.sqrt(self.config.width)

    def empty_cache(self, memory: Memory, width: int) -> Cache:
        """Room for `width` sentences an image, nothing said yet."""
        layers, batch, heads, _, size = memory.keys.shape
        length = self.config.length
        past = memory.keys.new_zeros(layers, batch, length, width, 2, heads, size)
        own = torch.arange(width, device=past.device)[None, :, None]
        return Cache(past, own.repeat(batch, 1, length))

    def step(self, words: Tensor, position: Tensor, memory: Memory, cache: Cache) -> Tensor:
        """(B, W, V) logits of word `position`, after hearing `words` (B, W), the words before it.

        `position` is a 0-dim int64 tensor on the device: as a number it would be part of the
        compiled code, which would then be made anew for each step. Writes into the cache.
        """
        slots = torch.arange(self.config.length, device=words.device)
        beams = torch.arange(words.shape[1], device=words.device)
        own = cache.lineage[..., None] == beams  # (B, W, N, W)
        seen = own & (slots <= position)[:, None]
        visible = additive(seen.flatten(2)[:, None], cache.past.dtype)  # (B, 1, W, N*W)
        x = self.embed(words) + self.positions.index_select(0, position.view(1))
        x = self.dropout(x)  # (B, W, D)
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, DecoderLayer)
            keys, values, past = memory.keys[number], memory.values[number], cache.past[number]
            x = layer.step(x, keys, values, memory.mask, past, position, visible)
        scores: Tensor = self.output(self.norm(x))
        return scores

    def follow(self, cache: Cache, parents: Tensor, position: Tensor) -> Cache:
        """The cache when, after word `position`, sentence w goes on from sentence parents[b, w]."""
        length = self.config.length
        slots = torch.arange(length, device=parents.device)
        own = torch.arange(parents.shape[1], device=parents.device)[:, None]
        theirs = cache.lineage.gather(1, parents[..., None].expand(-1, -1, length))
        return Cache(cache.past, torch.where(slots <= position, theirs, own))
