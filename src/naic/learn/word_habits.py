"""The habits of `metrics.habits`, counted in ids on the device while a captioner learns.

A reward can be had by bad habits; seen early, they say so before a validation does.
"""

import torch
from torch import Tensor

from naic.decode.policy import spoken
from naic.text.vocabulary import BAD_ENDINGS, PERIOD, Vocabulary


def bad_ending_table(vocabulary: Vocabulary, device: torch.device | str) -> Tensor:
    """(V,) True for the words that no sentence should end on."""
    bad = [word in BAD_ENDINGS for word in vocabulary.words]
    return torch.tensor(bad, device=device)


def repeats(words: Tensor) -> Tensor:
    """(...) whether a sentence of (..., N) has a word twice in a row ("a girl girl riding")."""
    twice = words[..., 1:] == words[..., :-1]
    return (twice & spoken(words)[..., 1:]).any(-1)


def bad_endings(words: Tensor, table: Tensor) -> Tensor:
    """(...) whether the last word of (..., N) is in the table; an empty sentence has none."""
    length = (spoken(words) & (words != PERIOD)).sum(-1, keepdim=True)
    # Of an empty sentence the first word is the period, which is in no table of words.
    last = words.gather(-1, (length - 1).clamp(min=0))[..., 0]
    return table[last]
