"""SATIC, the semi-autoregressive Transformer of Zhou et al. (2021), as a captioner here.

A causal Transformer that writes k words a step in place of one: a sentence is a row of groups of k
words, each group is said at once, after hearing all groups before it. Three things are changed:

- the words are heard k places later, after k times BOS: place n hears word n - k;
- the causal mask is one of groups: place n hears places 0 to k·(⌊n / k⌋ + 1) - 1, those of its own
  group too, whose words are all of the group before;
- a step of writing puts the keys and values of k words into the cache, and gives the scores of the
  k words of the next group. A sentence of N words takes ⌈N / k⌉ steps.

With k = 1 it is the causal captioner, whose weights have the same names: it can start from a
teacher. The words of a group do not hear each other, so that their probabilities multiply, and
search and sampling, which go word by word, are those of the causal captioner: a word of a group is
taken from scores that are there already. See docs/decisions/062-satic.md.
"""

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor

from naic.errors import ConfigError
from naic.models.chain import ChainScores
from naic.models.config import TransformerConfig
from naic.models.decoder import Cache, Decoder, DecoderLayer, Memory
from naic.models.layers import additive
from naic.models.transformer import CAUSAL, TransformerCaptioner
from naic.models.writing import words_before
from naic.text.vocabulary import BOS, PAD

MOST = 64  # words a step: more are longer than any caption


@dataclass(frozen=True)
class GroupConfig(TransformerConfig):
    """A Transformer's, and how much of a sentence it says at once.

    Attributes:
        group: k, the words of a step; 1: word by word.
    """

    group: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.group <= MOST:
            why = f"{self.group} is not from 1 to {MOST}"
            raise ConfigError("model.group", why, "Try 2.")


@dataclass
class GroupCache:
    """What the decoder keeps of W sentences an image while it writes them, group by group.

    Attributes:
        own: keys and values, as the causal decoder keeps them.
        heard: (B, k, W) the last k words of each sentence, BOS at first.
        said: (B, k, W, V) the logits of the group that is being written; None before the first.
        turn: which word of its group comes next. A number, so that the host knows without asking
            the device; one of k, so that a compiled step is compiled k times and no more.
    """

    own: Cache
    heard: Tensor
    said: Tensor | None = None
    turn: int = 0


class GroupDecoder(Decoder):
    """A causal decoder whose words come in groups."""

    def __init__(self, config: TransformerConfig, words: int, *, causal: bool) -> None:
        assert isinstance(config, GroupConfig)
        self.group = config.group
        self.length = config.length  # N; the places, N', are those of whole groups
        places = -(-config.length // config.group) * config.group
        super().__init__(replace(config, length=places), words, causal=causal)

    def heard(self, memory: Memory, places: int) -> Tensor:
        """(N', N') to be added: 0 for places of the same group and of those before, else -inf."""
        groups = torch.arange(places, device=memory.device) // self.group
        return additive(groups <= groups[:, None], memory.keys.dtype)

    def _inputs(self, memory: Memory, words: Tensor | None) -> Tensor:
        """(B, C, N', D) what the first layer is given: the words k places before."""
        if words is None:
            raise ValueError("a captioner that writes group by group needs the words to say")
        whole = F.pad(words, (0, self.config.length - self.length), value=PAD)
        return self.embed(words_before(whole, self.group)) + self.positions

    def answer(self, x: Tensor) -> Tensor | ChainScores:
        """(B, C, N, V) what is said by the last layer's (B, C, N', D): a last group may be cut."""
        return super().answer(x[:, :, : self.length])

    def empty_cache(self, memory: Memory, width: int) -> GroupCache:  # type: ignore[override]
        """Room for `width` sentences an image, nothing said yet."""
        own = super().empty_cache(memory, width)
        heard = torch.full((memory.batch, self.group, width), BOS, device=memory.device)
        return GroupCache(own, heard)

    def step(  # type: ignore[override]  # its own kind of cache
        self, words: Tensor, position: Tensor, memory: Memory, cache: GroupCache
    ) -> Tensor:
        """(B, W, V) logits of word `position`, after hearing `words` (B, W), the words before it.

        The decoder works for the first word of each group. Writes into the cache.
        """
        cache.heard[:, cache.turn - 1] = words
        if cache.turn == 0:
            cache.said = self.speak_group(position, memory, cache)
        assert cache.said is not None
        said = cache.said[:, cache.turn]
        cache.turn = (cache.turn + 1) % self.group
        return said

    def speak_group(self, position: Tensor, memory: Memory, cache: GroupCache) -> Tensor:
        """(B, k, W, V) logits of the group that begins with word `position`.

        To the layers the k words of W sentences are one word of k·W sentences, which see each other
        where they belong to the same one.
        """
        group, (past, lineage) = self.group, cache.own
        layers, batch, length, width = past.shape[:4]
        slots = torch.arange(length, device=past.device)
        beams = torch.arange(width, device=past.device)
        own = lineage[..., None] == beams  # (B, W, N', W)
        seen = (own & (slots < position + group)[:, None]).flatten(2)  # (B, W, N'·W)
        visible = additive(seen.repeat(1, group, 1)[:, None], past.dtype)  # (B, 1, k·W, N'·W)
        past = past.view(layers, batch, length // group, group * width, *past.shape[4:])
        places = self.positions.view(-1, group, 1, self.config.width)
        number = position // group
        x = self.embed(cache.heard) + places.index_select(0, number.view(1))  # (B, k, W, D)
        x = self.dropout(x.flatten(1, 2))
        for layer, keys, values, before in zip(
            self.layers, memory.keys.unbind(0), memory.values.unbind(0), past.unbind(0), strict=True
        ):
            assert isinstance(layer, DecoderLayer)
            x = layer.step(x, keys, values, memory.mask, before, number, visible)
        scores: Tensor = self.output(self.norm(x))
        return scores.view(batch, group, width, -1)

    def follow(  # type: ignore[override]
        self, cache: GroupCache, parents: Tensor, position: Tensor
    ) -> GroupCache:
        """The cache when, after word `position`, sentence w goes on from sentence parents[b, w].

        What its group heard was written for all k words of it at once.
        """
        end = position - position % self.group + self.group - 1
        own = super().follow(cache.own, parents, end)
        chosen = parents[:, None].expand_as(cache.heard)
        heard, said = cache.heard.gather(2, chosen), cache.said
        if said is not None and cache.turn:  # there are more words of this group
            said = said.gather(2, chosen[..., None].expand_as(said))
        return GroupCache(own, heard, said, cache.turn)


class GroupCaptioner(TransformerCaptioner):
    """The causal captioner that writes group by group."""

    def __init__(self, config: GroupConfig, features: int, words: int) -> None:
        super().__init__(config, features, words, causal=True, decoder=GroupDecoder)


SATIC = replace(CAUSAL, config=GroupConfig, build=GroupCaptioner)
