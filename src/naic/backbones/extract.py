"""Many images through a backbone: decoding overlaps with the network, memory stays bounded."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from naic.backbones.load import Backbone
from naic.data.decoding import decode_batches
from naic.errors import ImageError

if TYPE_CHECKING:
    from naic.images.sources import ImageSource


@dataclass(frozen=True, slots=True)
class Extracted:
    """What came of one batch of images."""

    positions: list[int]  # which images the rows of `features` belong to
    features: Tensor  # (len(positions), R, F), on the backbone's device
    errors: list[tuple[int, ImageError]]


def extract(
    images: "Iterable[ImageSource]", backbone: Backbone, *, batch: int = 16, workers: int = 0
) -> Iterator[Extracted]:
    """Features of `images`, a batch at a time, in order.

    Which images make a batch does not depend on timing, and so the numbers that come out do not
    either. `workers` is the number of decoders; 0 means one for each core.
    """
    # A network on a CPU leaves little to decode with: threads do, and spare it the pipes.
    processes = backbone.device.type != "cpu"
    for decoded in decode_batches(
        images, backbone.pixels, batch=batch, processes=processes, workers=workers
    ):
        if decoded.positions:
            features = backbone(torch.from_numpy(decoded.pixels))
        else:
            features = torch.empty(0, backbone.regions, backbone.dim)
        yield Extracted(decoded.positions, features, decoded.errors)
