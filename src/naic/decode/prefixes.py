"""Sentences of places that may be silent: connectionist temporal classification (CTC).

More places than words: each says a word, or nothing (the blank, here the period, which no place
needs else: a sentence ends where nothing more is said). What T places say is a path. Its sentence
is found by taking words that stand side by side and are the same for one word, and then leaving out
the blanks (Graves et al. 2006). So a word is said twice in a row only if there is a blank between.
A sentence has many paths; its probability is the sum of theirs.

Two ways from the places' probabilities to words: the sentence of the likeliest path, and a search
for the likeliest sentence, which adds up paths as it goes (prefix beam search, Graves et al. 2006,
Hannun et al. 2014). Neither waits for the host, and all shapes are fixed.

B images, T places, V words, N words of a sentence at most, W sentences that are followed.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from naic.decode.policy import likeliest
from naic.text.vocabulary import NEVER, PAD, PERIOD

BLANK = PERIOD
NONE = -1e9  # the logarithm of no probability: finite, so that sums and gradients of it are numbers


class Runs(NamedTuple):
    """The words of the likeliest paths.

    Attributes:
        words: (B, N, K) the likeliest words of each, best first, from where the word itself is the
            surest; after the last word the blank, and others that cannot be.
        log_probs: (B, N, K) theirs there; of the first blank that nothing more is said at all.
    """

    words: Tensor
    log_probs: Tensor


def collapse(log_probs: Tensor, length: int, choices: int) -> Runs:
    """The first N words of the likeliest path of places (B, T, V), each with K words to choose.

    No blank is among the choices of a word: it would be another sentence, with fewer words.
    """
    ids = torch.arange(log_probs.shape[-1], device=log_probs.device)
    silent = log_probs[..., BLANK]  # (B, T)
    choices = min(choices, len(ids) - len(NEVER) - 1)
    sure, words = likeliest(log_probs.masked_fill(ids == BLANK, -torch.inf), choices)
    path = torch.where(silent >= sure[..., 0], BLANK, words[..., 0])  # (B, T)
    speaks = path != BLANK
    before = torch.cat((torch.full_like(path[:, :1], BLANK), path[:, :-1]), 1)
    number = (speaks & (path != before)).long().cumsum(1) - 1  # of the word that a place says
    slots = torch.arange(length, device=path.device)[:, None]  # (N, 1)
    says = (number[:, None] == slots) & speaks[:, None]  # (B, N, T)
    surest = torch.where(says, sure[:, None, :, 0], -torch.inf).argmax(-1)  # (B, N)
    chosen = surest[..., None].expand(-1, -1, choices)
    words, sure = words.gather(1, chosen), sure.gather(1, chosen)  # (B, N, K)
    said = says.any(-1, keepdim=True)
    last = torch.where(speaks, torch.arange(path.shape[1], device=path.device), -1).amax(1)
    rest = torch.arange(path.shape[1], device=path.device) > last[:, None]
    end = torch.where(rest, silent, 0.0).sum(1)[:, None]  # (B, 1)
    first = slots[:, 0] == number.amax(1)[:, None] + 1  # (B, N)
    ends = torch.where(first, end, 0.0)[..., None]
    blanks = torch.cat((torch.full_like(words[..., :1], BLANK), words[..., 1:]), -1)
    nothing = torch.cat((ends, torch.full_like(sure[..., 1:], -torch.inf)), -1)
    return Runs(torch.where(said, words, blanks), torch.where(said, sure, nothing))


class Prefixes(NamedTuple):
    """W beginnings of sentences of each image, and the probabilities of their paths so far.

    Attributes:
        words: (B, W, N), PAD after the last word.
        counts: (B, W) how many words.
        silent: (B, W) the logarithm of the probability of the paths whose last place is a blank.
        spoken: (B, W) of those whose last place says the last word.
    """

    words: Tensor
    counts: Tensor
    silent: Tensor
    spoken: Tensor

    @property
    def total(self) -> Tensor:
        """(B, W) of all its paths."""
        return torch.logaddexp(self.silent, self.spoken)

    @property
    def last(self) -> Tensor:
        """(B, W) the last word; PAD if there is none."""
        found = self.words.gather(2, (self.counts - 1).clamp(min=0)[..., None])
        return found[..., 0]


@torch.no_grad()
def search(log_probs: Tensor, length: int, width: int) -> Prefixes:
    """The likeliest sentences of places (B, T, V), found by following W prefixes.

    Where there are fewer sentences than that, the rest have no probability.
    """
    batch, _, vocabulary = log_probs.shape
    device = log_probs.device
    ids = torch.arange(vocabulary, device=device)
    few = min(width + 1, vocabulary - len(NEVER) - 1)  # of which one may be the last word said
    sure, words = likeliest(log_probs.masked_fill(ids == BLANK, -torch.inf), few)  # (B, T, K)
    zeros = torch.zeros((batch, width), dtype=torch.long, device=device)
    silent = torch.full((batch, width), NONE, dtype=log_probs.dtype, device=device)
    spoken = silent.clone()
    silent[:, 0] = 0.0
    found = Prefixes(torch.full((batch, width, length), PAD, device=device), zeros, silent, spoken)
    places = (log_probs.clamp(min=NONE).unbind(1), words.unbind(1), sure.unbind(1))
    for own, likely, chance in zip(*places, strict=True):
        found = _further(found, own, likely, chance)
    return found


def _further(now: Prefixes, own: Tensor, likely: Tensor, chance: Tensor) -> Prefixes:
    """The prefixes after one more place.

    Args:
        now: those before it.
        own: (B, V) the place's log-probabilities.
        likely: (B, K) its likeliest words, without the blank.
        chance: (B, K) theirs.
    """
    width, total, last = now.counts.shape[1], now.total, now.last
    again = own.gather(1, last)  # (B, W) of the last word
    silent = total + own[:, BLANK, None]
    spoken = now.spoken + again  # the same word, no blank between: still one word
    longer = _longer(now)  # (B, W, W)
    # A prefix that is followed may also come of another one, by its last word.
    same = last[:, None] == last[..., None]
    comes = torch.where(same, now.silent[..., None], total[..., None]) + again[:, None]
    comes = torch.where(longer, comes, NONE).amax(1)  # (B, W), there is no more than one
    spoken = torch.logaddexp(spoken, comes)
    # And what is new: each prefix, and one more word. After the same word only if it was silent.
    same = last[..., None] == likely[:, None]  # (B, W, K)
    new = torch.where(same, now.silent[..., None], total[..., None]) + chance[:, None]
    there = (longer[..., None] & (last[:, None, :, None] == likely[:, None, None])).any(2)
    full = now.counts == now.words.shape[2]
    new = new.masked_fill(there | full[..., None], NONE)
    both = torch.cat((torch.logaddexp(silent, spoken), new.flatten(1)), 1)  # (B, W + W·K)
    best, chosen = both.topk(width)
    grows = chosen >= width
    parents = torch.where(grows, (chosen - width) // likely.shape[1], chosen)
    word = likely.gather(1, ((chosen - width) % likely.shape[1]))
    count = now.counts.gather(1, parents)
    words = now.words.gather(1, parents[..., None].expand_as(now.words))
    at = torch.arange(words.shape[2], device=words.device) == count[..., None]  # (B, W, N)
    words = torch.where(at & grows[..., None], word[..., None], words)
    return Prefixes(
        words,
        (count + grows.long()).clamp(max=words.shape[2]),  # one that cannot be has no room
        torch.where(grows, NONE, silent.gather(1, parents)).clamp(min=NONE),
        torch.where(grows, best, spoken.gather(1, parents)).clamp(min=NONE),
    )


def _longer(now: Prefixes) -> Tensor:
    """(B, W, W) whether prefix j is prefix i and one more word; of those that have a path."""
    places = torch.arange(now.words.shape[2], device=now.words.device)
    shorter = now.words.masked_fill(places == (now.counts - 1)[..., None], PAD)  # (B, W, N)
    alive = now.total > NONE / 2
    same = (now.words[:, :, None] == shorter[:, None]).all(-1)  # (B, W, W)
    grown = (now.counts > 0) & alive
    return same & alive[..., None] & grown[:, None]
