"""A student that learns by connectionist temporal classification (CTC, Graves et al. 2006).

The paper's student has one agent for each word of a caption, and is taught each of them by itself:
an agent that is not sure whether "girl" is the second word or the third says it, and so does the
next one. Here are twice as many places as words, and a place may say nothing. Which places say the
words is left to them: what is learnt is the probability of the caption as a whole, summed over all
the ways to say it,

    log p(y) = log Σ_{paths z that collapse to y} Π_t π_t(z_t).

Collapsing (`decode/prefixes.py`) takes the same word said by places side by side for one word, and
leaves out the silent ones. One pass, and no word twice in a row by an agent's mistake: for that the
places would have to be silent in between.

Places are silent by saying the period, which they need for nothing else: the vocabulary and the
weights are the student's, so it can start from a teacher. See docs/decisions/063-ctc.md.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from naic.decode.policy import log_policy
from naic.decode.prefixes import BLANK, NONE, collapse, search
from naic.decode.stepwise import Beams, best_of
from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.contract import CaptionerSpec, Proposed
from naic.models.transformer import TransformerCaptioner
from naic.text.vocabulary import PAD, PERIOD

MOST = 16
SILENCE = -4.0  # of the blank's bias, before anything is learnt


@dataclass(frozen=True)
class PlacesConfig(TransformerConfig):
    """A Transformer's, and how many places there are.

    Attributes:
        places: For each word of a caption. From 2 on a caption of any words can be said, as between
            two that are the same there has to be a silent place.
    """

    places: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.places <= MOST:
            why = f"{self.places} is not from 2 to {MOST}"
            raise ConfigError("model.places", why, "Try 2: 32 places for 16 words.")
        if self.transitions:
            why = "a silent place between two words would keep them from hearing each other"
            raise ConfigError("model.transitions", why, "Set it to 0.")


class PlacesCaptioner(TransformerCaptioner):
    """The student with T = places · N agents, of which some are silent.

    Its `forward` gives logits (B, 1, T, V), one row for each place. `length` is N, the words of a
    caption at most.
    """

    config: PlacesConfig

    def __init__(self, config: PlacesConfig, features: int, words: int) -> None:
        places = replace(config, length=config.length * config.places)
        super().__init__(places, features, words, causal=False)
        self.config = config
        self.length = config.length
        # Most places are silent in the end, and silence is the first thing that is learnt. Words
        # are learnt sooner where it does not come first: see the decision.
        with torch.no_grad():
            self.decoder.output.bias[BLANK] = SILENCE


def log_likelihood(logits: Tensor, words: Tensor) -> Tensor:
    """(B, C) the log-probability of captions (B, C, N), summed over all their paths; float32.

    The forward recursion of Graves et al. with its two kinds of states apart: after
    place t, i words have been said, and t was silent; or t says the i-th word. Of tensors alone and
    of fixed shapes: torch's own loss brings the captions' lengths to the host.

    Args:
        logits: (B, T, V).
        words: (B, C, N), ended by PERIOD or PAD.
    """
    scores = logits.to(torch.promote_types(logits.dtype, torch.float32))
    normaliser = scores.logsumexp(-1, keepdim=True)  # (B, T, 1)
    said = (words != PAD) & (words != PERIOD)
    targets = words.where(said, BLANK)  # what is not said is not reached
    index = targets.flatten(1)[:, None].expand(-1, scores.shape[1], -1)  # (B, T, C·N)
    own = (scores.gather(-1, index) - normaliser).view(*scores.shape[:2], *words.shape[1:])
    blank = (scores[..., BLANK, None] - normaliser)[..., None]  # (B, T, 1, 1)
    fresh = F.pad(targets[..., 1:] != targets[..., :-1], (1, 0))  # (B, C, N) no blank is needed
    begin = own.new_zeros(*words.shape[:2], 1)
    silent = F.pad(begin, (0, words.shape[-1]), value=NONE)  # (B, C, N + 1) after 0 to N words
    spoken = torch.full_like(own[:, 0], NONE)  # (B, C, N)
    for word, nothing in zip(own.unbind(1), blank.unbind(1), strict=True):
        after = F.pad(spoken, (1, 0), value=NONE)  # (B, C, N + 1) after 0 to N words
        on = torch.logaddexp(silent[..., :-1], after[..., :-1].where(fresh, NONE))
        silent = torch.logaddexp(silent, after) + nothing
        spoken = torch.logaddexp(spoken, on) + word
    whole = torch.logaddexp(silent, F.pad(spoken, (1, 0), value=NONE))
    return whole.gather(-1, said.sum(-1, keepdim=True))[..., 0]


def _losses(
    model: nn.Module,
    features: Tensor,
    mask: Tensor | None,
    words: Tensor,
    cross_entropy: Callable[[Tensor, Tensor], Tensor],
) -> dict[str, Tensor]:
    """Minus the log-probability of each caption that there is."""
    found = log_likelihood(model(features, mask)[:, 0], words)  # (B, C)
    return {"words": -found.where(words[..., 0] != PAD, 0.0).sum()}


@torch.no_grad()
def _propose(
    model: PlacesCaptioner, features: Tensor, mask: Tensor | None, choices: int
) -> Proposed:
    """The words of the likeliest path, (B, N, K)."""
    return Proposed(*collapse(log_policy(model(features, mask)[:, 0]), model.length, choices))


@torch.no_grad()
def _beams(
    model: PlacesCaptioner, features: Tensor, mask: Tensor | None, width: int, keep: int
) -> Beams:
    """The likeliest of the sentences that a search by prefixes finds, by all their paths."""
    if not 0 < keep <= width:
        hint = "Give 0 < keep <= width."
        raise ConfigError("beam", f"width {width} and keep {keep} do not fit", hint)
    log_probs = log_policy(model(features, mask)[:, 0])  # (B, T, V)
    found = search(log_probs, model.length, width)
    places = torch.arange(model.length, device=found.counts.device)
    words = torch.where(places == found.counts[..., None], PERIOD, found.words)
    scores = log_likelihood(log_probs, words).where(found.total > NONE / 2, -torch.inf)
    scores, order = scores.topk(width)
    return best_of(words.gather(1, order[..., None].expand_as(words)), scores, keep)


CTC = CaptionerSpec(
    PlacesConfig,
    PlacesCaptioner,
    _propose,
    beams=_beams,
    losses=_losses,
    smooths=False,
    holds_backbone=True,
)
