"""Greedy decoding: the likeliest word, then the likeliest word after it."""

import torch
from torch import Tensor

from naic.decode.policy import log_policy
from naic.decode.said import Said
from naic.decode.speak import speak
from naic.models.decoder import Memory
from naic.models.transformer import Captioner


@torch.no_grad()
def greedy(model: Captioner, memory: Memory) -> Said:
    """One sentence for each image: words (B, N), PAD after the period, and log-probabilities."""
    said = speak(model, memory, 1, log_policy, _likeliest)
    return Said(said.words[:, 0], said.log_probs[:, 0])


def _likeliest(log_probs: Tensor) -> Tensor:
    return log_probs.argmax(-1)
