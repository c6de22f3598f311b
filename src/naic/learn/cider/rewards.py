"""The reward of a caption, CIDEr-D in word ids, and what it would be with one word replaced.

The period is a word here, in captions, references and df alike: without it one caption in three
learns to end in "with a". Both forms below are exact and give the public code's values: `numba`
for a CPU, and `torch` for any device, which never waits for the host and can be captured in a CUDA
graph or compiled.
"""

import copy
import importlib.util
import math
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from naic.errors import ConfigError, MissingExtraError
from naic.learn.cider.references import References

if TYPE_CHECKING:
    from naic.learn.cider.torch_rewards import Pattern

_CPU = torch.device("cpu")
Ints = npt.NDArray[np.int64]
SENTENCES_AT_ONCE = 2048  # on a CPU: more would not fit its cache


@dataclass(frozen=True, slots=True)
class Mix:
    """How much each score counts in the reward.

    CIDEr-D is on the public scale, 0 to 10; BLEU-4, of one sentence, is 0 to 1.
    """

    cider: float = 1.0
    bleu4: float = 0.0

    def __post_init__(self) -> None:
        if not (min(self.cider, self.bleu4) >= 0 and 0 < self.cider + self.bleu4 < math.inf):
            raise ConfigError(
                "reward",
                f"cider {self.cider} and bleu4 {self.bleu4} make no reward",
                "Give weights of at least 0, one of them above it.",
            )


