r"""A feature store from a store of pixels, by the backbone inside a model: no JPEG is read again.

python benchmarks/backbones/from_pixels.py data/coco-pixels --weights runs/coco-backbone-packed \
    --mirror train restval --out data/coco-features

What `naic prepare karpathy ... --weights MODEL --mirror train restval` makes, in less time and, on
a GPU, in half precision, which the store's index tells. Images are mirrored (and cropped) after
they were squashed and not before, which is the same but for rounding.
"""

import argparse
import time
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
from stores import (  # type: ignore[import-not-found]
    BATCH,
    Viewer,
    load_inside,
    note_seen,
    open_store,
)
from torch import Tensor

from naic.backbones.patches import put_together
from naic.data.features import FeatureStore
from naic.data.records import Record
from naic.data.views import twins
from naic.images.sources import FileImage


def look(store: FeatureStore) -> Iterator[Tensor]:
    """Pixels uint8 (b, P, P, 3) of the images, a batch at a time; the next are read meanwhile."""
    firsts = range(0, len(store), BATCH)
    with ThreadPoolExecutor(2) as pool:
        coming = deque(pool.submit(read, store, first) for first in firsts[:2])
        for number in range(len(firsts)):
            pixels = coming.popleft().result()
            if number + 2 < len(firsts):
                coming.append(pool.submit(read, store, firsts[number + 2]))
            yield pixels


def read(store: FeatureStore, first: int) -> Tensor:
    """uint8 (b, P, P, 3) the pixels of a batch."""
    rows = range(first, min(first + BATCH, len(store)))
    return put_together(torch.from_numpy(store.batch(rows)[0]))


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pixels", type=Path)
    parser.add_argument("--weights", type=Path, required=True)
    parser.add_argument("--mirror", nargs="*", default=[])
    parser.add_argument("--crop", nargs="*", default=[])
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(argv)
    store = FeatureStore(options.pixels)
    backbone = load_inside(options.weights, int(store.index["pixels"]))
    records = [Record(r.id, FileImage(Path(r.image)), r.captions, r.split) for r in store.records]
    everything = [*records, *twins(records, options.mirror, options.crop)]
    views = {"mirrored": options.mirror, "cropped": options.crop}
    index = {name: splits for name, splits in views.items() if splits}
    index |= {key: store.index[key] for key in ("reader", "unlabelled") if key in store.index}
    filling = open_store(options.out, everything, [backbone], index, tuned=True)
    stores = [(filling, [backbone.name])]
    viewer = Viewer({backbone.name: backbone}, stores, records, options.mirror, options.crop)
    began, done = time.monotonic(), 0
    for pixels in look(store):
        viewer.show(done, pixels)
        done += len(pixels)
    viewer.finish()
    note_seen(options.out, options.weights, records, ())
    print(f"{len(everything):,} views in {time.monotonic() - began:.1f} s", flush=True)


if __name__ == "__main__":
    main()
