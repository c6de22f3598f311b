"""NIC, "Show and Tell" (Vinyals et al. 2015; the second version of 2017): an LSTM told of an image.

The image is one vector, and the LSTM is given it once, as if it were the word before the first:

    x[-1] = W_image · CNN(image)        (eq. 10)
    x[t]  = W_words · S[t]              (eq. 11)   S[0] is BOS
    p[t+1] = softmax(LSTM(x[t]))        (eq. 12)

and the loss is -Σ log p[t](S[t]) (eq. 13). What differs from the papers: CNN(image) is the mean of
the features of an image's regions, made by a backbone that stays as it is; the LSTM squashes its
cell once more before it tells (eq. 8 has m = o · c, here o · tanh(c)), as those do that a GPU runs
in one kernel; the words are scored with a bias. There is no scheduled sampling and no ensemble
(docs/decisions/044).
"""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.models import writing
from naic.models.contract import CaptionerSpec
from naic.models.layers import WordScores, linear, mean_region
from naic.models.recurrent import Cache, State, advance, check_sizes
from naic.models.writing import words_before


@dataclass(frozen=True)
class NicConfig:
    """The size of a NIC captioner; the paper's unless told otherwise.

    Attributes:
        width: Numbers that stand for a word, and for the image, and that the LSTM remembers.
        dropout: Share of the numbers left out before and after the LSTM while training.
        length: Words of a caption at most, its period counted.
    """

    width: int = 512
    dropout: float = 0.3
    length: int = 16

    def __post_init__(self) -> None:
        check_sizes(self, ["width"])


class NicMemory(NamedTuple):
    """What is kept of B images: what the LSTM remembers once it was told of them.

    Attributes:
        state: hidden and cell, (B, D) each.
    """

    state: State

    @property
    def batch(self) -> int:
        """B, the images."""
        return self.state.cell.shape[0]

    @property
    def device(self) -> torch.device:
        """Where it is."""
        return self.state.cell.device


class NicDecoder(nn.Module):
    """The LSTM between what it is told and the scores of the words."""

    def __init__(self, config: NicConfig, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, config.width)
        self.lstm = nn.LSTM(config.width, config.width, batch_first=True)
        self.dropout = nn.Dropout(config.dropout)
        self.output: nn.Linear = WordScores(config.width, words)

    def forward(self, image: Tensor, words: Tensor) -> Tensor:
        """(B, C, N, V) logits of the captions (B, C, N) of images (B, D), by one call of the LSTM.

        In the weights' own precision: autocast would give a GPU's LSTM float16 even where bfloat16
        was asked for, in which gradients of this size vanish.
        """
        before: Tensor = self.embedding(words_before(words))  # (B, C, N, D)
        told = image[:, None, None].to(before.dtype).expand(-1, words.shape[1], 1, -1)
        x = self.dropout(torch.cat((told, before), dim=2)).flatten(0, 1)  # (B*C, N+1, D)
        with torch.autocast(x.device.type, enabled=False):
            remembered: Tensor = self.lstm(x)[0][:, 1:]
        scores: Tensor = self.output(self.dropout(remembered))
        return scores.view(*words.shape, -1)

    def train(self, mode: bool = True) -> Self:
        """Self-critical training wants gradients without dropout, in the mode of evaluation.

        The LSTM stays in that of training: it has no dropout, and a GPU's gives gradients in that
        mode only.
        """
        super().train(mode)
        self.lstm.train()
        return self

    def hear(self, x: Tensor, state: State) -> State:
        """What the LSTM remembers after one more x (..., D)."""
        ((enter, again, *biases),) = self.lstm.all_weights
        gates = F.linear(self.dropout(x), enter, biases[0])
        return advance(gates + F.linear(state.hidden, again, biases[1]), state.cell)


class Nic(nn.Module):
    """Features of an image in, scores of every word at each of N places out, word by word.

    Attributes:
        config: its size.
        length: N, the places.
        words: V, the size of the vocabulary.
    """

    def __init__(self, config: NicConfig, features: int, words: int) -> None:
        super().__init__()
        self.config = config
        self.length = config.length
        self.words = words
        self.image = linear(features, config.width)
        self.decoder = NicDecoder(config, words)

    def forward(
        self, features: Tensor, mask: Tensor | None = None, words: Tensor | None = None
    ) -> Tensor:
        """Logits (B, C, N, V) of each word of captions (B, C, N) after those before it."""
        if words is None:
            raise ValueError("a captioner that writes word by word needs the words to say")
        scores: Tensor = self.decoder(self._see(features, mask), words)
        return scores

    def encode(self, features: Tensor, mask: Tensor | None = None) -> NicMemory:
        """What is kept of images (B, R, F) whose real regions are True in the mask (B, R)."""
        image = self._see(features, mask)
        nothing = torch.zeros_like(image, dtype=self.image.weight.dtype)
        return NicMemory(self.decoder.hear(image, State(nothing, nothing)))

    def _see(self, features: Tensor, mask: Tensor | None) -> Tensor:
        """(B, D) the image as one vector."""
        seen: Tensor = self.image(mean_region(features, mask, self.image.weight))
        return seen

    def empty_cache(self, memory: NicMemory, width: int = 1) -> Cache:
        """Room for writing `width` sentences an image: all begin with what is known of it."""
        return Cache(torch.stack(memory.state)[:, :, None].repeat(1, 1, width, 1))

    def step(self, words: Tensor, position: Tensor, memory: NicMemory, cache: Cache) -> Tensor:
        """(B, W, V) logits of the next word, after hearing `words` (B, W); writes into the cache.

        An LSTM knows what it has heard: it needs neither the position nor the image again.
        """
        state = self.decoder.hear(self.decoder.embedding(words), State(*cache.states.unbind(0)))
        cache.states.copy_(torch.stack(state))
        scores: Tensor = self.decoder.output(self.decoder.dropout(state.hidden))
        return scores

    def follow(self, cache: Cache, parents: Tensor, position: Tensor) -> Cache:
        """The cache when, after word `position`, sentence w goes on from sentence parents[b, w]."""
        return cache.follow(parents)


NIC = CaptionerSpec(
    NicConfig,
    Nic,
    writing.propose,
    writing.beams,
    writing.sample,
    reads_words=True,
    one_pass=False,
)
