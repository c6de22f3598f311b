"""ETA, the Entangled Transformer of Li et al. (ICCV 2019), as a captioner here.

A Transformer that writes word by word and is told of an image twice: by its regions, and by
attributes, words that the image probably calls for. Each of the two is encoded by layers of its
own, and the decoder looks at both, neither by itself:

- entangled attention: before a word looks at the regions it looks at the attributes, and what it
  found leads its look; and the other way round;
- the gated bilateral controller: a gate made of the word and of what it found decides, number by
  number, how much comes from the regions, C ⊙ v + (1 - C) ⊙ s.

An attribute is one of the most frequent content words of the captions. A small head scores them by
the encoded regions and learns, beside the words, which of them the captions of the step contain;
the likeliest go to the decoder by the words' own embedding. Search and sampling are those of the
causal captioner.

What differs from the paper, and what it leaves open: docs/decisions/047-eta.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.decoder import Decoder, DecoderLayer, Memory
from naic.models.layers import CrossAttention, linear
from naic.models.transformer import CAUSAL, EncoderLayer, TransformerCaptioner
from naic.text.vocabulary import BAD_ENDINGS, PAD, SPECIAL, Vocabulary

# Beside those that end no sentence: words that name nothing to be seen.
# fmt: off
FUNCTION = frozenset((
    *BAD_ENDINGS, "'s", "around", "be", "been", "but", "by", "down", "he", "her", "him", "inside",
    "it", "n't", "not", "off", "other", "out", "outside", "over", "she", "them", "there", "these",
    "they", "those", "up", "was", "were", "what", "which",
))
# fmt: on
MOST = 4096  # attributes: a stranger's config must not keep us busy for ever


@dataclass(frozen=True)
class EntangledConfig(TransformerConfig):
    """A Transformer's, and of its attributes.

    Attributes:
        attributes: How many words are known as attributes: the most frequent content words.
        told: How many of them, the likeliest of an image, the decoder is told.
    """

    attributes: int = 512
    told: int = 20

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.attributes <= MOST:
            why = f"{self.attributes} is not from 1 to {MOST:,}"
            raise ConfigError("model.attributes", why, "Try 512.")
        if not 1 <= self.told <= self.attributes:
            why = f"{self.told} is not from 1 to the {self.attributes} attributes that are known"
            raise ConfigError("model.told", why, "Try 20 of 512.")


class AttributeEncoder(nn.Module):
    """Which attributes an image has, and what they mean together: they have no order."""

    known: Tensor  # (A,) int64, their words

    def __init__(self, config: TransformerConfig, words: int) -> None:
        super().__init__()
        assert isinstance(config, EntangledConfig)
        self.told = config.told
        # Words are numbered by how frequent they are; `meet` puts content words first. With fewer
        # words than that some are known several times.
        ordinary = max(1, words - len(SPECIAL))
        known = [len(SPECIAL) + place % ordinary for place in range(config.attributes)]
        self.register_buffer("known", torch.tensor(known))
        self.score = linear(config.width, config.attributes)
        self.dropout = nn.Dropout(config.dropout)
        self.layers = nn.ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.width)

    def scores(self, encoded: Tensor, blocked: Tensor | None) -> Tensor:
        """(B, A) logits: an attribute is in an image if it is in any of its regions (B, R, D)."""
        found: Tensor = self.score(encoded)  # (B, R, A)
        if blocked is not None:
            found = found + blocked[:, 0, 0, :, None]
        return found.amax(1)

    def loss(self, scores: Tensor, words: Tensor) -> Tensor:
        """(B,) the multi-label loss: whether each attribute is in any caption (B, C, N).

        Summed over attributes, for as many as are told: about as large as a word's.
        """
        said = (words.flatten(1)[:, None] == self.known[:, None]).any(-1)  # (B, A)
        loss = F.binary_cross_entropy_with_logits(scores.float(), said.float(), reduction="none")
        return loss.sum(1) / self.told

    def forward(self, scores: Tensor, embed: Decoder) -> Tensor:
        """(B, K, D) of the likeliest K, each as large as it is probable."""
        likeliest = scores.topk(self.told)
        words = self.known[likeliest.indices]  # (B, K)
        x: Tensor = embed.embed(words) * likeliest.values.sigmoid()[..., None]
        x = self.dropout(x)
        for layer in self.layers:
            x = layer(x, None)
        x = self.norm(x)
        return x


class EntangledLayer(DecoderLayer):
    """A decoder's layer that looks at regions and attributes, each led by the other.

    Keys and values (B, H, 2R + 2K, d) are those of the regions as a lead and as what is looked for,
    then those of the attributes. `cross` is the look at the regions.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        assert isinstance(config, EntangledConfig)
        sizes = (config.width, config.heads, config.dropout)
        self.told = config.told
        self.lead_regions = CrossAttention(*sizes)
        self.lead_attributes = CrossAttention(*sizes)
        self.cross_attributes = CrossAttention(*sizes)
        self.regions_norm = nn.LayerNorm(config.width)
        self.attributes_norm = nn.LayerNorm(config.width)
        self.gate = linear(3 * config.width, config.width)

    def _look(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """All but self-attention: each word by itself, whatever sentence it belongs to."""
        x = x + self.dropout(self.entangle(self.cross_norm(x), keys, values, mask))
        x = x + self.dropout(self.feed_forward(self.feed_forward_norm(x)))
        return x

    def entangle(self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """(B, T, D) what words (B, T, D) find in both."""
        regions = keys.shape[2] // 2 - self.told
        ends = (regions, 2 * regions, 2 * regions + self.told)
        k, v = keys.tensor_split(ends, 2), values.tensor_split(ends, 2)
        by_regions = x + self.lead_regions(x, k[0], v[0], mask)
        by_attributes = x + self.lead_attributes(x, k[2], v[2], None)
        seen = self.cross(self.regions_norm(by_attributes), k[1], v[1], mask)
        meant = self.cross_attributes(self.attributes_norm(by_regions), k[3], v[3], None)
        share = self.gate(torch.cat((x, seen, meant), -1)).sigmoid()
        found: Tensor = share * seen + (1 - share) * meant
        return found


class EntangledDecoder(Decoder):
    """A causal decoder whose memory has both streams."""

    layer = EntangledLayer

    def __init__(self, config: TransformerConfig, words: int, *, causal: bool) -> None:
        super().__init__(config, words, causal=causal)
        blocks = 2 * 2 * config.decoder_layers  # keys and values, as a lead and as what is sought
        self.remember_all = linear(config.width, config.width, blocks=blocks)
        self.remember_attributes = linear(config.width, config.width, blocks=blocks)

    def remember_both(self, encoded: Tensor, attributes: Tensor, mask: Tensor | None) -> Memory:
        """All layers' keys and values of regions (B, R, D) and attributes (B, K, D)."""
        streams = (self.remember_all(encoded), self.remember_attributes(attributes))
        both = torch.cat([self._parts(stream) for stream in streams], 4)
        return Memory(both[0], both[1], mask)

    def _parts(self, stream: Tensor) -> Tensor:
        """(2, L, B, H, 2R, d) of (B, R, 4LD)."""
        batch, places, _ = stream.shape
        layers, heads = self.config.decoder_layers, self.config.heads
        parts = stream.view(batch, places, 2, layers, 2, heads, self.config.width // heads)
        return parts.permute(2, 3, 0, 5, 4, 1, 6).flatten(4, 5)


class Learning(NamedTuple):
    """What the network says while it learns.

    Attributes:
        logits: (B, C, N, V) of the words.
        attributes: (B,) the loss of each image's attributes.
    """

    logits: Tensor
    attributes: Tensor


class EntangledCaptioner(TransformerCaptioner):
    """The causal captioner with both streams."""

    decoder: EntangledDecoder

    def __init__(self, config: EntangledConfig, features: int, words: int) -> None:
        super().__init__(config, features, words, causal=True, decoder=EntangledDecoder)
        self.attributes = AttributeEncoder(config, words)

    def forward(  # type: ignore[override]  # it can be asked for more
        self,
        features: Tensor,
        mask: Tensor | None = None,
        words: Tensor | None = None,
        *,
        learn: bool = False,
    ) -> Tensor | Learning:
        """Logits (B, C, N, V), and with `learn` the loss of the attributes too."""
        memory, scores = self._encode(features, mask)
        said: Tensor = self.decoder(memory, words)
        if not learn:
            return said
        assert words is not None  # or the decoder had refused
        return Learning(said, self.attributes.loss(scores, words))

    def encode(self, features: Tensor, mask: Tensor | None = None) -> Memory:
        """What the decoder needs to know of the images."""
        return self._encode(features, mask)[0]

    def _encode(self, features: Tensor, mask: Tensor | None) -> tuple[Memory, Tensor]:
        encoded, blocked = self.encoder(self.see(features), mask)
        scores = self.attributes.scores(encoded, blocked)
        attributes = self.attributes(scores, self.decoder)
        return self.decoder.remember_both(encoded, attributes, blocked), scores


def content_words(vocabulary: Vocabulary, count: int) -> list[int]:
    """The most frequent content words; where there are too few, other words and the same again."""
    ordinary = range(len(SPECIAL), len(vocabulary))
    content = [i for i in ordinary if vocabulary.word(i) not in FUNCTION]
    ranked = content + [i for i in ordinary if vocabulary.word(i) in FUNCTION]
    return [ranked[place % len(ranked)] for place in range(count)] if ranked else []


def _meet(model: EntangledCaptioner, vocabulary: Vocabulary) -> None:
    known = model.attributes.known
    words = content_words(vocabulary, len(known))
    if words:
        known.copy_(torch.tensor(words))


def _losses(
    model: nn.Module,
    features: Tensor,
    mask: Tensor | None,
    words: Tensor,
    cross_entropy: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    """The words, and beside each of them the attributes of its image."""
    said = model(features, mask, words, learn=True)
    count = (words != PAD).sum((1, 2))  # (B,)
    return {
        "words": cross_entropy(said.logits, words),
        "attributes": (said.attributes * count).sum(),
    }


ETA = replace(CAUSAL, config=EntangledConfig, build=EntangledCaptioner, meet=_meet, losses=_losses)
