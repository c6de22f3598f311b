"""From the sums over a sentence's n-grams to its reward."""

import numpy as np

from naic.learn.cider.numba_state import Sums, Tables, compiled
from naic.metrics.bleu import SMALL, TINY
from naic.metrics.ngrams import ORDERS


@compiled
def finish(length: int, image: int, tables: Tables, sums: Sums) -> float:
    """The reward of a sentence of so many words with these sums."""
    reward = 0.0
    if tables.mix[0] != 0:
        reward += tables.mix[0] * _cider(length, image, tables, sums)
    if tables.mix[1] != 0:
        reward += tables.mix[1] * _bleu(length, image, tables, sums)
    return reward


@compiled
def _cider(length: int, image: int, tables: Tables, sums: Sums) -> float:
    """CIDEr-D: the mean over orders and references of clipped cosines, shrunk by the length."""
    amount = tables.amounts[image]
    if amount == 0:
        return 0.0
    total = 0.0
    for n in range(ORDERS):
        if sums.norms[n] == 0:
            continue
        cosine = 0.0
        for r in range(amount):
            # The public code's length is the number of bigrams: no words and one word are alike.
            apart = abs(max(length, 1) - max(tables.lengths[image, r], 1))
            near = tables.penalties[apart] * tables.inverse_norms[image, r, n]
            cosine += sums.products[n, r] * near
        total += cosine / np.sqrt(sums.norms[n])
    return float(10.0 * total / (ORDERS * amount))


@compiled
def _bleu(length: int, image: int, tables: Tables, sums: Sums) -> float:
    """The public code's BLEU-4 of a sentence, its two small constants included."""
    if tables.amounts[image] == 0:
        return 0.0
    product = 1.0
    for n in range(ORDERS):
        product *= (sums.correct[n] + TINY) / (max(0, length - n) + SMALL)
    nearest = tables.lengths[image, 0]
    for r in range(1, tables.amounts[image]):
        other = tables.lengths[image, r]
        apart, best = abs(other - length), abs(nearest - length)
        if apart < best or (apart == best and other < nearest):
            nearest = other
    ratio = (length + TINY) / (nearest + SMALL)
    brevity = np.exp(1 - 1 / ratio) if ratio < 1 else 1.0
    return float(product**0.25 * brevity)
