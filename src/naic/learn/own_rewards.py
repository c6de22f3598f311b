"""Rewards of one's own: functions of sentences, beside CIDEr-D or in its place.

They are given text, on the host, which is slow and takes any program there is. All sentences of a
call that differ are told to a function once, whether they were sampled or are what would be said
with one word replaced: equal ones are worth the same to the bit, whatever the function does.
"""

import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from naic.data.features import StoredRecord
from naic.decode.policy import spoken
from naic.errors import TrainingError
from naic.learn.cider import Rewards
from naic.learn.loose_ends import replaced
from naic.text import PAD, Vocabulary

Floats = npt.NDArray[np.float64]
# Sentences, and the image of each; a number for each. "" is a sentence, too.
RewardFunction = Callable[[list[str], list[StoredRecord]], Sequence[float] | Floats | Tensor]
_TRUST = "Mend it; NAIC_DEBUG=1 shows the whole traceback."
_ALONE = (
    "A reward may depend on the sentence and its image only: not on chance (a network needs "
    ".eval()), nor on the sentences beside it."
)


@dataclass(frozen=True)
class OwnReward:
    """A function, what it is called, and its weight in the sum of all rewards."""

    name: str
    function: RewardFunction
    weight: float

    def score(self, sentences: Sequence[str], images: Sequence[StoredRecord]) -> Floats:
        """(S,) what the function says of the sentences; the weight is not in it.

        Raises:
            TrainingError: it failed, or gave anything but a finite number for each sentence.
        """
        first = f"{len(sentences)} sentences, the first of them {sentences[0]!r}"
        try:
            with (
                torch.no_grad(),  # and in full precision, whatever the captioner trains in
                torch.autocast("cuda", enabled=False),
                torch.autocast("cpu", enabled=False),
            ):
                given = self.function([*sentences], [*images])
        except Exception as error:
            why = f"it raised {type(error).__name__}: {error}{_place(error)} for {first}"
            raise self._failed(why, _TRUST) from error
        values = _numbers(given)
        if values is None or values.shape != (len(sentences),):
            odd = f"a {type(given).__name__} that is not of numbers"
            what = odd if values is None else f"numbers in the shape {values.shape}"
            why = f"it gave {what} for {first}"
            raise self._failed(why, "Return a list with one number for each sentence.")
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            sentence, image = sentences[bad[0]], images[bad[0]]
            why = f"it gave {values[bad[0]]} for {sentence!r}, said of the image {image.id!r}"
            raise self._failed(why, "Return a finite number for each sentence.")
        return values

    def try_out(self, sentences: Sequence[str], images: Sequence[StoredRecord]) -> None:
        """Refuse a function whose sentences are worth something else in other company.

        An agent's word would then be praised for what another sentence was.
        """
        together = self.score(sentences, images)
        for sentence, image, among in zip(sentences, images, together, strict=True):
            alone = self.score([sentence], [image])[0]
            if not np.isclose(alone, among, rtol=1e-4, atol=1e-6):
                why = f"{sentence!r} is worth {alone:.6g} by itself, and {among:.6g} among others"
                raise self._failed(why, _ALONE)

    def _failed(self, why: str, hint: str) -> TrainingError:
        return TrainingError(f"reward {self.name}", why, hint)


class OwnRewards(Rewards):
    """Other rewards, and one's own added to them; see `Rewards`. Waits for the host.

    An image that the others cannot judge has no reward: a part of a sum would pull elsewhere than
    the sum does. Without others every image is judged.
    """

    def __init__(
        self,
        rewards: Rewards | None,
        own: Sequence[OwnReward],
        vocabulary: Vocabulary,
        images: Sequence[StoredRecord],
    ) -> None:
        """`images` are what functions are told of each; rows of them are `image_index`."""
        self._rewards = rewards
        self._own = own
        self._vocabulary = vocabulary
        self._images = images

    def score(self, words: Tensor, image_index: Tensor) -> Tensor:
        """(B,) the rewards of the captions."""
        own = self._worth(words[:, None], image_index)[:, 0]
        return own if self._rewards is None else self._rewards.score(words, image_index) + own

    def judge(
        self, words: Tensor, alternatives: Tensor, image_index: Tensor
    ) -> tuple[Tensor, Tensor]:
        """`score` and `counterfactual` in one pass."""
        others = replaced(words, alternatives).flatten(1, 2)  # (B, N·k, N)
        own = self._worth(torch.cat([words[:, None], others], 1), image_index)  # (B, 1 + N·k)
        reward, outcomes = own[:, 0], own[:, 1:].view(alternatives.shape)
        if self._rewards is None:
            return reward, outcomes
        before = self._rewards.judge(words, alternatives, image_index)
        return before[0] + reward, before[1] + outcomes

    def judges(self, image_index: Tensor) -> Tensor:
        """(B,) whether there is a reference to compare with, if any reward needs one."""
        if self._rewards is None:
            return torch.ones_like(image_index, dtype=torch.bool)
        return self._rewards.judges(image_index)

    def _worth(self, sentences: Tensor, image_index: Tensor) -> Tensor:
        """(B, C) the weighted sum of one's own rewards of sentences (B, C, N)."""
        judged = self.judges(image_index)  # (B,)
        heard = torch.where(spoken(sentences), sentences, PAD)[judged]  # (J, C, N)
        images = image_index[judged, None, None].expand(-1, heard.shape[1], 1)
        rows = torch.cat([images, heard], -1).flatten(0, 1).cpu().numpy()  # (J·C, 1 + N)
        places: dict[bytes, int] = {}  # of what is told to the functions, each once
        place = [places.setdefault(row.tobytes(), len(places)) for row in rows]
        worth = torch.zeros(sentences.shape[:2], dtype=torch.float64, device=sentences.device)
        if places:
            values = torch.from_numpy(self._sum([*places])[place]).to(worth.device)
            worth[judged] = values.view(heard.shape[:2])
        return worth

    def _sum(self, distinct: Sequence[bytes]) -> Floats:
        """(D,) of sentences that differ, or are said of different images."""
        rows = [np.frombuffer(row, np.int64).tolist() for row in distinct]
        texts = [self._vocabulary.decode(words) for _, *words in rows]
        images = [self._images[image] for image, *_ in rows]
        total = np.zeros(len(texts))
        for own in self._own:
            total += own.weight * own.score(texts, images)
        return total


def _numbers(given: object) -> Floats | None:
    """What a function returned as an array; None if there are other things in it than numbers."""
    try:
        array = (
            given.detach().double().cpu().numpy()
            if isinstance(given, Tensor)
            else np.asarray(given)
        )
    except (ValueError, TypeError, RuntimeError):  # lists of different lengths, say
        return None
    return array.astype(np.float64) if array.dtype.kind in "biuf" else None


def _place(error: Exception) -> str:
    """The line of the function itself that an exception came through."""
    frames = traceback.extract_tb(error.__traceback__)[1:]  # the first one is ours
    return f" ({frames[0].filename.rpartition('/')[2]}, line {frames[0].lineno})" if frames else ""
