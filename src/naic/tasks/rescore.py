"""Captions of a split with rescoring, from stored features, for tables: many choices in one go.

The first five of twenty sentences are the five likeliest, and a weight changes the order alone: one
pass of the student and one of the teacher serve every number of choices and every weight.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from naic.backbones.inside import backbone_digest, backbone_tensors
from naic.backbones.load import is_tuned, trainable_backbone
from naic.data.batches import count_regions, read_ahead
from naic.data.features import FeatureStore, read_features
from naic.decode.best_first import Sentence
from naic.decode.decoding import CHOICES, Decoding
from naic.device import choose_device
from naic.errors import ConfigError
from naic.models.folder import LoadedModel, load_model
from naic.models.teacher import check_features
from naic.runtime.engines import as_arrays
from naic.runtime.rescore import Rescored, Rescoring, as_words, candidates, rescored
from naic.runtime.rescorer import TeacherForced, load_teacher
from naic.text.vocabulary import Vocabulary

Precision = Literal["float32", "bfloat16", "float16"]
PLAIN = Decoding()  # as the paper's tables: repeats and loose ends show


class Choice(NamedTuple):
    """How a teacher chose: among how many sentences, and what the agents' opinion counted."""

    choices: int
    weight: float


class RescoredPair(NamedTuple):
    """A student and its teacher, both for the features of a store.

    Attributes:
        loaded: the student as it was loaded.
        student: its network, for features.
        teacher: likewise.
    """

    loaded: LoadedModel
    student: nn.Module
    teacher: TeacherForced

    def to(self, device: torch.device) -> "RescoredPair":
        """Both networks there, as they speak."""
        student, teacher = self.student.to(device).eval(), self.teacher.to(device).eval()
        return RescoredPair(self.loaded, student, teacher)

    @torch.no_grad()
    def score(
        self, features: Tensor, mask: Tensor | None, count: int, decoding: Decoding
    ) -> tuple[list[list[Sentence]], Tensor]:
        """The likeliest sentences of features (B, R, F), and (B, n, N) what their words are worth.

        One pass of the student, one of the teacher; eager, on the device of the features.
        """
        spec, words = self.loaded.spec, self.loaded.vocabulary
        said = spec.propose(self.student, features, mask, CHOICES).on_host()
        found = candidates(as_arrays(said, len(said.words)), count, decoding, words)
        given = torch.from_numpy(as_words(found, len(found), count, self.teacher.length))
        likely: Tensor = self.teacher(features, given.to(features.device), mask)
        return found, likely.float().cpu()


def load_for_features(store: FeatureStore, folder: Path) -> tuple[LoadedModel, nn.Module]:
    """A model as it was loaded, and its network for a store's features.

    A backbone inside it is taken out of it, if it is the one that made them; not for pixels.

    Raises:
        StoreError: the features are not what it learnt from.
    """
    loaded = load_model(folder)
    own, inside = loaded.settings, loaded.spec.backbone(loaded.settings.model)
    if inside and store.index["backbone"] == "pixels":  # it sees them by itself
        return loaded, loaded.model
    if inside:
        digest = backbone_digest(backbone_tensors(loaded.model.state_dict()))
        own = replace(
            own,
            features=trainable_backbone(inside).dim,
            backbone=inside,
            # Published weights are known by the digest of their file.
            digest=digest if is_tuned(store.index) else "",
        )
    check_features(folder, own, store)
    plain = loaded.spec.for_features(loaded.model, loaded.settings.model, loaded.settings.words)
    return loaded, plain


def load_pair(store: FeatureStore, student: Path, teacher: Path) -> RescoredPair:
    """Both models on the host; a backbone inside one of them is taken out of it.

    Raises:
        ConfigError: they are no student and teacher of one kind.
        StoreError: the features are not what they learnt from.
    """
    loaded, plain = load_for_features(store, student)
    return RescoredPair(loaded, plain.eval(), load_teacher(teacher, loaded))


def rescore_split(
    store: FeatureStore,
    rows: Sequence[int],
    pair: RescoredPair,
    *,
    choices: Sequence[int] = (5, 10, 20),
    weights: Sequence[float] = (0.0,),
    decoding: Decoding = PLAIN,
    batch: int = 64,
    device: str = "auto",
    precision: Precision = "float32",
) -> dict[Choice, dict[str, str]]:
    """The captions of the images in these rows, by their ids, for each way to choose."""
    wanted = [Choice(count, weight) for count in choices for weight in weights]
    for one in wanted:
        Rescoring("", *one)  # refuses what is out of range
    if not wanted or not rows:
        raise ConfigError("--choices", "there is nothing to choose from", "Try 5 10 20.")
    chosen = choose_device(device)
    if precision != "float32" and chosen.type != "cuda":
        why = f"{precision} is for a GPU, and this is {chosen}"
        raise ConfigError("--precision", why, "Leave it out.")
    said: dict[Choice, dict[str, str]] = {one: {} for one in wanted}
    ids = iter([store.records[row].id for row in rows])
    words = pair.loaded.vocabulary
    split = _Split(store, rows, max(1, min(batch, len(rows))), chosen)
    for found, scores in split.scored(pair, max(choices), decoding, precision):
        for own, likely in zip(found, scores, strict=True):
            id_ = next(ids)
            for one in wanted:
                (ranked,) = rescored([own[: one.choices]], likely[None].numpy(), one.weight)
                said[one][id_] = _text(ranked[0], words)
    return said


def speaker(pair: RescoredPair, count: int, device: str) -> Callable[[Tensor], list[Rescored]]:
    """What is timed of a table's row: features (B, R, F) on the device to the chosen sentences."""
    there = pair.to(choose_device(device))

    def speak(features: Tensor) -> list[Rescored]:
        found, likely = there.score(features, None, count, PLAIN)
        return [ranked[0] for ranked in rescored(found, likely.numpy(), 0.0)]

    return speak


def _text(sentence: Rescored, vocabulary: Vocabulary) -> str:
    return vocabulary.decode(sentence.words)


class _Split(NamedTuple):
    """Images of a store, so many at once, on a device."""

    store: FeatureStore
    rows: Sequence[int]
    batch: int
    device: torch.device

    def scored(
        self, pair: RescoredPair, count: int, decoding: Decoding, precision: Precision
    ) -> Iterator[tuple[list[list[Sentence]], Tensor]]:
        """Each batch's sentences, and the log-probabilities (B, n, N) of their words."""
        there = pair.to(self.device)
        mixed = precision != "float32"
        kind = torch.float16 if precision == "float16" else torch.bfloat16
        for features, mask in self._read_all():
            with torch.autocast(self.device.type, kind, enabled=mixed):
                scored = there.score(features, mask, count, decoding)
            yield scored

    def _read_all(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Features and masks on the device, a batch being read while another is captioned."""
        regions = count_regions(self.store, self.rows)
        most, ragged = int(regions.max()), bool((regions < regions.max()).any())
        batches = [
            self.rows[first : first + self.batch] for first in range(0, len(self.rows), self.batch)
        ]
        for features, mask in read_ahead(lambda own: self._read(own, most), batches):
            on_device = mask.to(self.device, non_blocking=True) if ragged else None
            yield features.to(self.device, non_blocking=True), on_device

    def _read(self, rows: Sequence[int], regions: int) -> tuple[Tensor, Tensor]:
        features, mask = map(torch.from_numpy, read_features(self.store, rows, regions))
        if self.device.type == "cuda":
            return features.pin_memory(), mask.pin_memory()
        return features, mask
