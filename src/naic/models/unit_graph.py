"""The graph of VSUA: from regions to objects, their attributes, and how they are related.

Small heads find the units in an image, and learn from scene graphs of its captions. Which words are
known as units is kept among the weights. K named objects, P pairs of them; A words that are
known as objects and attributes, M that are known as relations.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.errors import ConfigError
from naic.models import scene_words
from naic.models.eta import MOST
from naic.models.layers import GridCodes, linear
from naic.models.recurrent import check_sizes
from naic.models.scene_words import CONTENT, PARTICIPLE, RELATION
from naic.models.updown import UpDownConfig
from naic.text.vocabulary import SPECIAL, Vocabulary

KINDS = 3
RARE = 0.02  # of the attributes and relations that are known, how many apply to an object


@dataclass(frozen=True)
class VsuaConfig(UpDownConfig):
    """The size of an Up-Down captioner, and of its graph.

    Attributes:
        content: How many words are known as objects and as attributes.
        relations: How many words are known as relations.
        named: Objects of an image that are found by a word, the likeliest ones.
        pairs: How many pairs of these are related.
        grid: The regions are a square grid in reading order, and each is told its row and column.
    """

    content: int = 512
    relations: int = 96
    named: int = 16
    pairs: int = 24
    grid: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_sizes(self, ("content", "relations"))
        if max(self.content, self.relations) > MOST:
            raise ConfigError("model.content", f"more than {MOST:,} words", "Try 512.")
        if not 2 <= self.named <= min(self.content, 64):
            why = f"{self.named} is not from 2 to 64, or above the {self.content} words known"
            raise ConfigError("model.named", why, "Try 16 of 512.")
        most = self.named * (self.named - 1)
        if not 1 <= self.pairs <= most:
            why = f"{self.pairs} is not from 1 to the {most} pairs that {self.named} objects make"
            raise ConfigError("model.pairs", why, "Try 24 of 16 objects.")


class Found(NamedTuple):
    """What the heads found in B images; K named objects, A content words, M relations.

    Attributes:
        objects: (B, A) logits of each content word, whether it is an object of the image.
        named: (B, K) ids of the words of the named objects.
        attributes: (B, K, A) logits.
        relations: (B, K, K, M) logits of the first object's relation to the second.
    """

    objects: Tensor
    named: Tensor
    attributes: Tensor
    relations: Tensor


class UnitGraph(nn.Module):
    """From regions to visual semantic units."""

    content: Tensor  # (A,) int64, words that are known as objects and attributes
    relations: Tensor  # (M,) int64, words that are known as relations
    kinds: Tensor  # (V,) int64, `scene_words.kinds`

    def __init__(self, config: VsuaConfig, features: int, words: int) -> None:
        super().__init__()
        self.config = config
        width = config.width
        # Any words: `meet` puts the right ones in.
        ordinary = max(1, words - len(SPECIAL))
        for name, count in (("content", config.content), ("relations", config.relations)):
            known = [len(SPECIAL) + place % ordinary for place in range(count)]
            self.register_buffer(name, torch.tensor(known))
        self.register_buffer("kinds", torch.zeros(words, dtype=torch.int64))
        self.project = linear(features, width)
        self.codes: nn.Module | None = GridCodes() if config.grid else None
        self.names = linear(config.embedding, width, blocks=KINDS)  # of each kind, as a unit
        self.regions_norm = nn.LayerNorm(width)
        self.objects_norm = nn.LayerNorm(width)
        self.attributes_norm = nn.LayerNorm(width)
        self.relations_norm = nn.LayerNorm(width)
        self.dropout = nn.Dropout(config.dropout)
        self.object_scores = linear(width, config.content)
        self.attribute_scores = linear(width, config.content)
        self.ends = linear(width, config.attention, blocks=2)  # a pair's first and second object
        self.relation_scores = linear(config.attention, config.relations)
        # Heads begin with as many units as there are. From a half of all that are known, their
        # losses would be ten times that of the words.
        many = config.named / config.content
        for head, share in (
            (self.object_scores, min(many, 0.5)),
            (self.attribute_scores, RARE),
            (self.relation_scores, RARE),
        ):
            nn.init.constant_(head.bias, math.log(share / (1 - share)))
        self.of_attributes = linear(2 * width, width)
        self.of_relations = linear(3 * width, width)

    def meet(self, vocabulary: Vocabulary) -> None:
        """The most frequent words of each kind are known as units."""
        self.kinds.copy_(torch.tensor(scene_words.kinds(vocabulary)))
        for known, wanted in (
            (self.content, (CONTENT, PARTICIPLE)),  # "parked" is an attribute too
            (self.relations, (RELATION, PARTICIPLE)),
        ):
            words = scene_words.most_frequent(vocabulary, wanted, len(known))
            if words:
                known.copy_(torch.tensor(words))

    def forward(
        self, features: Tensor, mask: Tensor | None, embedding: nn.Embedding
    ) -> tuple[Tensor, Found]:
        """(B, R + 2K + P, D) regions, named objects, attributes, relations; and what was found."""
        kind = self.project.weight.dtype
        projected: Tensor = self.project(features.to(kind))
        regions = self.regions_norm(self.dropout(projected.relu()))  # (B, R, D)
        if self.codes is not None:
            regions = regions + self.codes(regions)
        table = self._names(embedding)
        objects, scores, chosen = self._objects(regions, mask, table[0])
        attributes, attribute_scores = self._attributes(objects, table[1])
        relations, relation_scores = self._relations(objects, table[2])
        units = torch.cat((regions, objects, attributes, relations), 1)
        return units, Found(scores, self.content[chosen], attribute_scores, relation_scores)

    def _names(self, embedding: nn.Embedding) -> list[Tensor]:
        """The words of each kind as units, (A, D), (A, D) and (M, D)."""
        blocks, biases = self.names.weight.chunk(KINDS), self.names.bias.chunk(KINDS)
        known = (self.content, self.content, self.relations)
        return [
            F.linear(embedding(words), block, bias)
            for words, block, bias in zip(known, blocks, biases, strict=True)
        ]

    def _objects(
        self, regions: Tensor, mask: Tensor | None, names: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """(B, K, D) named objects; (B, A) scores of all words; (B, K) which were chosen.

        A word is an object of the image if it is in any region; the named object is what is seen
        where the word scores highly, and the word as far as it is probable.
        """
        by_region: Tensor = self.object_scores(regions).float()  # (B, R, A)
        if mask is not None:
            by_region = by_region.masked_fill(~mask[..., None], -math.inf)
        scores = by_region.amax(1)
        likeliest = scores.topk(self.config.named)
        index = likeliest.indices[:, None].expand(-1, regions.shape[1], -1)
        places = by_region.gather(2, index).softmax(1)  # (B, R, K)
        seen = places.transpose(1, 2).to(regions.dtype) @ regions
        share = likeliest.values.sigmoid()[..., None].to(names.dtype)  # (B, K, 1)
        named = F.embedding(likeliest.indices, names) * share
        return self.objects_norm(seen + named), scores, likeliest.indices

    def _attributes(self, objects: Tensor, names: Tensor) -> tuple[Tensor, Tensor]:
        """(B, K, D) the attributes of each object as one unit, and (B, K, A) scores."""
        scores: Tensor = self.attribute_scores(objects).float()
        own = _mixed(scores, names)
        around: Tensor = self.of_attributes(torch.cat((objects, own.to(objects.dtype)), -1))
        return self.attributes_norm(own + self.dropout(around.relu())), scores

    def _relations(self, objects: Tensor, names: Tensor) -> tuple[Tensor, Tensor]:
        """(B, P, D) relations of the pairs that are likeliest related; (B, K, K, M) all scores."""
        count = objects.shape[1]
        first, second = self.ends(objects).chunk(2, -1)
        pairs = (first[:, :, None] + second[:, None]).relu()  # (B, K, K, H)
        scores: Tensor = self.relation_scores(pairs).float()
        itself = torch.eye(count, dtype=torch.bool, device=objects.device)
        related = scores.amax(-1).masked_fill(itself, -math.inf).flatten(1)  # (B, K*K)
        chosen = related.topk(self.config.pairs).indices  # (B, P)
        index = chosen[..., None].expand(-1, -1, scores.shape[-1])
        own = _mixed(scores.flatten(1, 2).gather(1, index), names)
        ends = [_pick(objects, place) for place in (chosen // count, chosen % count)]
        triple = torch.cat((ends[0], own.to(objects.dtype), ends[1]), -1)
        around: Tensor = self.of_relations(triple)
        return self.relations_norm(own + self.dropout(around.relu())), scores

    def losses(self, found: Found, words: Tensor) -> dict[str, Tensor]:
        """(B,) of each head: what it should have found, by the scene graph of captions (B, C, N).

        Attributes and relations are learnt of objects that the captions speak of: what they do not
        say of others is unknown.
        """
        scene = scene_words.parse(words, self.kinds)
        said = (scene.objects[:, None] == self.content[:, None]).any(-1)  # (B, A)
        own = found.named[..., None] == scene.objects[:, None]
        spoken = own.any(-1).float()  # (B, K)
        bears = found.named[..., None] == scene.bearers[:, None]  # (B, K, T)
        has = _said_of(bears, scene.attributes, self.content)
        first = found.named[..., None] == scene.subjects[:, None]
        second = found.named[..., None] == scene.targets[:, None]
        both = (first[:, :, None] & second[:, None]).flatten(1, 2)  # (B, K*K, T)
        related = _said_of(both, scene.relations, self.relations).view_as(found.relations)
        of_pair = spoken[:, :, None] * spoken[:, None]  # (B, K, K)
        count = self.config.named
        return {
            "objects": _bce(found.objects, said).sum(1) / count,
            "attributes": (_bce(found.attributes, has).sum(2) * spoken).sum(1) / count,
            "relations": (_bce(found.relations, related).sum(3) * of_pair).sum((1, 2)) / count,
        }


def _mixed(scores: Tensor, names: Tensor) -> Tensor:
    """(..., D) words by their scores (..., A), as far as the likeliest is probable."""
    share = scores.softmax(-1).to(names.dtype) @ names
    return share * scores.amax(-1, keepdim=True).sigmoid().to(share.dtype)


def _pick(objects: Tensor, places: Tensor) -> Tensor:
    """(B, P, D) the objects (B, K, D) at places (B, P).

    By a product: an index would add up their gradient in any order.
    """
    count = torch.arange(objects.shape[1], device=objects.device)
    return (places[..., None] == count).to(objects.dtype) @ objects


def _said_of(which: Tensor, said: Tensor, known: Tensor) -> Tensor:
    """(B, X, A) whether each known word (A,) is said (B, T) where `which` (B, X, T) is true."""
    words = said[..., None] == known  # (B, T, A)
    return (which.float() @ words.float()) > 0.5


def _bce(scores: Tensor, true: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(scores, true.float(), reduction="none")
