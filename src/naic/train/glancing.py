"""Cross-entropy with a glance at the answer (xe.glance): agents learn to listen to each other.

Agents that all speak at once cannot know which of several good sentences the others are saying, and
cross-entropy teaches each of them alone. So some of them are told their word of the target, and the
others learn to go on from that (glancing, Qian et al. 2021). How many are told depends on how well
the agents do without: as they learn, they are shown less, until they speak as they will later, with
nothing shown at all.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from naic.decode.policy import log_policy
from naic.learn.losses import fill_periods
from naic.text.vocabulary import PAD
from naic.train.batches import Batch

if TYPE_CHECKING:
    from naic.train.tools import Logs, Tools


def glancing(model: nn.Module, batch: Batch, tools: "Tools") -> tuple[Tensor, "Logs"]:
    """Student cross-entropy (the paper's eq. 3) of the words that are not shown.

    The loss of a word that counts grows by as much as others are left out: the mean over the words
    of this batch that are not shown takes the place of the mean over all of them. Each part of a
    step, and each process, does so by itself.
    """
    xe = tools.settings.xe
    words = fill_periods(batch.words) if xe.fill else batch.words  # (B, C, N)
    with torch.no_grad():  # without its wrapper: there is no gradient that processes could share
        said = log_policy(tools.plain(batch.features, batch.mask)).argmax(-1)  # (B, 1, N)
        shown = choose_shown(said, words, xe.glance)  # (B, C, N)
    told, rest = words.masked_fill(~shown, PAD), words.masked_fill(shown, PAD)
    logits = model(batch.features, batch.mask, shown=told)  # (B, C, N, V)
    loss = tools.cross_entropy(logits, rest, smoothing=xe.smoothing)
    everything, counted = (words != PAD).sum(), (rest != PAD).sum()
    loss = loss * (everything / counted.clamp(min=1)) / batch.normaliser
    return loss, {"loss": loss.detach(), "shown": shown.sum().float() / batch.normaliser}


def choose_shown(said: Tensor, words: Tensor, share: float) -> Tensor:
    """(B, C, N) which words of each caption are shown: by chance, as many as the share demands.

    It is the share of the places where what the agents would say (B, 1, N) is not the target
    (B, C, N). Broken numbers are rounded up or down by chance, so that the mean is right.
    """
    target = words != PAD
    wrong = ((said != words) & target).sum(-1, keepdim=True)  # (B, C, 1)
    odds = torch.rand(wrong.shape, device=words.device)
    count = (share * wrong + odds).floor().minimum(wrong)  # 16 + 0.9999999 is 17 in float32
    order = torch.rand(words.shape, device=words.device).masked_fill(~target, 2.0)
    return order.argsort(-1).argsort(-1) < count  # the place of each word in a random order
