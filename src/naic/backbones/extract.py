"""Many pictures through a backbone: decoding overlaps with the network, memory stays bounded."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from naic.backbones.load import Backbone
from naic.data.decoding import ENOUGH_FOR_PROCESSES, Decoder, Pixels
from naic.data.records import ImageSource
from naic.errors import ImageError

BATCHES_AHEAD = 3  # decoded pictures waiting for the network: enough to ride out a slow file


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came of one batch of pictures."""

    positions: list[int]  # which pictures the rows of `features` belong to
    features: Tensor  # (len(positions), R, F), on the backbone's device
    errors: list[tuple[int, ImageError]]


@dataclass(frozen=True, slots=True)
class _Batch:
    """Pictures on their way: `pixels` is filled in while the futures come true."""

    first: int
    pixels: Pixels  # (b, P, P, 3)
    results: list["Future[ImageError | None]"]


def extract(
    images: Sequence[ImageSource], backbone: Backbone, *, batch: int = 16, workers: int = 0
) -> Iterator[Extracted]:
    """Features of `images`, a batch at a time, in order.

    A picture that cannot be read becomes an error of its batch and does not move the others:
    batch b is made of pictures b·batch to (b+1)·batch-1, so the numbers that come out do not
    depend on timing. `workers` is the number of decoders; 0 means one for each core.
    """
    size = backbone.pixels
    # A network on a CPU leaves little to decode with: threads do, and spare it the pipes.
    isolated = backbone.device.type != "cpu" and len(images) >= ENOUGH_FOR_PROCESSES
    with Decoder(workers or os.cpu_count() or 1, size, isolated=isolated) as decoder:
        waiting: deque[_Batch] = deque()
        for first in range(0, len(images), batch):
            chunk = images[first : first + batch]
            pixels = np.empty((len(chunk), size, size, 3), np.uint8)
            results = [decoder.submit(*task) for task in zip(chunk, pixels, strict=True)]
            waiting.append(_Batch(first, pixels, results))
            if len(waiting) > BATCHES_AHEAD:
                yield _forward(waiting.popleft(), backbone)
        while waiting:
            yield _forward(waiting.popleft(), backbone)


def _forward(batch: _Batch, backbone: Backbone) -> Extracted:
    outcomes = [(row, result.result()) for row, result in enumerate(batch.results)]
    errors = [(batch.first + row, error) for row, error in outcomes if error is not None]
    good = [row for row, error in outcomes if error is None]
    if not good:
        return Extracted([], torch.empty(0, backbone.regions, backbone.dim), errors)
    pixels = batch.pixels[good] if errors else batch.pixels
    features = backbone(torch.from_numpy(pixels))
    return Extracted([batch.first + row for row in good], features, errors)
