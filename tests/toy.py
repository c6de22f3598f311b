"""All that a captioner is, as a plug-in: settings, a network, and how it is asked for words."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from naic.decode.policy import parallel
from naic.models.contract import CaptionerSpec, Proposed
from naic.text.vocabulary import NEVER


@dataclass(frozen=True)
class BagConfig:
    hidden: int = 32
    length: int = 12


class Bag(nn.Module):
    """Sees the mean of the regions and says each word by itself."""

    def __init__(self, config: BagConfig, features: int, words: int) -> None:
        super().__init__()
        self.length, self.words = config.length, words
        self.hidden = nn.Linear(features, config.hidden)
        self.output = nn.Linear(config.hidden, config.length * words)

    def forward(
        self, features: Tensor, mask: Tensor | None = None, words: Tensor | None = None
    ) -> Tensor:
        mean = features.to(self.hidden.weight.dtype).mean(1)
        logits: Tensor = self.output(self.hidden(mean).relu())
        return logits.view(-1, 1, self.length, self.words)


@torch.no_grad()
def propose(model: Bag, features: Tensor, mask: Tensor | None, choices: int) -> Proposed:
    logits = model(features, mask)[:, 0]
    return Proposed(*parallel(logits, min(choices, model.words - len(NEVER))))


CAPTIONERS = {"bag": CaptionerSpec(BagConfig, Bag, propose)}
