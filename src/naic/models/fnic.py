"""FNIC: words found in an image are put in order by a small recurrent network, then said at once.

Fast Image Caption Generation with Position Alignment (Fei 2019). Three parts learn together:

- which words the image speaks of, a chance for each word of the vocabulary from the mean region;
- the order: at each place a recurrent network points at one of the words found, at the period, or
  at none of them, given what it pointed at before. That is the coarse caption;
- the fine caption: one parallel pass of the decoder over the coarse one, which fills what was left
  open and puts right what was wrong.

What differs: the words found are learnt from the captions and not a detector's, and one order is
tried, the likeliest at each step. See docs/decisions/049-ordered-words.md.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.decode.policy import parallel
from naic.errors import ConfigError
from naic.models.config import MOST
from naic.models.contract import CaptionerSpec, Proposed
from naic.models.decoder import Decoder, Memory
from naic.models.layers import embedding, linear, mean_region
from naic.models.sizes import Sizes
from naic.models.transformer import Encoder
from naic.models.writing import words_before
from naic.text.vocabulary import BOS, NEVER, PAD, PERIOD, SPECIAL

OPEN = PAD  # a place of the coarse caption that is left to the fine one
_NONE = -100  # no target


@dataclass(frozen=True)
class OrderedConfig(Sizes):
    """The size of the captioner, and of what puts words in order.

    Attributes:
        found: Words of an image that are put in order.
        order: Width of the recurrent network that does it.
    """

    found: int = 16
    order: int = 128

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("found", "order"):
            value = getattr(self, name)
            if not 1 <= value <= MOST:
                why = f"{value} is not from 1 to {MOST}"
                raise ConfigError(f"model.{name}", why, "Leave it out.")


class Seen(NamedTuple):
    """What is known of the images before a word is said.

    Attributes:
        memory: what the decoder needs.
        mean: (B, D) of the regions.
        found: (B, V) logits of each word being in a caption.
        slots: (B, M) what the recurrent network can point at: OPEN, PERIOD and the words found.
    """

    memory: Memory
    mean: Tensor
    found: Tensor
    slots: Tensor


class Ordered(NamedTuple):
    """What the network says while it learns.

    Attributes:
        logits: (B, C, N, V) of the fine captions.
        order: (B, C, N, M) of the slots.
        targets: (B, C, N) the slots that it was to point at; negative: there is none.
        found: (B, V) logits of each word being in a caption.
    """

    logits: Tensor
    order: Tensor
    targets: Tensor
    found: Tensor


class GatedUnit(nn.Module):
    """A gated recurrent unit (Cho et al. 2014), gates in torch's order.

    Written out of linear layers, which a CUDA graph, ONNX and packing know.
    """

    def __init__(self, width: int, size: int) -> None:
        super().__init__()
        self.hear = linear(width, size, blocks=3)
        self.keep = linear(size, size, blocks=3)

    def forward(self, heard: Tensor, state: Tensor) -> Tensor:
        """The next state (B, H), after `state` (B, H) and `hear` of what comes (B, 3H)."""
        reset, update, new = heard.chunk(3, -1)
        old_reset, old_update, old_new = self.keep(state).chunk(3, -1)
        candidate = (new + (reset + old_reset).sigmoid() * old_new).tanh()
        kept: Tensor = torch.lerp(candidate, state, (update + old_update).sigmoid())
        return kept


class OrderedCaptioner(nn.Module):
    """Features of an image in, scores of every word at each of N places out.

    Attributes:
        config: its size.
        length: N, the places.
        words: V, the size of the vocabulary.
    """

    def __init__(self, config: OrderedConfig, features: int, words: int) -> None:
        super().__init__()
        self.config = config
        self.length = config.length
        self.words = words
        self.encoder = Encoder(config.transformer, features)
        self.decoder = Decoder(config.transformer, words, causal=False)
        self.embedding = embedding(words, config.width)
        self.find = linear(config.width, words)
        # A caption has few of all words: at first each is as likely as that.
        nn.init.constant_(self.find.bias, -math.log(max(words / config.length, 1)))
        self.begin = linear(config.width, config.order)
        self.recall = GatedUnit(config.width, config.order)
        self.point = linear(config.order, config.width)

    def forward(
        self, features: Tensor, mask: Tensor | None = None, words: Tensor | None = None
    ) -> Tensor | Ordered:
        """Logits (B, 1, N, V) of the fine captions; with the captions to learn, `Ordered`.

        Args:
            features: (B, R, F), any kind of float.
            mask: (B, R), True for a real region; None when all are.
            words: (B, C, N) int64, the captions to be said, while it learns.
        """
        seen = self.look(features, mask)
        if words is None:
            return self.refine(seen.memory, self.arrange(seen)[:, None])
        targets = slots_of(words, seen.slots)
        order, coarse = self.follow(seen, targets)
        return Ordered(self.refine(seen.memory, coarse), order, targets, seen.found)

    def look(self, features: Tensor, mask: Tensor | None = None) -> Seen:
        """The regions, their mean and the words found there."""
        encoded, blocked = self.encoder(features, mask)  # (B, R, D)
        mean = mean_region(encoded, mask, self.find.weight)
        found: Tensor = self.find(mean)
        ordinary = found.detach()[:, len(SPECIAL) :]  # (B, V - 4)
        best = ordinary.topk(min(self.config.found, ordinary.shape[1])).indices + len(SPECIAL)
        always = [torch.full_like(best[:, :1], word) for word in (OPEN, PERIOD)]
        memory = self.decoder.remember(encoded, blocked)
        return Seen(memory, mean, found, torch.cat((*always, best), 1))

    def arrange(self, seen: Seen) -> Tensor:
        """(B, N) the coarse caption: at each place the likeliest slot, after those before it."""
        keys, state = self.embedding(seen.slots), self._state(seen.mean)
        word = torch.full_like(seen.slots[:, :1], BOS)  # (B, 1)
        coarse = []
        for _ in range(self.length):
            state = self.recall(self.recall.hear(self._heard(word[:, 0])), state)
            word = seen.slots.gather(1, self._scores(state[:, None], keys).argmax(-1))
            coarse.append(word)
        return ended(torch.cat(coarse, 1))

    def follow(self, seen: Seen, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Logits (B, C, N, M) of the slots after the right ones; and the words it would point at.

        The fine caption is learnt from these, mistakes and all: from the right words alone it would
        learn to repeat them.
        """
        batch, captions, length = targets.shape
        keys = self.embedding(seen.slots)
        pointed = targets.clamp(min=0).flatten(1)  # (B, C·N)
        right = seen.slots.gather(1, pointed).view(-1, length)  # (B·C, N)
        heard: Tensor = self.recall.hear(self._heard(words_before(right)))  # (B·C, N, 3H)
        states = [self._state(seen.mean).repeat_interleave(captions, 0)]
        for own in heard.unbind(1):
            states.append(self.recall(own, states[-1]))
        passed = torch.stack(states[1:], 1).view(batch, captions * length, -1)
        scores = self._scores(passed, keys)  # (B, C·N, M)
        said = seen.slots.gather(1, scores.argmax(-1)).view_as(targets)
        return scores.view(batch, captions, length, -1), ended(said)

    def refine(self, memory: Memory, coarse: Tensor) -> Tensor:
        """(B, C, N, V) logits of the fine captions over coarse ones (B, C, N)."""
        said = self.decoder.speak(self._heard(coarse) + self.decoder.positions, memory)
        assert isinstance(said, Tensor)  # no transitions
        return said

    def _heard(self, words: Tensor) -> Tensor:
        rows: Tensor = self.embedding(words)
        return rows * math.sqrt(self.config.width)

    def _state(self, mean: Tensor) -> Tensor:
        """(B, H) what the recurrent network begins with."""
        first: Tensor = self.begin(mean)
        return first.tanh()

    def _scores(self, heard: Tensor, keys: Tensor) -> Tensor:
        """(B, T, M) how well each slot (B, M, D) follows what was heard (B, T, H)."""
        query: Tensor = self.point(heard)
        return query @ keys.transpose(1, 2)


