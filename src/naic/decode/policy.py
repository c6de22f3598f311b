"""The policy: what a captioner may say, and with which probability.

Words that are no words are ruled out here, in the one place that greedy decoding, sampling, beam
search and reinforcement learning share. Ruled out in the sampler alone, they would keep their
probability in the loss, and the gradient would be that of another policy.
"""

import math

import torch
from torch import Tensor

from naic.text.vocabulary import NEVER, PERIOD

__all__ = ["NEVER", "choose", "log_policy", "spoken"]


def log_policy(logits: Tensor) -> Tensor:
    """(..., V) log-probabilities, at least float32; -inf, without a gradient, for NEVER."""
    first, last = min(NEVER), max(NEVER)
    kind = torch.promote_types(logits.dtype, torch.float32)
    if logits.is_cuda and not torch.is_grad_enabled() and not torch.compiler.is_compiling():
        # The same in fewer kernels, each of which takes longer to start than to run.
        wide = logits.to(kind, copy=True)
        wide[..., first : last + 1].fill_(-math.inf)
        return wide.log_softmax(-1)
    # Made on the device: a list of ids would have to be brought there, and be waited for.
    ids = torch.arange(logits.shape[-1], device=logits.device)
    never = (ids >= first) & (ids <= last)
    return logits.to(kind).masked_fill(never, -math.inf).log_softmax(-1)


@torch.no_grad()
def choose(log_probs: Tensor) -> Tensor:
    """(...) a word drawn from each distribution (..., V).

    The largest of p / e, with e exponential noise, is word w with probability p(w). Unlike
    `torch.multinomial` this never waits for the host, so a CUDA graph can hold it.
    """
    noise = torch.empty_like(log_probs).exponential_()
    return (log_probs.exp() / noise).argmax(-1)


def spoken(words: Tensor) -> Tensor:
    """(..., N) True for the words of the sentence: up to its first period and with it."""
    period = words == PERIOD
    return period.cumsum(-1) - period.long() == 0
