"""What a teacher says of the images of a shard, as a shard of a pseudo-caption store."""

import json
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt
import torch

from naic.data.pseudo import VOCABULARY, Taught, taught_line
from naic.models.teacher import Teacher
from naic.resume import pretty
from naic.tasks.distil import backbone_of
from naic.tasks.shards.features import TWICE, Known, stored
from naic.tasks.shards.folder import TEACHER
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Looking, Made, why_not
from naic.tasks.shards.options import DistilShards
from naic.tasks.shards.rows import Row


class TaughtMaker:
    """A teacher with the backbone that it learnt from."""

    def __init__(self, asked: DistilShards) -> None:
        """Load both."""
        self._teacher = Teacher(
            asked.model,
            device=asked.device,
            beam=asked.beam,
            keep=asked.keep,
            precision=asked.precision,
        )
        self._backbone = backbone_of(self._teacher, asked.device, asked.weights)
        self._batch = asked.batch
        own = self._backbone
        about = {
            "teacher": {
                "folder": "/".join(asked.model.absolute().parts[-2:]),
                "weights": self._teacher.digest,
                "vocabulary": self._teacher.vocabulary.fingerprint,
            },
            "beam": asked.beam,
            "keep": asked.keep,
            "precision": asked.precision,
            "features": [{"backbone": own.name, "weights": own.digest, "pixels": own.pixels}],
            "batch": asked.batch,
        }
        words = self._teacher.vocabulary.as_json()
        self.beside: Mapping[str, bytes] = {VOCABULARY: words, TEACHER: pretty(about)}
        self._look = Looking(own.pixels, asked.batch, own.device.type)

    def __call__(self, shard: Shard, rows: Iterator[Row]) -> Made:
        """A line an image: what the teacher says of it, or why it says nothing."""
        lines: list[str] = []
        known, errors = Known(shard), 0
        for keys, seen in self._look(rows):
            wrong = {at: why_not(error) for at, error in seen.errors}
            told = dict(zip(seen.positions, self._taught(seen.pixels), strict=True))
            for at in sorted({*wrong, *told}):
                id_ = known.new(keys[at])
                if at in wrong or id_ is None:
                    errors += 1
                    error = wrong.get(at, TWICE)
                    lines.append(json.dumps({"image": known.name(keys[at]), "error": error}))
                else:
                    lines.append(taught_line(id_, told[at]))
        data = "".join(f"{line}\n" for line in lines).encode()
        return Made(data, len(lines), errors)

    def _taught(self, pixels: npt.NDArray[np.uint8]) -> list[Taught]:
        """Of pixels (b, P, P, 3), in a batch of the full size.

        What is said of an image then does not depend on how many come with it.
        """
        count = len(pixels)
        if not count:
            return []
        rows = np.minimum(np.arange(self._batch), count - 1)
        features = torch.from_numpy(stored(self._backbone, pixels))[rows]  # (B, R, F)
        return self._teacher.say(features, None)[:count]
