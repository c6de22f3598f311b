r"""A feature store from a store of pixels, by the backbone inside a model: no JPEG is read again.

python benchmarks/backbones/from_pixels.py data/coco-pixels --weights runs/coco-backbone-packed \
    --mirror train restval --out data/coco-features

What `naic prepare karpathy ... --weights MODEL --mirror train restval` makes, in less time and, on
a GPU, in half precision, which the store's index tells. Images are mirrored after they were
squashed and not before, which is the same but for rounding.
"""

import argparse
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from extract import BATCH, Store  # type: ignore[import-not-found]
from torch import Tensor

from naic.backbones.load import Backbone, load_backbone
from naic.backbones.patches import put_together
from naic.data.features import MIRRORED_ID, FeatureStore
from naic.data.joined import SEEN, TUNED
from naic.data.records import Record
from naic.data.storewriter import StoreWriter
from naic.images.sources import FileImage, Mirrored
from naic.models.folder import load_model


@dataclass(frozen=True)
class View:
    """An image of the pixel store, as it is or mirrored."""

    row: int
    mirrored: bool


def list_views(store: FeatureStore, mirror: list[str]) -> tuple[list[View], list[Record]]:
    """All images, then those of the splits to be mirrored again, in the order of `naic prepare`."""
    views, records = [], []
    for row, kept in enumerate(store.records):
        views.append(View(row, mirrored=False))
        records.append(Record(kept.id, FileImage(Path(kept.image)), kept.captions, kept.split))
    for view, record in list(zip(views, records, strict=True)):
        if record.split in mirror:
            views.append(View(view.row, mirrored=True))
            twin = replace(
                record, id=f"{record.id}{MIRRORED_ID}", image=Mirrored(record.image), facts=None
            )
            records.append(twin)
    return views, records


def look(store: FeatureStore, views: list[View], backbone: Backbone) -> Iterator[Tensor]:
    """Features (b, R, F) of the views, a batch at a time; the next one is read meanwhile."""
    batches = [views[first : first + BATCH] for first in range(0, len(views), BATCH)]
    with ThreadPoolExecutor(2) as pool:
        coming = deque(pool.submit(read, store, some) for some in batches[:2])
        for number, some in enumerate(batches):
            cells = coming.popleft().result()
            if number + 2 < len(batches):
                coming.append(pool.submit(read, store, batches[number + 2]))
            yield see(cells, some, backbone)


def read(store: FeatureStore, views: list[View]) -> Tensor:
    """uint8 (b, cells, 3072) the pixels of the views."""
    return torch.from_numpy(store.batch([view.row for view in views])[0])


def see(cells: Tensor, some: list[View], backbone: Backbone) -> Tensor:
    """(b, R, F) features of pixels uint8 (b, cells, 3072), some of them mirrored."""
    pixels = put_together(cells.to(backbone.device))  # (b, P, P, 3)
    turned = torch.tensor([view.mirrored for view in some], device=backbone.device)
    return backbone(torch.where(turned[:, None, None, None], pixels.flip(2), pixels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pixels", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--mirror", nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    store = FeatureStore(options.pixels)
    loaded = load_model(options.weights)
    name, size = loaded.spec.backbone(loaded.settings.model), int(store.index["pixels"])
    backbone = load_backbone(name, pixels=size, weights=options.weights)
    if backbone.device.type == "cuda":
        backbone.module.half()
    views, records = list_views(store, options.mirror)
    settings: dict[str, Any] = {
        "reader": store.index["reader"],
        "backbone": name,
        "weights": backbone.digest,
        "pixels": size,
        "regions": backbone.regions,
        "dim": backbone.dim,
        "dtype": backbone.dtype,
        "device": backbone.device.type,
        "batch": BATCH,
        "precision": str(next(backbone.module.parameters()).dtype).removeprefix("torch."),
        **({"mirrored": options.mirror} if options.mirror else {}),
    }
    options.out.mkdir(parents=True)
    notes = {TUNED: True}
    writer = StoreWriter(options.out, records, settings, per_shard=4 * BATCH, notes=notes)
    filling = Store(writer, backbone.regions, backbone.dim)
    began = time.monotonic()
    for features in look(store, views, backbone):
        filling.add(features)
    filling.finish()
    if (options.weights / SEEN).is_file():
        (options.out / SEEN).write_bytes((options.weights / SEEN).read_bytes())
    print(f"{len(views):,} views in {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
