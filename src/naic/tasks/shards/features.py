"""Features of a shard, laid out as a shard of a feature store, with the list of its images."""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from naic.backbones.load import BROUGHT, COLOURS, Backbone, load_backbone
from naic.data.features import PLUGIN
from naic.data.joined import SEEN, TUNED, read_seen
from naic.data.storewriter import shard_chunks
from naic.storage import name_of
from naic.tasks.shards.inputs import Shard
from naic.tasks.shards.making import Looking, Made, why_not
from naic.tasks.shards.options import PrepareShards
from naic.tasks.shards.rows import Row


class FeatureMaker:
    """A backbone that writes shards of a feature store."""

    def __init__(self, asked: PrepareShards) -> None:
        """Load the backbone."""
        own = load_backbone(
            asked.backbone, pixels=asked.pixels, weights=asked.weights, device=asked.device
        )
        self._backbone = own
        self._look = Looking(own.pixels, asked.batch, own.device.type)
        seen = None if asked.weights is None else read_seen(asked.weights)
        self.beside: Mapping[str, bytes] = {} if seen is None else {SEEN: seen.as_json()}
        tuned = asked.weights is not None and asked.weights.is_dir()
        plugin = BROUGHT.get(asked.backbone.removesuffix(COLOURS))
        self._settings: dict[str, Any] = {
            "backbone": own.name,
            "weights": own.digest,
            "pixels": own.pixels,
            "regions": own.regions,
            "dim": own.dim,
            "dtype": own.dtype,
            "batch": asked.batch,
            **({TUNED: True} if tuned else {}),
            **({PLUGIN: plugin} if plugin else {}),
        }

    def __call__(self, shard: Shard, rows: Iterator[Row]) -> Made:
        """The features of the images that can be used, and of the others why they cannot."""
        blocks: list[npt.NDArray[Any]] = []
        images, errors = list[tuple[str, str]](), list[tuple[str, str]]()
        known = Known(shard)
        for keys, seen in self._look(rows):
            wrong = {at: why_not(error) for at, error in seen.errors}
            good: list[int] = []
            for at in sorted({*wrong, *seen.positions}):
                id_, name = known.new(keys[at]), known.name(keys[at])
                if at in wrong or id_ is None:
                    errors.append((name, wrong.get(at, TWICE)))
                else:
                    images.append((id_, name))
                    good.append(seen.positions.index(at))
            if good:
                blocks.append(stored(self._backbone, seen.pixels[good]))
        data = self._file(shard.name, blocks, {"images": images, "errors": errors})
        return Made(data, len(images) + len(errors), len(errors))

    def _file(self, name: str, blocks: list[npt.NDArray[Any]], about: dict[str, Any]) -> bytes:
        """The bytes of the shard of features (b, R, F) each; `blocks` is emptied meanwhile."""
        own = self._backbone
        empty = np.empty((0, own.dim), own.dtype)
        features = np.concatenate([empty, *(block.reshape(-1, own.dim) for block in blocks)])
        blocks.clear()  # else they are in memory three times
        lengths = [own.regions] * len(about["images"])
        note = {"settings": self._settings} | about
        return b"".join(shard_chunks(name, features, lengths, own.dtype, note))


TWICE = "another image of the shard has its key. Give each its own, or choose another --key-column."


class Known:
    """What the images of a shard are called in a store, where each has an id of its own."""

    def __init__(self, shard: Shard) -> None:
        self._shard = shard
        self._seen: set[str] = set()

    def new(self, key: str) -> str | None:
        """The id of the image with this key, which shards have in common; None: it has come."""
        if key in self._seen:
            return None
        self._seen.add(key)
        return f"{self._shard.name}/{key}"

    def name(self, key: str) -> str:
        """What to call it to people."""
        return f"{name_of(self._shard.source)}:{key}"


def stored(backbone: Backbone, pixels: npt.NDArray[np.uint8]) -> npt.NDArray[Any]:
    """(B, R, F) of pixels (B, P, P, 3), as a store keeps them."""
    features = backbone(torch.from_numpy(pixels))
    if features.is_floating_point():  # rounded before it travels
        features = features.half()
    found: npt.NDArray[Any] = features.cpu().numpy()
    return found
