"""The policy: what a captioner may say, and with which probability.

Words that are no words are ruled out here, in the one place that greedy decoding, sampling, beam
search and reinforcement learning share. Ruled out in the sampler alone, they would keep their
probability in the loss, and the gradient would be that of another policy.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from naic.errors import ConfigError
from naic.text.vocabulary import NEVER, PERIOD


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


PIECE, MOST_OF_A_PIECE = 256, 16  # words that are looked through together, and taken of them
FEW = 256  # rows; more of them keep a GPU busy by themselves


@torch.no_grad()
def parallel(logits: Tensor, choices: int = 1) -> tuple[Tensor, Tensor]:
    """The likeliest words of each agent, and their log-probabilities; best first.

    The sentence ends with the first period. The words after it are kept: they count if the period
    is replaced.

    Args:
        logits: (B, N, V).
        choices: K, how many words of each agent.

    Returns:
        words (B, N, K) int64, and log-probabilities (B, N, K).
    """
    most = logits.shape[-1] - len(NEVER)
    if not 1 <= choices <= most:
        raise ConfigError(
            "choices", f"{choices} is out of range", f"Give a number from 1 to {most}."
        )
    values, ids = likeliest(log_policy(logits), choices)
    return ids, values


def likeliest(log_probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` highest of (..., V) log-probabilities, best first, and their words."""
    if count == 1:
        best, word = log_probs.max(-1, keepdim=True)
        return best, word
    words = log_probs.shape[-1]
    few = words >= 2 * PIECE and log_probs.numel() <= FEW * words and count <= MOST_OF_A_PIECE
    if log_probs.is_cuda and few:
        return by_pieces(log_probs, count)
    values, ids = log_probs.topk(count, dim=-1)
    return values, ids


def by_pieces(log_probs: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The same, in two steps.

    On a GPU one block of threads looks through a whole row, and there are few rows: a vocabulary is
    cut in pieces that are looked through side by side, and then the best of these.
    """
    filled = F.pad(log_probs, (0, -log_probs.shape[-1] % PIECE), value=-math.inf)
    pieces = filled.view(*filled.shape[:-1], -1, PIECE)  # (..., V / P, P)
    best, places = pieces.topk(count, dim=-1, sorted=False)
    begins = torch.arange(0, filled.shape[-1], PIECE, device=log_probs.device)[:, None]
    values, chosen = best.flatten(-2).topk(count, dim=-1)
    return values, (places + begins).flatten(-2).gather(-1, chosen)
