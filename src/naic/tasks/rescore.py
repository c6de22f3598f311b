"""Captions of a split with rescoring, from stored features, for tables: many choices in one go.

The first five of twenty sentences are the five likeliest, and a weight changes the order alone: one
pass of the student and one of the teacher serve every number of choices and every weight.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from naic.backbones.inside import backbone_digest, backbone_tensors
from naic.backbones.load import is_tuned, trainable_backbone
from naic.data.batches import count_regions, read_ahead
from naic.data.features import FeatureStore, read_features
from naic.decode.decoding import CHOICES, Decoding
from naic.device import choose_device
from naic.errors import ConfigError
from naic.models.folder import LoadedModel, load_model
from naic.models.teacher import check_features
from naic.runtime.rescore import Found, Rescored, Rescoring, as_words, candidates, rescored
from naic.runtime.rescorer import TeacherForced, load_teacher
from naic.runtime.sentences import Proposals
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


def load_pair(store: FeatureStore, student: Path, teacher: Path) -> RescoredPair:
    """Both models on the host; a backbone inside one of them is taken out of it.

    Raises:
        ConfigError: they are no student and teacher of one kind.
        StoreError: the features are not what they learnt from.
    """
    loaded = load_model(student)
    own, inside = loaded.settings, loaded.spec.backbone(loaded.settings.model)
    if inside:
        digest = backbone_digest(backbone_tensors(loaded.model.state_dict()))
        own = replace(
            own,
            features=trainable_backbone(inside).dim,
            backbone=inside,
            # Published weights are known by the digest of their file.
            digest=digest if is_tuned(store.index) else "",
        )
    check_features(student, own, store)
    plain = loaded.spec.for_features(loaded.model, loaded.settings.model, loaded.settings.words)
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


def _on_host(tensor: Tensor | None) -> Any:  # noqa: ANN401 - an array of its own kind, or nothing
    if tensor is None:
        return None
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()


def _text(sentence: Rescored, vocabulary: Vocabulary) -> str:
    return vocabulary.decode(sentence.words)


class _Split(NamedTuple):
    """Images of a store, so many at once, on a device."""

    store: FeatureStore
    rows: Sequence[int]
    batch: int
    device: torch.device

    @torch.no_grad()
    def scored(
        self, pair: RescoredPair, count: int, decoding: Decoding, precision: Precision
    ) -> Iterator[tuple[Found, Tensor]]:
        """Each batch's sentences, and the log-probabilities (B, n, N) of their words."""
        student = pair.student.to(self.device)
        teacher = pair.teacher.to(self.device).eval()
        spec, words = pair.loaded.spec, pair.loaded.vocabulary
        mixed = precision != "float32"
        kind = torch.float16 if precision == "float16" else torch.bfloat16
        for features, mask in self._read_all():
            with torch.autocast(self.device.type, kind, enabled=mixed):
                proposed = spec.propose(student, features, mask, CHOICES)
                own = Proposals(*map(_on_host, proposed))
                found = candidates(own, count, decoding, words)
                given = torch.from_numpy(as_words(found, len(found), count, teacher.length))
                likely = teacher(features, given.to(self.device), mask)
            yield found, likely.float().cpu()

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
