"""Sentences as rows of words, and where they end."""

from typing import NamedTuple

from torch import Tensor

from naic.text.vocabulary import PERIOD


class Said(NamedTuple):
    """Sentences, and how sure the captioner was of each word.

    Attributes:
        words: (..., N) int64; PAD after the period.
        log_probs: (..., N) of the policy that picked the words; 0 after the period.
    """

    words: Tensor
    log_probs: Tensor


def spoken(words: Tensor) -> Tensor:
    """(..., N) True for the words of the sentence: up to its first period and with it."""
    period = words == PERIOD
    return period.cumsum(-1) - period.long() == 0
