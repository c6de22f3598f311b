r"""Feature stores of several backbones in one pass over COCO, while its tars are still arriving.

python benchmarks/backbones/extract.py dataset_coco.json.xz TARS --tars 28 --out STORES \
    --backbones efficientnet-lite2 dinov2-vits14 clip-vit-b16 --joined clip-vit-b16 dinov2-vits14

Each image is decoded once and seen by every backbone, in half precision on a GPU. TARS is a folder
in which 00.tar, 01.tar ... appear, in the order of the dataset's images of train, restval and val;
those of test come last. STORES gets a feature store for each backbone (`pixels` is one of them),
one for those joined, and extract.json: how long it took. The stores are what `naic prepare` makes,
but for the precision, which their index tells.
"""

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from naic.backbones.load import Backbone, load_backbone
from naic.data.decoding import decode_batches
from naic.data.readers import list_under, read_json_object
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.data.tars import index_tar
from naic.images.sources import FileImage, TarImage

SPLITS = ("train", "restval", "val", "test")
PIXELS = 256
BATCH = 512


@dataclass
class Store:
    """One store as it fills up: a shard in memory, the one before on its way to the disk."""

    writer: StoreWriter
    regions: int
    dim: int
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    block: Any = None
    first: int = 0
    filled: int = 0
    writing: "Future[None] | None" = None

    def add(self, features: Tensor) -> None:
        """(b, R, F) of the next images; shards are a whole number of batches long."""
        if self.block is None:
            size = min(self.writer.per_shard, len(self.writer.records) - self.first)
            self.block = np.empty((size, self.regions, self.dim), self.writer.settings["dtype"])
        torch.from_numpy(self.block[self.filled : self.filled + len(features)]).copy_(features)
        self.filled += len(features)
        if self.filled == len(self.block):
            self.flush()

    def flush(self) -> None:
        """Hand the shard to the writer."""
        if self.writing is not None:
            self.writing.result()
        positions = list(range(self.first, self.first + self.filled))
        lengths = [self.regions] * self.filled
        rows = ShardRows(positions, lengths, self.block.reshape(-1, self.dim))
        number = self.first // self.writer.per_shard
        self.writing = self.pool.submit(self.writer.write, number, rows, ())
        self.first, self.filled, self.block = self.first + self.filled, 0, None

    def finish(self) -> None:
        if self.writing is not None:
            self.writing.result()
        self.writer.finish()


def read_records(dataset: Path, splits: list[str], limit: int | None) -> list[Record]:
    """The images with their captions, in the order of the file, those of test after the others.

    `limit`: so many of each split.
    """
    seen = dict.fromkeys(splits, 0)
    records = []
    images = list_under(read_json_object(dataset), "images", dataset)
    for image in images:
        assert isinstance(image, dict)
        split = image["split"]
        if split not in seen or (limit is not None and seen[split] >= limit):
            continue
        seen[split] += 1
        captions = tuple(sentence["raw"] for sentence in image["sentences"])
        name = FileImage(Path(f"{image['cocoid']:012d}.jpg"))
        records.append(Record(str(image["cocoid"]), name, captions, split))
    return sorted(records, key=lambda record: record.split == "test")


def arriving(records: list[Record], folder: Path, tars: int) -> Iterator[TarImage]:
    """The records' images out of the tars, each waited for until it is there."""
    places: dict[str, TarImage] = {}
    number = 0
    for record in records:
        name = record.image.name
        while name not in places:
            if number == tars:
                raise SystemExit(f"{name} is in none of the tars")
            path = folder / f"{number:02d}.tar"
            while not path.exists():
                time.sleep(0.1)
            print(f"{time.monotonic():.0f} {path.name}", flush=True)
            places = {key: TarImage(path, *member) for key, member in index_tar(path).items()}
            number += 1
        yield places[name]


def open_store(folder: Path, records: list[Record], backbones: list[Backbone]) -> Store:
    """A store for one backbone, or for several side by side."""
    name = "+".join(backbone.name for backbone in backbones)
    folder = folder / name
    folder.mkdir(parents=True)
    settings: dict[str, Any] = {
        "reader": "karpathy",
        "backbone": name,
        "weights": load_digest(backbones),
        "pixels": PIXELS,
        "regions": backbones[0].regions,
        "dim": sum(backbone.dim for backbone in backbones),
        "dtype": backbones[0].dtype,
        "device": backbones[0].device.type,
        "batch": BATCH,
    }
    for weight in backbones[0].module.parameters():
        settings["precision"] = str(weight.dtype).removeprefix("torch.")
    writer = StoreWriter(folder, records, settings, per_shard=4 * BATCH)
    return Store(writer, settings["regions"], settings["dim"])


def load_digest(backbones: list[Backbone]) -> str:
    """As the backbone that is named has it."""
    if len(backbones) == 1:
        return backbones[0].digest
    return load_backbone("+".join(b.name for b in backbones), device="cpu").digest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tars", type=int, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--backbones", nargs="+", required=True)
    parser.add_argument("--joined", nargs="*", default=[])
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS[:3])
    parser.add_argument("--limit", type=int, help="images of each split, for a dry run")
    options = parser.parse_args()
    records = read_records(options.dataset, options.splits, options.limit)
    backbones = {name: load_backbone(name, pixels=PIXELS) for name in options.backbones}
    for backbone in backbones.values():
        if backbone.device.type == "cuda":
            backbone.module.half()
    stores = {n: open_store(options.out, records, [b]) for n, b in backbones.items()}
    joined = [backbones[name] for name in options.joined]
    both = open_store(options.out, records, joined) if joined else None
    began, done = time.monotonic(), 0
    images = arriving(records, options.folder, options.tars)
    for decoded in decode_batches(images, PIXELS, batch=BATCH, processes=True):
        if decoded.errors:
            raise decoded.errors[0][1]
        pixels = torch.from_numpy(decoded.pixels).to(next(iter(backbones.values())).device)
        seen = {name: backbone(pixels) for name, backbone in backbones.items()}
        for name, features in seen.items():
            stores[name].add(features)
        if both is not None:
            both.add(torch.cat([seen[name] for name in options.joined], dim=2))
        done += len(decoded.positions)
        if done % (8 * BATCH) == 0:
            print(f"{time.monotonic() - began:.1f} s, {done:,} of {len(records):,}", flush=True)
    for store in (*stores.values(), *([both] if both else [])):
        store.finish()
    took = {"images": done, "seconds": time.monotonic() - began, "backbones": options.backbones}
    (options.out / "extract.json").write_text(json.dumps(took), encoding="utf-8")
    print(json.dumps(took), flush=True)


if __name__ == "__main__":
    main()
