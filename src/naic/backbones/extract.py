"""Many pictures through a backbone: decoding overlaps with the network, memory stays bounded."""

import os
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from naic.backbones.cpu import yield_to_the_network
from naic.backbones.load import Backbone
from naic.data.records import ImageSource
from naic.errors import ImageError
from naic.images import square_pixels

Pixels = npt.NDArray[np.uint8]
BATCHES_AHEAD = 3  # decoded pictures waiting for the network: enough to ride out a slow file


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came of one batch of pictures."""

    positions: list[int]  # which pictures the rows of `features` belong to
    features: Tensor  # (len(positions), R, F), on the backbone's device
    errors: list[tuple[int, ImageError]]


def extract(
    images: Sequence[ImageSource], backbone: Backbone, *, batch: int = 16, workers: int = 0
) -> Iterator[Extracted]:
    """Features of `images`, a batch at a time, in order.

    Pictures are decoded in threads (Pillow releases the interpreter while it decodes), always a
    few batches ahead of the network. A picture that cannot be read becomes an error of its batch
    and does not move the others: batch b is made of pictures b·batch .. (b+1)·batch-1, so the
    numbers that come out do not depend on timing.
    """
    threads = workers or os.cpu_count() or 1
    with ThreadPoolExecutor(threads, "decode", initializer=yield_to_the_network) as pool:
        waiting: deque[tuple[int, list[Future[Pixels | ImageError]]]] = deque()
        try:
            for first in range(0, len(images), batch):
                chunk = images[first : first + batch]
                waiting.append((first, [pool.submit(_decode, i, backbone.pixels) for i in chunk]))
                if len(waiting) > BATCHES_AHEAD:
                    yield _forward(*waiting.popleft(), backbone)
            while waiting:
                yield _forward(*waiting.popleft(), backbone)
        finally:
            pool.shutdown(cancel_futures=True)


def _decode(image: ImageSource, pixels: int) -> Pixels | ImageError:
    try:
        return square_pixels(image.load(at_least=pixels), pixels)
    except ImageError as error:
        return error


def _forward(first: int, tasks: list[Future[Pixels | ImageError]], backbone: Backbone) -> Extracted:
    positions, pictures, errors = [], [], []
    for position, task in enumerate(tasks, first):
        decoded = task.result()
        if isinstance(decoded, ImageError):
            errors.append((position, decoded))
        else:
            positions.append(position)
            pictures.append(decoded)
    if pictures:
        features = backbone(torch.from_numpy(np.stack(pictures)))
    else:
        features = torch.empty(0, backbone.regions, backbone.dim)
    return Extracted(positions, features, errors)
