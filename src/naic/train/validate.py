"""How a run goes: captions of held-out images, scored as a publication would score them."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
import torch.distributed
from torch import Tensor, nn

from naic.data.batches import count_regions, read_ahead
from naic.data.features import FeatureStore, read_features
from naic.decode.decoding import Decoding
from naic.errors import DataError
from naic.metrics.cider import cider
from naic.metrics.score import habits
from naic.models.contract import CaptionerSpec
from naic.text import Vocabulary, tokenise

if TYPE_CHECKING:  # few runs have rewards of their own
    from naic.learn.own_rewards import OwnReward


@dataclass(frozen=True, slots=True)
class Validation:
    """How well a model captions images it has not learnt from.

    Attributes:
        cider: CIDEr-D on the public scale: 1.0 is what papers call 100.
        captions: the caption of each image, by the image's id.
        repeats: the share of captions with a word twice in a row.
        bad_endings: the share that ends on a word which ends no sentence.
        facts: the share of captions that are wholly true, where the truth is known.
        own: what rewards of one's own give the captions in the mean, by their names.
    """

    cider: float
    captions: dict[str, str]
    repeats: float
    bad_endings: float
    facts: float | None
    own: dict[str, float]

    def results(self) -> bytes:
        """The captions in the layout of COCO's results files, which `naic evaluate` reads."""
        return results_file(self.captions)


def results_file(captions: Mapping[str, str]) -> bytes:
    """Captions by image, in the layout of COCO's results files."""
    rows = [{"image_id": _image_id(id_), "caption": text} for id_, text in captions.items()]
    return f"{json.dumps(rows)}\n".encode()


def _image_id(name: str) -> int | str:
    """COCO's ids are numbers; "007" is a name, or it would come back as another one."""
    return int(name) if re.fullmatch(r"0|[1-9][0-9]{0,17}", name) else name


class Validator:
    """Validates as often as asked; what people said of the images is tokenised only once."""

    def __init__(
        self,
        store: FeatureStore,
        rows: Sequence[int],
        vocabulary: Vocabulary,
        *,
        batch: int = 256,
        device: torch.device | str = "cpu",
        rank: int = 0,
        world: int = 1,
        own: "Sequence[OwnReward]" = (),
    ) -> None:
        """`rows` of the store are shared by the processes: each captions every world-th."""
        self._records = [store.records[row] for row in rows]
        bare = next((record.id for record in self._records if not record.captions), None)
        if bare is not None or not rows:
            raise DataError(
                str(store.folder),
                "there is no image to validate with"
                if bare is None
                else f"the image {bare!r} has no captions to be compared with",
                "Choose splits for validation whose images have captions.",
            )
        self._store = store
        self._own = list(rows)[rank::world]
        self._world = world
        self._rewards = own
        self._vocabulary = vocabulary
        self._batch = max(1, min(batch, len(self._own)))
        self._device = torch.device(device)
        regions = count_regions(store, rows)
        self._regions = int(regions.max())
        self._ragged = bool((regions < self._regions).any())
        self._references = [
            [" ".join(tokenise(caption)) for caption in record.captions] for record in self._records
        ]

    def validate(self, model: nn.Module, spec: CaptionerSpec, decoding: Decoding) -> Validation:
        """Caption all images and score them; every process gets the result of all."""
        training = model.training
        model.eval()
        try:
            own = self._caption(model, spec, decoding)
        finally:
            model.train(training)
        captions = self._gather(own)
        sentences = [" ".join(tokenise(caption)) for caption in captions]
        manner = habits(sentences)
        return Validation(
            cider=cider(sentences, self._references).value,
            captions={r.id: text for r, text in zip(self._records, captions, strict=True)},
            repeats=manner.repeats,
            bad_endings=manner.bad_endings,
            facts=self._share_true(captions),
            own={
                one.name: float(one.score(captions, self._records).mean()) for one in self._rewards
            },
        )

    def _share_true(self, captions: list[str]) -> float | None:
        """Of captions whose truth is known, the share that is wholly true."""
        known = [
            (caption, record.facts)
            for caption, record in zip(captions, self._records, strict=True)
            if record.facts is not None
        ]
        if not known:
            return None
        from naic.data.shapes.truth import check

        return sum(check(caption, facts).ok for caption, facts in known) / len(known)

    @torch.no_grad()
    def _caption(self, model: nn.Module, spec: CaptionerSpec, decoding: Decoding) -> list[str]:
        """Captions of this process's images."""
        found = [
            spec.caption(model, features, mask, decoding)  # (batch, N)
            for features, mask in self._read_ahead()
        ]
        ids = [row for words in found for row in words.tolist()][: len(self._own)]
        return [self._vocabulary.decode(decoding.sentence(row, self._vocabulary)) for row in ids]

    def _read_ahead(self) -> Iterator[tuple[Tensor, Tensor | None]]:
        """Features for the device, a batch being read while the one before is captioned.

        The last batch is filled up with its last image: all have one shape, so that a model that
        was compiled for it is not compiled again.
        """
        batches = [
            self._own[first : first + self._batch]
            for first in range(0, len(self._own), self._batch)
        ]
        for features, mask in read_ahead(self._read, batches):
            yield (
                features.to(self._device, non_blocking=True),
                mask.to(self._device, non_blocking=True) if self._ragged else None,
            )

    def _read(self, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        full = [*rows, *[rows[-1]] * (self._batch - len(rows))]
        features, mask = map(torch.from_numpy, read_features(self._store, full, self._regions))
        if self._device.type == "cuda":
            return features.pin_memory(), mask.pin_memory()
        return features, mask

    def _gather(self, own: list[str]) -> list[str]:
        """The captions of all processes, in the order of the rows."""
        if self._world == 1:
            return own
        parts: list[list[str]] = [[] for _ in range(self._world)]
        torch.distributed.all_gather_object(parts, own)
        captions = [""] * len(self._records)
        for rank, part in enumerate(parts):
            captions[rank :: self._world] = part
        return captions