def ended(words: Tensor) -> Tensor:
    """(..., N) the same with nothing but periods from the first one on."""
    return words.masked_fill((words == PERIOD).long().cumsum(-1) > 0, PERIOD)


def slots_of(words: Tensor, slots: Tensor) -> Tensor:
    """(B, C, N) which of the slots (B, M) each word is: OPEN's if it was not found; PAD is none."""
    same = words[..., None] == slots[:, None, None]  # (B, C, N, M)
    return same.long().argmax(-1).masked_fill(words == PAD, _NONE)


def _losses(
    model: nn.Module,
    features: Tensor,
    mask: Tensor | None,
    words: Tensor,
    cross_entropy: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    """The fine captions, the order of the words found in them, and which words these are."""
    said = model(features, mask, words)
    order = F.cross_entropy(
        said.order.flatten(0, 2).float(),
        said.targets.flatten(),
        ignore_index=_NONE,
        reduction="sum",
    )
    there = torch.zeros_like(said.found, dtype=torch.float32).scatter_(1, words.flatten(1), 1.0)
    first = len(SPECIAL)
    found = F.binary_cross_entropy_with_logits(
        said.found[:, first:].float(), there[:, first:], reduction="sum"
    )
    return {"words": cross_entropy(said.logits, words), "order": order, "found": found}


@torch.no_grad()
def _propose(
    model: OrderedCaptioner, features: Tensor, mask: Tensor | None, choices: int
) -> Proposed:
    """The likeliest words of each place in the fine caption, (B, N, K)."""
    logits = model(features, mask)[:, 0]
    return Proposed(*parallel(logits, min(choices, model.words - len(NEVER))))


FNIC = CaptionerSpec(OrderedConfig, OrderedCaptioner, _propose, losses=_losses)
