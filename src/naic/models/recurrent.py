"""What captioners of LSTMs share: a step of an LSTM, what they keep of sentences, how they write.

B images, R regions of an image with F numbers each, W sentences an image that are being written, C
captions an image that are read, N words, D the width of an LSTM.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from naic.decode import stepwise
from naic.decode.stepwise import Beams, EncodedImages, Stepwise
from naic.errors import ConfigError
from naic.models.config import MOST
from naic.models.contract import Proposed
from naic.text.vocabulary import BOS

M = TypeVar("M", bound=EncodedImages)


class State(NamedTuple):
    """What an LSTM remembers.

    Attributes:
        hidden: (..., D) what it says of what it remembers.
        cell: (..., D) that itself.
    """

    hidden: Tensor
    cell: Tensor


class Cache(NamedTuple):
    """What a captioner of L LSTMs keeps of W sentences an image while it writes them.

    A sentence is remembered as a whole, and has no list of words to look back at: where a beam goes
    on twice its states are copied, which are no more numbers than the words of one step of a
    Transformer.

    Attributes:
        states: (2L, B, W, D) hidden and cell of each LSTM.
    """

    states: Tensor

    def follow(self, parents: Tensor) -> "Cache":
        """Sentence w goes on from sentence parents[b, w]."""
        chosen = parents[None, :, :, None].expand(*self.states.shape[:1], -1, -1, self.width)
        return Cache(self.states.gather(2, chosen))

    @property
    def width(self) -> int:
        """D."""
        return self.states.shape[-1]


def advance(gates: Tensor, cell: Tensor) -> State:
    """One step of an LSTM from its gates (..., 4D): what to let in, to keep, to add, to tell.

    In the cell's precision: under mixed precision the gates are bfloat16, and a cell adds up.
    """
    enter, keep, new, tell = gates.to(cell.dtype).chunk(4, dim=-1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return State(tell.sigmoid() * cell.tanh(), cell)


def words_before(words: Tensor) -> Tensor:
    """(..., N) the words before each of words (..., N): BOS, then all but the last."""
    return torch.cat((torch.full_like(words[..., :1], BOS), words[..., :-1]), dim=-1)


def mean_region(features: Tensor, mask: Tensor | None, weight: Tensor) -> Tensor:
    """(B, F) the mean of an image's real regions, in the precision of a weight.

    It is summed in float32 at least: features are float16, and there are many of them.

    Args:
        features: (B, R, F), any kind of float.
        mask: (B, R), True for a real region; None when all are.
        weight: of the layer that the mean is for.
    """
    kind = torch.promote_types(weight.dtype, torch.float32)
    if mask is None:
        return features.mean(1, dtype=kind).to(weight.dtype)
    real = features.masked_fill(~mask[..., None], 0.0).sum(1, dtype=kind)
    return (real / mask.sum(1, keepdim=True)).to(weight.dtype)


class Writer(Stepwise[M, Cache], Protocol[M]):
    """A captioner that writes word by word."""

    def encode(self, features: Tensor, mask: Tensor | None = None) -> M:
        """What it keeps of the images."""
        ...


@torch.no_grad()
def propose(model: Writer[M], features: Tensor, mask: Tensor | None, _: int) -> Proposed:
    """The sentence of each image, the likeliest word after the likeliest word: (B, N, 1)."""
    words, log_probs = stepwise.greedy(model, model.encode(features, mask))
    return Proposed(words[..., None], log_probs[..., None])


@torch.no_grad()
def beams(model: Writer[M], features: Tensor, mask: Tensor | None, width: int, keep: int) -> Beams:
    """The `keep` likeliest sentences that a beam of `width` finds."""
    return stepwise.beam_search(model, model.encode(features, mask), width, keep)


@torch.no_grad()
def sample(model: Writer[M], features: Tensor, mask: Tensor | None, samples: int) -> Tensor:
    """(B, S, N) sentences by chance."""
    return stepwise.sample(model, model.encode(features, mask), samples).words


def check_sizes(config: Any, names: Iterable[str]) -> None:  # noqa: ANN401 - any dataclass
    """Refuse sizes that cannot be, by their names in [model]; also its length and its dropout."""
    for name in (*names, "length"):
        value = getattr(config, name)
        if value < 1:
            raise ConfigError(f"model.{name}", f"{value} is below 1", "Give at least 1.")
    if config.length > MOST:
        raise ConfigError("model.length", f"{config.length} is above {MOST}", "Give fewer.")
    if not 0 <= config.dropout < 1:
        why = f"{config.dropout} is not from 0 to below 1"
        raise ConfigError("model.dropout", why, "Try 0.1.")
