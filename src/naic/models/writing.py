"""How captioners that write word by word are asked for words, whatever network they are.

B images, R regions, N words, S samples.
"""

from typing import TYPE_CHECKING, Protocol, TypeVar

import torch
from torch import Tensor

from naic.decode import stepwise
from naic.decode.stepwise import Beams, EncodedImages, Stepwise
from naic.models.contract import Proposed
from naic.text.vocabulary import BOS

M = TypeVar("M", bound=EncodedImages)
C = TypeVar("C")

if TYPE_CHECKING:

    class Writer(Stepwise[M, C], Protocol[M, C]):
        """A captioner that writes word by word."""

        def encode(self, features: Tensor, mask: Tensor | None = None) -> M:
            """What it keeps of the images."""
            ...


@torch.no_grad()
def propose(model: "Writer[M, C]", features: Tensor, mask: Tensor | None, _: int) -> Proposed:
    """The sentence of each image, the likeliest word after the likeliest word: (B, N, 1)."""
    words, log_probs = stepwise.greedy(model, model.encode(features, mask))
    return Proposed(words[..., None], log_probs[..., None])


@torch.no_grad()
def beams(
    model: "Writer[M, C]", features: Tensor, mask: Tensor | None, width: int, keep: int
) -> Beams:
    """The `keep` likeliest sentences that a beam of `width` finds."""
    return stepwise.beam_search(model, model.encode(features, mask), width, keep)


@torch.no_grad()
def sample(model: "Writer[M, C]", features: Tensor, mask: Tensor | None, samples: int) -> Tensor:
    """(B, S, N) sentences by chance."""
    return stepwise.sample(model, model.encode(features, mask), samples).words


def words_before(words: Tensor, places: int = 1) -> Tensor:
    """(..., N) the words so many places before each of words (..., N); BOS where there is none."""
    return torch.cat((torch.full_like(words[..., :places], BOS), words[..., :-places]), dim=-1)