class Rewards(Protocol):
    """Scores captions of images given by their row among the references.

    `words` are (B, N) int64 ids; a sentence ends with its first period (id 0), or with the row.
    `image_index` is (B,) int64. Rewards are float64. An image without references scores 0.
    """

    def score(self, words: Tensor, image_index: Tensor) -> Tensor:
        """(B,) the rewards of the captions."""
        ...

    def counterfactual(self, words: Tensor, alternatives: Tensor, image_index: Tensor) -> Tensor:
        """(B, N, k) the rewards with the word of one agent replaced by one of its alternatives.

        Where that leaves the sentence as it is, because the word is the same or comes after the
        period, the reward is that of `score`, bit for bit, if both run the same way (compiled code
        adds up in another order than eager code). Words after the period count once the period
        itself is replaced.
        """
        return self.judge(words, alternatives, image_index)[1]

    def judge(
        self, words: Tensor, alternatives: Tensor, image_index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`score` and `counterfactual` in one pass."""
        ...

    def judges(self, image_index: Tensor) -> Tensor:
        """(B,) whether an image has a reference; one without scores 0 whatever is said of it."""
        ...


def make_rewards(
    references: References,
    device: torch.device | str,
    mix: Mix | None = None,
    form: Literal["auto", "numba", "torch"] = "auto",
    *,
    compiled: bool = False,
) -> Rewards:
    """The fastest form for the device: numba on a CPU, where it is installed, else torch.

    numba compiles at the first call, which takes some twenty seconds once for each installation.
    `compiled` puts the torch form through torch.compile: a quarter of the time in a CUDA graph.
    """
    device = torch.device(device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError("rewards", "there is no CUDA device here", 'Choose the device "cpu".')
    mix = mix or Mix()
    if form == "auto":
        installed = importlib.util.find_spec("numba") is not None
        form = "numba" if device.type == "cpu" and installed else "torch"
    if form not in ("numba", "torch"):
        raise ConfigError("rewards", f"there is no form {form!r}", "Choose auto, numba or torch.")
    if form == "torch":
        return TorchRewards(references, device, mix, compiled=compiled)
    if device.type != "cpu":
        raise ConfigError("rewards", "numba runs on a CPU only", "Choose the form torch.")
    return NumbaRewards(references, mix)


class TorchRewards(Rewards):
    """Batched scoring on any device; see `Rewards`.

    The first call for a shape makes an index and brings it to the device; do one before capturing
    a CUDA graph. Later calls wait for nothing, so ids out of range are noticed on a CPU only, and
    not in compiled code: there they score nonsense. At most 127 words.
    """

    def __init__(
        self, references: References, device: torch.device, mix: Mix, *, compiled: bool = False
    ) -> None:
        from naic.learn.cider import torch_rewards

        judge = torch_rewards.judge
        # A shape that is new is compiled anew: code for any shape would be slower for each.
        self._judge = torch.compile(judge, dynamic=False) if compiled else judge
        self._kernels = torch_rewards
        self._tables = torch_rewards.make_tables(references, device)
        self._judged = ~self._tables.absent.all(1)  # (I,)
        self._patterns: dict[tuple[int, int], Pattern] = {}
        self._references = references
        self._device = device
        self._mix = (mix.cider, mix.bleu4)

    def of_others(self, references: References) -> "TorchRewards":
        """The same for other images (`References.of_others`), by the same document frequencies.

        These are many, and are not brought to the device again.
        """
        made = copy.copy(self)
        made._tables = self._kernels.make_tables(references, self._device, self._tables)
        made._judged = ~made._tables.absent.all(1)
        made._references, made._patterns = references, {}
        return made

    def score(self, words: Tensor, image_index: Tensor) -> Tensor:
        """(B,) the rewards of the captions."""
        return self.judge(words, words.new_empty(*words.shape, 0), image_index)[0]

    def judge(
        self, words: Tensor, alternatives: Tensor, image_index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`score` and `counterfactual` in one pass."""
        _check_kinds(words, alternatives, image_index, self._device)
        if self._device.type == "cpu" and not torch.compiler.is_compiling():
            _check_ranges(words, alternatives, image_index, self._references)
            at_once = max(
                1, SENTENCES_AT_ONCE // (1 + alternatives.shape[1] * alternatives.shape[2])
            )
            if len(words) > at_once:
                return self._in_parts(words, alternatives, image_index, at_once)
        length, choices = alternatives.shape[1:]
        pattern = self._patterns.get((length, choices))
        if pattern is None:
            pattern = self._kernels.make_pattern(length, choices, self._device)
            self._patterns[length, choices] = pattern
        return self._judge(words, alternatives, image_index, self._tables, pattern, self._mix)

    def judges(self, image_index: Tensor) -> Tensor:
        """(B,) whether an image has a reference."""
        return self._judged[image_index]

    def _in_parts(
        self, words: Tensor, alternatives: Tensor, image_index: Tensor, at_once: int
    ) -> tuple[Tensor, Tensor]:
        parts = [
            self.judge(words[rows], alternatives[rows], image_index[rows])
            for first in range(0, len(words), at_once)
            for rows in [slice(first, first + at_once)]
        ]
        rewards, outcomes = zip(*parts, strict=True)
        return torch.cat(rewards), torch.cat(outcomes)


class NumbaRewards(Rewards):
    """Incremental scoring on a CPU; see `Rewards`. Two threads take turns."""

    def __init__(self, references: References, mix: Mix) -> None:
        try:
            from naic.learn.cider import numba_rewards, numba_state
        except ImportError as error:
            raise MissingExtraError(
                "numba", "is not installed", "Install it with: pip install 'naic[train]'"
            ) from error
        self._kernels = numba_rewards
        self._state = numba_state
        self._references = references
        self._mix = (mix.cider, mix.bleu4)
        self._length = -1
        self._turn = threading.Lock()  # the working space is one

    def score(self, words: Tensor, image_index: Tensor) -> Tensor:
        """(B,) the rewards of the captions; equal ones are scored once."""
        said, _, images = self._arrays(words, words.new_empty(*words.shape, 0), image_index)
        rewards = np.empty(len(words))
        known = np.full(2 << len(words).bit_length(), -1)
        with self._turn:
            self._fit(words.shape[1])
            self._kernels.score_rows(said, images, self._tables, self._scratch, known, rewards)
        return torch.from_numpy(rewards)

    def judge(
        self, words: Tensor, alternatives: Tensor, image_index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`score` and `counterfactual` in one pass."""
        said, others, images = self._arrays(words, alternatives, image_index)
        rewards = np.empty(len(words))
        outcomes = np.empty(alternatives.shape)
        with self._turn:
            self._fit(words.shape[1])
            self._kernels.judge_rows(
                said, others, images, self._tables, self._scratch, rewards, outcomes
            )
        return torch.from_numpy(rewards), torch.from_numpy(outcomes)

    def judges(self, image_index: Tensor) -> Tensor:
        """(B,) whether an image has a reference."""
        return torch.from_numpy(self._references.amounts > 0)[image_index]

    def _arrays(
        self, words: Tensor, alternatives: Tensor, image_index: Tensor
    ) -> tuple[Ints, Ints, Ints]:
        """What the kernels take: checked, and in one piece, or numba would compile them anew."""
        _check_kinds(words, alternatives, image_index, _CPU)
        arrays = tuple(np.ascontiguousarray(x.numpy()) for x in (words, alternatives, image_index))
        limits = (self._references.words, self._references.words, len(self._references))
        if not all(map(self._kernels.all_below, arrays, limits)):
            _check_ranges(words, alternatives, image_index, self._references)
        return arrays[0], arrays[1], arrays[2]

    def _fit(self, length: int) -> None:
        """Tables and working space for sentences of so many words, made when first needed."""
        if length != self._length:
            self._tables = self._state.make_tables(self._references, self._mix, length)
            self._scratch = self._state.make_scratch(self._references, length)
            self._length = length


def _check_kinds(
    words: Tensor, alternatives: Tensor, image_index: Tensor, device: torch.device
) -> None:
    """Wrong shapes and kinds of tensors, which can be told without looking into them."""
    if words.dim() != 2 or words.shape[1] == 0:
        raise ValueError(f"words are {tuple(words.shape)}, not (captions, words)")
    rows, length = words.shape
    if image_index.shape != (rows,):
        raise ValueError(f"{rows} captions, but image_index is {tuple(image_index.shape)}")
    if alternatives.dim() != 3 or alternatives.shape[:2] != (rows, length):
        raise ValueError(f"alternatives are {tuple(alternatives.shape)}, not ({rows}, {length}, k)")
    named = (("words", words), ("alternatives", alternatives), ("image_index", image_index))
    for name, values in named:
        if values.dtype != torch.int64 or values.device.type != device.type:
            kind = f"{values.dtype} on {values.device.type}"
            raise ValueError(f"{name}: {kind}, not torch.int64 on {device.type} as the rewards are")


def _check_ranges(
    words: Tensor, alternatives: Tensor, image_index: Tensor, references: References
) -> None:
    """Ids and images that do not exist: a kernel would read beyond its arrays."""
    for name, values, limit in (
        ("words", words, references.words),
        ("alternatives", alternatives, references.words),
        ("image_index", image_index, len(references)),
    ):
        low, high = (int(x) for x in values.aminmax()) if values.numel() else (0, 0)
        if low < 0 or high >= limit:
            raise ValueError(f"{name} has {low} to {high}; it must be 0 to {limit - 1}")
