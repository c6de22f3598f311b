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


def told(words: Words, log_probs: LogProbs, pairs: LogProbs) -> Floats:
    """(B, N, K, K) log p(agent n says its j-th word | the agent before said its i-th).

    The first agent hears nobody: its row is the same for all i. After a period nothing is said;
    what stands there is of no meaning.

    Args:
        words: (B, N, K) the words of each agent.
        log_probs: (B, N, K) what the agents themselves give them.
        pairs: (B, N-1, K, K) what the neighbours n and n+1 give to the pair (i, j).
    """
    batch, agents, choices = words.shape
    own = np.maximum(log_probs.astype(np.float64), IMPOSSIBLE)
    found = np.empty((batch, agents, choices, choices))
    onward = np.zeros((batch, choices))  # the logarithm of all that can come after each word
    for agent in range(agents - 1, -1, -1):
        scores = (own[:, agent] + onward)[:, None, :]  # (B, 1, K)
        if agent:
            scores = scores + pairs[:, agent - 1]  # (B, K, K)
        every = _log_sum_exp(scores)  # (B, K or 1)
        found[:, agent] = scores - every[..., None]
        if agent:
            onward = np.where(words[:, agent - 1] == PERIOD, 0.0, every)
    return found


def _log_sum_exp(scores: npt.NDArray[np.floating[Any]]) -> Floats:
    """Over the last axis; finite scores."""
    most = scores.max(-1)
    total: Floats = most + np.log(np.exp(scores - most[..., None]).sum(-1))
    return total
