"""Writing sentences word by word, each word picked as it comes."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from naic.decode.said import Said
from naic.models.decoder import Memory
from naic.models.transformer import Captioner
from naic.text.vocabulary import BOS, PAD, PERIOD


def speak(
    model: Captioner,
    memory: Memory,
    width: int,
    policy: Callable[[Tensor], Tensor],
    pick: Callable[[Tensor], Tensor],
) -> Said:
    """`width` sentences for each image, (B, W, N), that do not know of each other.

    All N steps have the same shapes, and on a GPU nothing waits for the host, so that the whole
    can be captured in a CUDA graph. On a CPU looking is free, so it stops when all have ended.

    Args:
        model: a causal captioner.
        memory: the images.
        width: sentences for each image.
        policy: logits (B, W, V) to log-probabilities.
        pick: log-probabilities (B, W, V) to words (B, W).
    """
    batch, device = memory.keys.shape[1], memory.keys.device
    cache = model.empty_cache(memory, width)
    word = torch.full((batch, width), BOS, device=device)
    ended = torch.zeros((batch, width), dtype=torch.bool, device=device)
    words, log_probs = [], []
    for position in torch.arange(model.length, device=device).unbind(0):
        choices = policy(model.step(word, position, memory, cache))
        word = pick(choices)
        log_prob = choices.gather(-1, word[..., None])[..., 0]
        word = word.masked_fill(ended, PAD)
        words.append(word)
        log_probs.append(log_prob.masked_fill(ended, 0.0))
        ended = ended | (word == PERIOD)
        if may_look(device) and bool(ended.all()):
            break
    return Said(_fill(words, model.length, PAD), _fill(log_probs, model.length, 0.0))


def may_look(device: torch.device) -> bool:
    """Whether the host can look at a value at no cost."""
    return device.type == "cpu" and not torch.compiler.is_compiling()


def _fill(columns: list[Tensor], length: int, value: float) -> Tensor:
    """The columns (B, W) side by side, filled up to (B, W, length)."""
    stacked = torch.stack(columns, dim=-1)
    return F.pad(stacked, (0, length - len(columns)), value=value)
