"""A trained teacher that captions many images: batched beam search from features."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple, Self

import torch
from torch import Tensor

from naic.data.batches import count_regions, read_ahead
from naic.data.features import read_features
from naic.data.joined import AnyStore
from naic.data.pseudo import Taught
from naic.device import choose_device
from naic.errors import CheckpointError, ConfigError, StoreError
from naic.files import WEIGHTS
from naic.models.folder import ModelSettings, load_model
from naic.text.vocabulary import PERIOD

SCORE_DIGITS = 4  # of a sum of up to 16 logarithms of float32, the rest is rounding


class Shape(NamedTuple):
    """How large a batch is; all of them are.

    What is said of an image then does not depend on which batches are made in one go, and on a GPU
    kernels are chosen once.

    Attributes:
        images: B; a batch of fewer is filled up with its last image.
        regions: R, the most of an image.
        ragged: whether some images have fewer.
    """

    images: int
    regions: int
    ragged: bool

    @classmethod
    def of(cls, store: AnyStore, rows: Sequence[int], images: int) -> Self:
        """For the images in these rows, `images` at once."""
        counts = count_regions(store, rows)
        most = int(counts.max())
        return cls(min(images, len(rows)), most, bool((counts < most).any()))


def check_features(folder: Path, own: ModelSettings, store: AnyStore) -> None:
    """Refuse features that the model in a folder has not learnt to read."""
    index = store.index
    given = (store.dim, index["backbone"], index["pixels"])
    read = (own.features, own.backbone, own.pixels or index["pixels"])
    hint = "Prepare features as for this model."
    if given != read:
        said = "{} numbers from {} at {} pixels"
        why = f"the features are {said.format(*given)}, and it reads {said.format(*read)}"
        raise StoreError(str(folder), why, hint)
    seen = index.get("weights", "")
    if own.digest and seen and own.digest != seen:
        why = f"it learnt from {own.backbone} with other weights than the features come from"
        raise StoreError(str(folder), why, hint)


class Teacher:
    """The model in a folder, and how it is to be asked.

    Attributes:
        digest: SHA-256 of the weights.
    """

    def __init__(
        self,
        folder: Path,
        *,
        device: str = "auto",
        beam: int = 3,
        keep: int = 1,
        precision: Literal["float32", "bfloat16"] = "float32",
    ) -> None:
        self.device = choose_device(device)
        if precision == "bfloat16" and self.device.type != "cuda":
            why = f"bfloat16 is for a GPU, and this is {self.device}"  # some CPUs die of it
            raise ConfigError("--precision", why, "Leave it out.")
        loaded = load_model(folder, device=self.device)
        if loaded.spec.beams is None:
            why = f"a {loaded.settings.captioner} captioner cannot search for sentences"
            raise ConfigError(str(folder), why, "Name a causal one: runs/teacher/best")
        self.model, self._search = loaded.model, loaded.spec.beams
        self.vocabulary = loaded.vocabulary
        self.settings = loaded.settings
        self.folder = folder
        with (folder / WEIGHTS).open("rb") as file:
            self.digest = hashlib.file_digest(file, "sha256").hexdigest()
        self._beam, self._keep = beam, keep
        self._precision = precision

    def describe(self) -> str:
        """One line for people."""
        weights = sum(p.numel() for p in self.model.parameters())
        return f"{weights:,} parameters, {len(self.vocabulary):,} words, {self.settings.backbone}"

    def caption(
        self, store: AnyStore, batches: Sequence[Sequence[int]], shape: Shape
    ) -> Iterator[list[Taught]]:
        """What to say of the images in these rows, batch by batch.

        A batch is read while the one before is captioned.
        """
        ahead = read_ahead(lambda rows: self._read(store, rows, shape), batches)
        for rows, (features, mask) in zip(batches, ahead, strict=True):
            try:
                said = self.say(features, mask if shape.ragged else None)
            except torch.OutOfMemoryError as error:
                why = f"{shape.images} images at once do not fit the memory of {self.device}"
                raise ConfigError("--batch", why, "Lower it, in a new --out.") from error
            yield said[: len(rows)]

    def _read(self, store: AnyStore, rows: Sequence[int], shape: Shape) -> tuple[Tensor, Tensor]:
        full = [*rows, *[rows[-1]] * (shape.images - len(rows))]
        features, mask = map(torch.from_numpy, read_features(store, full, shape.regions))
        if self.device.type == "cuda":
            return features.pin_memory(), mask.pin_memory()
        return features, mask

    @torch.no_grad()
    def say(self, features: Tensor, mask: Tensor | None) -> list[Taught]:
        """What to say of images with these features (B, R, F), of which `mask` (B, R) is real."""
        mixed = self._precision == "bfloat16"
        features = features.to(self.device, non_blocking=True)
        mask = None if mask is None else mask.to(self.device, non_blocking=True)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=mixed):
            words, scores = self._search(self.model, features, mask, self._beam, self._keep)
        return [
            self._taught(own, likely)
            for own, likely in zip(words.tolist(), scores.tolist(), strict=True)
        ]

    def _taught(self, words: list[list[int]], scores: list[float]) -> Taught:
        """As text; a place of the beam that no sentence fills has a score of -inf, and goes."""
        real = [(row, score) for row, score in zip(words, scores, strict=True) if score > -math.inf]
        if not real:
            why = "it gives no probability to any sentence: its weights are no numbers"
            raise CheckpointError(str(self.folder), why, "Use the model of an earlier step.")
        ends = [row.index(PERIOD) if PERIOD in row else len(row) for row, _ in real]
        return Taught(
            tuple(
                " ".join(map(self.vocabulary.word, row[:end]))
                for (row, _), end in zip(real, ends, strict=True)
            ),
            tuple(round(score, SCORE_DIGITS) for _, score in real),
            tuple(PERIOD in row for row, _ in real),
        )
