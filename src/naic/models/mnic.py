"""MNIC: captions in a few parallel passes, from nothing but masks to all words.

Masked Non-autoregressive Image Captioning (Gao et al. 2019): the network learns to say the words of
a caption that are masked, by the image and by those that are not, with some of them masked, or
all. It begins with masks alone; then the words that it was least sure of are masked again, fewer in
each pass, and said anew by the others. How many is the rule of mask-predict (Ghazvininejad et al.
2019): floor(L·(T − t)/T) of a sentence of L words after pass t of T.

What differs: the length is predicted first, from the image. A period is then no word that a place
could say, but what all places after the last word are told. Encoder and decoder are those of the
other captioners here, and not BERT. See docs/decisions/048-masked-captions.md.
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
from naic.models.contract import CaptionerSpec, Proposed
from naic.models.decoder import Decoder, Memory
from naic.models.layers import embedding, linear, mean_region
from naic.models.sizes import Sizes
from naic.models.transformer import Encoder
from naic.text.vocabulary import NEVER, PAD, PERIOD

MASK = PAD  # a word that is not told; its row of the embedding is the mask's
MOST_PASSES = 64
_NO_LENGTH = -100


@dataclass(frozen=True)
class MaskedConfig(Sizes):
    """The size of the captioner, and how often it goes over a caption.

    Attributes:
        passes: T, how often all places speak; 1: at once, as the paper's student.
    """

    passes: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.passes <= MOST_PASSES:
            why = f"{self.passes} is not from 1 to {MOST_PASSES}"
            raise ConfigError("model.passes", why, "Try 4.")


class Filled(NamedTuple):
    """What the network says while it learns.

    Attributes:
        logits: (B, C, N, V) of the word at each place.
        lengths: (B, N) of a sentence of 1, 2, ... N words, its period not counted.
    """

    logits: Tensor
    lengths: Tensor


class MaskedCaptioner(nn.Module):
    """Features of an image and some words of its caption in, scores of all words out.

    Attributes:
        config: its size.
        length: N, the places.
        words: V, the size of the vocabulary.
    """

    def __init__(self, config: MaskedConfig, features: int, words: int) -> None:
        super().__init__()
        self.config = config
        self.length = config.length
        self.words = words
        self.encoder = Encoder(config.transformer, features)
        self.decoder = Decoder(config.transformer, words, causal=False)
        self.embedding = embedding(words, config.width)
        self.lengths = linear(config.width, config.length)

    def forward(
        self,
        features: Tensor,
        mask: Tensor | None = None,
        words: Tensor | None = None,
        shown: Tensor | None = None,
    ) -> Tensor | Filled:
        """Logits (B, 1, N, V) of the first pass, in which all words are masked.

        Args:
            features: (B, R, F), any kind of float.
            mask: (B, R), True for a real region; None when all are.
            words: makes no difference; other captioners are given captions here.
            shown: (B, C, N) int64, while it learns: words that are told, MASK for those to be said
                and PERIOD after the last one. What it then gives is `Filled`.
        """
        memory, lengths = self.look(features, mask)
        if shown is None:
            empty, _ = self.begin(lengths)
            return self.fill(memory, empty[:, None])
        return Filled(self.fill(memory, shown), lengths)

    def look(self, features: Tensor, mask: Tensor | None = None) -> tuple[Memory, Tensor]:
        """What the decoder needs to know of the images, and the logits (B, N) of their lengths."""
        encoded, blocked = self.encoder(features, mask)  # (B, R, D)
        mean = mean_region(encoded, mask, self.lengths.weight)
        lengths: Tensor = self.lengths(mean)
        return self.decoder.remember(encoded, blocked), lengths

    def begin(self, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """(B, N) masks alone, up to the likeliest of the lengths (B, N); and that length (B,)."""
        length = lengths.argmax(-1) + 1
        after = torch.arange(self.length, device=lengths.device) >= length[:, None]
        return torch.where(after, PERIOD, MASK), length

    def fill(self, memory: Memory, shown: Tensor) -> Tensor:
        """(B, C, N, V) logits of each place, given what is shown of C captions (B, C, N)."""
        told = self.embedding(shown) * math.sqrt(self.config.width)
        said = self.decoder.speak(told + self.decoder.positions, memory)
        assert isinstance(said, Tensor)  # no transitions
        return said

    def say(self, memory: Memory, shown: Tensor, choices: int) -> tuple[Tensor, Tensor]:
        """The likeliest words of each place and their log-probabilities (B, N, K), by one pass.

        The period is none of them, whatever its logit: it is told, `shown` (B, N), and not said.
        """
        logits = self.fill(memory, shown[:, None])[:, 0]
        period = torch.arange(self.words, device=shown.device) == PERIOD
        choices = min(choices, self.words - len(NEVER) - 1)
        return parallel(logits.masked_fill(period, -math.inf), choices)


def ranks(values: Tensor) -> Tensor:
    """(..., N) the place of each value in their order, the smallest first; of equals the first.

    By comparing all with all: N is small, and unlike a sort this is the same on every device.
    """
    places = torch.arange(values.shape[-1], device=values.device)
    other, own = values[..., None, :], values[..., :, None]
    before = (other < own) | ((other == own) & (places < places[:, None]))
    return before.sum(-1)


def hide(words: Tensor) -> tuple[Tensor, Tensor]:
    """What is shown of captions (B, C, N), and what is to be said (PAD: nothing), by chance.

    Of a caption with n words from 1 to n are masked, each number as likely as the others, and
    which ones is by chance, too. Its period is told: the length is learnt by itself.
    """
    spoken = (words != PAD) & (words != PERIOD)
    count = spoken.sum(-1, keepdim=True)  # (B, C, 1)
    share = torch.rand(count.shape, device=words.device)
    masked = (1 + (share * count).floor()).minimum(count)  # 1.0 can come of 0.99999999 · n
    order = torch.rand(words.shape, device=words.device).masked_fill(~spoken, 2.0)
    hidden = spoken & (ranks(order) < masked)
    shown = words.masked_fill(hidden, MASK).masked_fill(~spoken, PERIOD)
    return shown, words.masked_fill(~hidden, PAD)


def _losses(
    model: nn.Module,
    features: Tensor,
    mask: Tensor | None,
    words: Tensor,
    cross_entropy: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    """The masked words, and the length of each caption, which counts as one word more.

    The loss of a masked word grows by as much as others are told: the mean over the masked words of
    this batch takes the place of the mean over all.
    """
    shown, targets = hide(words)
    said = model(features, mask, shown=shown)
    spoken = ((words != PAD) & (words != PERIOD)).sum(-1)  # (B, C)
    share = spoken.sum() / (targets != PAD).sum().clamp(min=1)
    lengths = torch.where(spoken > 0, spoken - 1, _NO_LENGTH)
    likely = said.lengths.float()[:, None].expand(-1, words.shape[1], -1)  # (B, C, N)
    length = F.cross_entropy(
        likely.flatten(0, 1), lengths.flatten(), ignore_index=_NO_LENGTH, reduction="sum"
    )
    return {"words": cross_entropy(said.logits, targets) * share, "length": length}


@torch.no_grad()
def _propose(
    model: MaskedCaptioner, features: Tensor, mask: Tensor | None, choices: int
) -> Proposed:
    """The words of the last pass (B, N, K); a place keeps those of the pass it was last masked in.

    The log-probability of the period is that of the length, and nothing else may stand there.
    """
    memory, lengths = model.look(features, mask)
    shown, length = model.begin(lengths)  # (B, N), (B,)
    after, passes = shown == PERIOD, model.config.passes
    words, log_probs = model.say(memory, shown, choices)
    for past in range(1, passes):
        sure = log_probs[..., 0].masked_fill(after, math.inf)
        hidden = (ranks(sure) < (length * (passes - past) // passes)[:, None])[..., None]
        told = words[..., 0].masked_fill(hidden[..., 0], MASK).masked_fill(after, PERIOD)
        again, surer = model.say(memory, told, choices)
        words = torch.where(hidden, again, words)
        log_probs = torch.where(hidden, surer, log_probs)
    first = torch.arange(model.length, device=length.device) == length[:, None]
    likely = lengths.to(log_probs.dtype).log_softmax(-1).amax(-1, keepdim=True)  # (B, 1)
    end = torch.where(first, likely, 0.0)
    periods = torch.cat((torch.full_like(words[..., :1], PERIOD), words[..., 1:]), -1)
    ends = torch.cat((end[..., None], torch.full_like(log_probs[..., 1:], -math.inf)), -1)
    after = after[..., None]
    return Proposed(torch.where(after, periods, words), torch.where(after, ends, log_probs))


MNIC = CaptionerSpec(MaskedConfig, MaskedCaptioner, _propose, losses=_losses)
