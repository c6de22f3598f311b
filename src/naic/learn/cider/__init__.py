"""CIDEr-D as a reward: references and df, on the host (numba) or on a device (torch)."""

from naic.learn.cider.judged import judged_only
from naic.learn.cider.references import References
from naic.learn.cider.rewards import Mix, Rewards, make_rewards

__all__ = ["Mix", "References", "Rewards", "judged_only", "make_rewards"]
