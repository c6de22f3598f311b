"""What captions of agents that hear each other lose: the probability of the sentence as a whole."""

from torch import Tensor, cat

from naic.decode.policy import log_policy
from naic.models.chain import Chain, Transitions, log_normaliser
from naic.text.vocabulary import NEVER, PAD, PERIOD, UNK

_RULED_OUT = -1e9  # finite: its gradient is a number


def sentence_loss(
    transitions: Transitions, logits: Tensor, context: Tensor, words: Tensor
) -> Tensor:
    """-log p(caption) by the chain, summed over all captions; a caption that is not there has 0.

    The chain is over each agent's likeliest words, and a target that is not among them takes the
    place of the last. The sum over all sentences leaves out those of other words, so that this is
    a little less than what all words would have. The unknown word is never said: its place may
    hold any word but the period. Summed, not averaged: only the caller knows how many words all
    processes have together.

    Args:
        transitions: of the captioner.
        logits: (B, 1, N, V).
        context: (B, 1, N, r).
        words: (B, C, N) int64 captions, PAD after the period; all PAD: no caption.
    """
    captions = words.shape[1]
    log_probs = log_policy(logits[:, 0])  # (B, N, V)
    likely = log_probs.detach().topk(transitions.choices).indices  # (B, N, K)
    candidates = with_targets(likely, words)  # (B, C, N, K)
    # One gather for all captions: each by itself would have a gradient of B·C·N·V numbers.
    ids = candidates.transpose(1, 2).flatten(2)  # (B, N, C·K)
    scores = log_probs.gather(-1, ids).view(*likely.shape[:2], captions, -1).transpose(1, 2)
    heard = context[:, 0].repeat_interleave(captions, 0)  # (B·C, N, r)
    own = candidates.flatten(0, 1)  # (B·C, N, K)
    chain = Chain(own, scores.flatten(0, 1), transitions.pairs(own, heard))
    said = chain.scores.masked_fill(~_allowed(candidates, words).flatten(0, 1), _RULED_OUT)
    # Z and the part of it that is the caption, in one go.
    both = Chain(cat((own, own)), cat((chain.scores, said)), cat((chain.pairs, chain.pairs)))
    whole, part = log_normaliser(both).chunk(2)
    return (whole - part).sum()


def with_targets(likely: Tensor, words: Tensor) -> Tensor:
    """(B, C, N, K) candidates (B, N, K), best first, with the words (B, C, N) among them."""
    candidates = likely[:, None].expand(-1, words.shape[1], -1, -1)
    there = (candidates == words[..., None]).any(-1)  # (B, C, N)
    last = candidates[..., -1].where(there | _is_never(words), words)
    return cat((candidates[..., :-1], last[..., None]), -1)


def _is_never(words: Tensor) -> Tensor:
    return (words >= min(NEVER)) & (words <= max(NEVER))


def _allowed(candidates: Tensor, words: Tensor) -> Tensor:
    """(B, C, N, K) which candidates the caption can have there; after its period all."""
    targets = words[..., None]
    unknown = (targets == UNK) & (candidates != PERIOD)
    return (candidates == targets) | unknown | (targets == PAD)
