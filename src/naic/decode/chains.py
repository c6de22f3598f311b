"""The probabilities of a chain: agents with learned transitions between neighbours.

A sentence y ends at its first period, or with the last agent. Its score is the sum of what its
agents give its words and of what neighbours give to pairs of them,

    s(y) = sum over n up to the end of log pi_n(y_n) + sum of pair_n(y_n, y_n+1),

over the K words of each agent, and p(y) = exp(s(y)) / Z, Z the sum over all such sentences. What
can come after a word depends on that word alone, so a sentence can be told from left to right:
p(y) is the product of p(y_n | y_n-1). These are what is computed here, once for all that is asked
of a chain: how sure it is of a word, of a sentence, of the first words of one, and which sentences
are the likeliest.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from naic.decode.decoding import IMPOSSIBLE, LogProbs, Words
from naic.text.vocabulary import PERIOD

Floats = npt.NDArray[np.float64]


# Sums of products of probabilities are as exact as sums of logarithms, and need a tenth of the
# calls; between these no term that counts is lost to the ends of what a float64 can hold.
LEAST, MOST = 1e-250, 1e30
LOUDEST = 60.0  # a pair that adds more could make much of a word whose probability is none here


def told(words: Words, log_probs: LogProbs, pairs: LogProbs) -> Floats:
    """(B, N, K, K) log p(agent n says its j-th word | the agent before said its i-th).

    The first agent hears nobody: its row is the same for all i. After a period nothing is said;
    what stands there is of no meaning.

    Args:
        words: (B, N, K) the words of each agent.
        log_probs: (B, N, K) what the agents themselves give them.
        pairs: (B, N-1, K, K) what the neighbours n and n+1 give to the pair (i, j).
    """
    own = _own(log_probs)
    own += _onward(words, own, pairs)
    scores = np.empty((*own.shape, own.shape[-1]))
    scores[:, 0] = own[:, 0, None]
    np.add(own[:, 1:, None], pairs, out=scores[:, 1:])
    return scores - _log_sum_exp(scores)[..., None]


def told_after(
    words: Words, log_probs: LogProbs, pairs: LogProbs, chosen: npt.NDArray[np.intp]
) -> Floats:
    """(B, N, K) of `told` what each agent says after the word that was chosen before it.

    Args:
        words: (B, N, K), as the next two an argument of `told`.
        log_probs: (B, N, K).
        pairs: (B, N-1, K, K).
        chosen: (B, N) places in K.
    """
    scores = _own(log_probs)
    scores += _onward(words, scores, pairs)
    rows, agents = np.arange(len(chosen))[:, None], np.arange(chosen.shape[1] - 1)
    scores[:, 1:] += pairs[rows, agents, chosen[:, :-1]]
    return scores - _log_sum_exp(scores)[..., None]


def _own(log_probs: LogProbs) -> Floats:
    own: Floats = np.maximum(log_probs, IMPOSSIBLE, dtype=np.float64)
    return own


def _onward(words: Words, own: Floats, pairs: LogProbs) -> Floats:
    """(B, N, K) the logarithm of all that can come after each word; 0 if it ends the sentence."""
    if pairs.max(initial=0.0) < LOUDEST:
        found = np.ones_like(own)
        # From the last agent on; after a period there is one way to go on: to stop.
        arrays = found, np.exp(own), np.exp(pairs, dtype=np.float64), words != PERIOD
        sums, said, ways, goes_on = (array.swapaxes(0, 1)[::-1] for array in arrays)
        steps = zip(sums, said, ways, sums[1:], goes_on[1:], strict=False)
        for after, own_said, way, before, onward in steps:
            np.copyto(before, (way @ (own_said * after)[..., None])[..., 0], where=onward)
        if found.min() > LEAST and found.max() < MOST:  # and no NaN
            logarithms: Floats = np.log(found)
            return logarithms
    return _onward_by_logarithms(words == PERIOD, own, pairs)


def _onward_by_logarithms(ended: npt.NDArray[np.bool_], own: Floats, pairs: LogProbs) -> Floats:
    """`_onward` of scores of any size."""
    found = np.zeros_like(own)
    for agent in range(own.shape[1] - 2, -1, -1):
        scores = (own[:, agent + 1] + found[:, agent + 1])[:, None] + pairs[:, agent]  # (B, K, K)
        found[:, agent] = np.where(ended[:, agent], 0.0, _log_sum_exp(scores))
    return found


def _log_sum_exp(scores: npt.NDArray[np.floating[Any]]) -> Floats:
    """Over the last axis; finite scores."""
    most = scores.max(-1)
    total: Floats = most + np.log(np.exp(scores - most[..., None]).sum(-1))
    return total
