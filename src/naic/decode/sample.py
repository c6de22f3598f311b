"""Sampling: words by chance, as often as the policy says."""

import functools
import math

import torch
from torch import Tensor

from naic.decode.policy import log_policy
from naic.decode.said import Said
from naic.decode.speak import speak
from naic.errors import ConfigError
from naic.models.decoder import Memory
from naic.models.transformer import Captioner


@torch.no_grad()
def sample(
    model: Captioner,
    memory: Memory,
    samples: int = 1,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
) -> Said:
    """S sentences for each image: words (B, S, N), PAD after the period, and log-probabilities.

    The log-probabilities are those of the distribution that was sampled: tempered, cut to the
    `top_k` likeliest words (0: all), then to the fewest words that hold a share `top_p`.
    """
    _check(samples, temperature, top_k, top_p)
    policy = functools.partial(sharpen, temperature=temperature, top_k=top_k, top_p=top_p)
    return speak(model, memory, samples, policy, choose)


@torch.no_grad()
def choose(log_probs: Tensor) -> Tensor:
    """(...) a word drawn from each distribution (..., V).

    The largest of p / e, with e exponential noise, is word w with probability p(w). Unlike
    `torch.multinomial` this never waits for the host, so a CUDA graph can hold it.
    """
    noise = torch.empty_like(log_probs).exponential_()
    return (log_probs.exp() / noise).argmax(-1)


def sharpen(logits: Tensor, temperature: float = 1.0, top_k: int = 0, top_p: float = 1.0) -> Tensor:
    """(..., V) the log-policy, tempered and cut to its likeliest words; see `sample`."""
    log_probs = log_policy(logits / temperature)
    size = log_probs.shape[-1]
    if 0 < top_k < size:
        best, ids = log_probs.topk(top_k, dim=-1)
        log_probs = torch.full_like(log_probs, -math.inf).scatter(-1, ids, best).log_softmax(-1)
    if top_p < 1:
        falling, ids = log_probs.sort(dim=-1, descending=True)
        probs = falling.exp()
        before = probs.cumsum(-1) - probs  # the share held by likelier words: 0 for the first
        falling = falling.masked_fill(before >= top_p, -math.inf)
        log_probs = torch.empty_like(log_probs).scatter(-1, ids, falling).log_softmax(-1)
    return log_probs


def _check(samples: int, temperature: float, top_k: int, top_p: float) -> None:
    """Refuse what cannot be sampled from."""
    for name, value, good, hint in (
        ("samples", samples, samples >= 1, "Give at least 1."),
        ("temperature", temperature, 0 < temperature < math.inf, "Give a number above 0."),
        ("top_k", top_k, top_k >= 0, "Give 0 for all words, or how many."),
        ("top_p", top_p, 0 < top_p <= 1, "Give a share above 0, at most 1."),
    ):
        if not good:
            raise ConfigError(name, f"{value} is out of range", hint)
