"""A penalty in the reward for sentences that end on a word no sentence should end on.

CIDEr-D and BLEU hardly mind "a man riding a wave on a": a loose end is one n-gram of many. It is
taken from the reward itself and not added to the loss, so that what an agent's word was worth has
it too: the agent that said the last word, and the one whose period let it be the last.
"""

import torch
from torch import Tensor

from naic.learn.cider import Rewards
from naic.learn.losses import bad_endings


class LooseEnds(Rewards):
    """Other rewards, less `weight` where a sentence has a loose end; see `Rewards`.

    The same sentence is worth the same to the bit, replaced or as it is. An image without
    references still has no reward, whatever is said of it. Nothing waits for the host.
    """

    def __init__(self, rewards: Rewards, table: Tensor, weight: float) -> None:
        """`table` (V,) is true for these words (`losses.bad_ending_table`)."""
        self._rewards = rewards
        self._table = table
        self._weight = weight

    def score(self, words: Tensor, image_index: Tensor) -> Tensor:
        """(B,) the rewards of the captions."""
        reward = self._rewards.score(words, image_index)
        return reward - self._penalty(words, image_index)

    def judge(
        self, words: Tensor, alternatives: Tensor, image_index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`score` and `counterfactual` in one pass."""
        reward, outcomes = self._rewards.judge(words, alternatives, image_index)
        reward = reward - self._penalty(words, image_index)
        return reward, outcomes - self._penalty(replaced(words, alternatives), image_index)

    def judges(self, image_index: Tensor) -> Tensor:
        """(B,) whether there is a reference to compare with."""
        return self._rewards.judges(image_index)

    def _penalty(self, words: Tensor, image_index: Tensor) -> Tensor:
        """(B, ...) of sentences (B, ..., N)."""
        judged = self.judges(image_index).view(-1, *[1] * (words.dim() - 2))
        return (bad_endings(words, self._table) & judged).double() * self._weight


def replaced(words: Tensor, alternatives: Tensor) -> Tensor:
    """(B, N, k, N) the sentences (B, N) with the word of one agent replaced by one of (B, N, k)."""
    own = torch.eye(words.shape[1], dtype=torch.bool, device=words.device)[:, None]  # (N, 1, N)
    return torch.where(own, alternatives[..., None], words[:, None, None])
