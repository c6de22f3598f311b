"""A student's likeliest sentences, of which its teacher says the best, on stored features.

The teacher is given whole sentences: one pass for all of them, and none for each word.
"""

import itertools
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from naic.data.batches import count_regions
from naic.data.features import FeatureStore, read_features
from naic.errors import ConfigError
from naic.files import write_atomically
from naic.tasks.reproduce.scoring import IMAGES, WARM_UP
from naic.text.vocabulary import PAD, PERIOD, Vocabulary

if TYPE_CHECKING:
    from torch import Tensor, nn

    from naic.models.contract import CaptionerSpec

EACH = 5  # words of an agent that sentences are made of
AT_ONCE = 32  # images: a teacher gives a number to each of V words, at all places of all sentences
Models = tuple[Path, Path]  # the folders of a student and of its teacher


class Rescorer:
    """Two models, and how many sentences the second chooses from."""

    def __init__(self, models: Models, keep: int, device: str) -> None:
        from naic.device import choose_device
        from naic.models.folder import load_model

        self.device = choose_device(device)
        student, teacher = (load_model(folder, device=self.device) for folder in models)
        if student.vocabulary.fingerprint != teacher.vocabulary.fingerprint:
            why = "its words are not those of the student"
            raise ConfigError(str(models[1]), why, "Name the teacher that the student learnt from.")
        self.vocabulary: Vocabulary = student.vocabulary
        self._spec: CaptionerSpec = student.spec
        self._student: nn.Module = student.model.eval()
        self._teacher: nn.Module = teacher.model.eval()
        self._keep = keep

    def caption(self, features: "Tensor", mask: "Tensor | None") -> list[tuple[int, ...]]:
        """The sentences chosen for features (B, R, F), without their periods."""
        import torch

        from naic.decode.chains import told
        from naic.decode.policy import log_policy

        with torch.no_grad():
            said = self._spec.propose(self._student, features, mask, EACH).on_host()  # (B, N, K)
            words, log_probs = said.words, said.log_probs
            if said.pairs is not None:
                heard = told(words.numpy(), log_probs.numpy(), said.pairs.numpy())
                log_probs = torch.from_numpy(heard)  # (B, N, K, K)
            found = [
                self._likeliest(*own)
                for own in zip(words.tolist(), log_probs.tolist(), strict=True)
            ]
            given = self._as_words(found, words.shape[1]).to(features.device)  # (B, n, N)
            policy = log_policy(self._teacher(features, mask, given))  # (B, n, N, V)
            likely = policy.gather(-1, given[..., None])[..., 0]
            scores = likely.masked_fill(given == PAD, 0.0).sum(-1)  # (B, n)
            there = (given != PAD).any(-1)  # (B, n): an image may have fewer sentences
            best = scores.masked_fill(~there, -torch.inf).argmax(-1).tolist()
        return [own[place] for own, place in zip(found, best, strict=True)]

    def _likeliest(
        self, words: list[list[int]], log_probs: list[list[float]]
    ) -> list[tuple[int, ...]]:
        from naic.decode.best_first import n_best

        some = (sentence.words for sentence in n_best(words, log_probs) if sentence.words)
        return list(itertools.islice(some, self._keep)) or [()]

    def _as_words(self, found: Sequence[Sequence[tuple[int, ...]]], length: int) -> "Tensor":
        """(B, n, N) as a teacher takes them: with a period where there is a place for it."""
        import torch

        words = torch.full((len(found), self._keep, length), PAD)
        for image, own in enumerate(found):
            for place, sentence in enumerate(own):
                ids = (*sentence, PERIOD)[:length]
                words[image, place, : len(ids)] = torch.tensor(ids)
        return words


def caption_rescored(
    store: FeatureStore, rows: Sequence[int], models: Models, keep: int, device: str, target: Path
) -> None:
    """Write a results file of the chosen sentences."""
    from naic.train.validate import results_file

    rescorer = Rescorer(models, keep, device)
    captions = {}
    for some, features, mask in _batches(store, rows, AT_ONCE, rescorer):
        for row, words in zip(some, rescorer.caption(features, mask), strict=True):
            captions[store.records[row].id] = rescorer.vocabulary.decode(words)
    write_atomically(target, results_file(captions))


def rescored_milliseconds(
    store: FeatureStore, rows: Sequence[int], models: Models, keep: int, device: str
) -> float:
    """The median time of one image, from its features, eager, alone on the device, warm."""
    from functools import partial

    from naic.tasks.benchmark.timing import milliseconds

    rescorer = Rescorer(models, keep, device)
    turns = [rows[turn % len(rows)] for turn in range(WARM_UP + IMAGES)]
    times = [
        milliseconds(partial(rescorer.caption, features, mask), rescorer.device)
        for _, features, mask in _batches(store, turns, 1, rescorer)
    ]
    return statistics.median(times[WARM_UP:])


def _batches(
    store: FeatureStore, rows: Sequence[int], size: int, rescorer: Rescorer
) -> "Iterator[tuple[Sequence[int], Tensor, Tensor | None]]":
    import torch

    regions = count_regions(store, rows)
    longest, ragged = int(regions.max()), bool((regions < regions.max()).any())
    for first in range(0, len(rows), size):
        some = rows[first : first + size]
        features, mask = (
            torch.from_numpy(array).to(rescorer.device)
            for array in read_features(store, some, longest)
        )
        yield some, features, mask if ragged else None
