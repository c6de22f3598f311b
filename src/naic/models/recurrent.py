"""What captioners of LSTMs share: a step of an LSTM, and what they keep of sentences.

B images, W sentences an image that are being written, D the width of an LSTM.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from torch import Tensor

from naic.errors import ConfigError
from naic.models.config import MOST


class State(NamedTuple):
    """What an LSTM remembers.

    Attributes:
        hidden: (..., D) what it says of what it remembers.
        cell: (..., D) that itself.
    """

    hidden: Tensor
    cell: Tensor


class Cache(NamedTuple):
    """What a captioner of L LSTMs keeps of W sentences an image while it writes them.

    A sentence is remembered as a whole, and has no list of words to look back at: where a beam goes
    on twice its states are copied, which are no more numbers than the words of one step of a
    Transformer.

    Attributes:
        states: (2L, B, W, D) hidden and cell of each LSTM.
    """

    states: Tensor

    def follow(self, parents: Tensor) -> "Cache":
        """Sentence w goes on from sentence parents[b, w]."""
        chosen = parents[None, :, :, None].expand(*self.states.shape[:1], -1, -1, self.width)
        return Cache(self.states.gather(2, chosen))

    @property
    def width(self) -> int:
        """D."""
        return self.states.shape[-1]


def advance(gates: Tensor, cell: Tensor) -> State:
    """One step of an LSTM from its gates (..., 4D): what to let in, to keep, to add, to tell.

    In the cell's precision: under mixed precision the gates are bfloat16, and a cell adds up.
    """
    enter, keep, new, tell = gates.to(cell.dtype).chunk(4, dim=-1)
    cell = keep.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return State(tell.sigmoid() * cell.tanh(), cell)


def check_sizes(config: Any, names: Iterable[str]) -> None:  # noqa: ANN401 - any dataclass
    """Refuse sizes that cannot be, by their names in [model]; also its length and its dropout."""
    for name in (*names, "length"):
        value = getattr(config, name)
        if value < 1:
            raise ConfigError(f"model.{name}", f"{value} is below 1", "Give at least 1.")
    if config.length > MOST:
        raise ConfigError("model.length", f"{config.length} is above {MOST}", "Give fewer.")
    if not 0 <= config.dropout < 1:
        why = f"{config.dropout} is not from 0 to below 1"
        raise ConfigError("model.dropout", why, "Try 0.1.")
