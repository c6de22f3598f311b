r"""Feature stores in one pass over images, while their tars are still arriving.

python benchmarks/backbones/extract.py dataset_coco.json.xz TARS --tars 28 --out STORES \
    --backbones efficientnet-lite2 dinov2-vits14 clip-vit-b16 --joined clip-vit-b16 dinov2-vits14
python benchmarks/backbones/extract.py dataset_coco.json.xz TARS --tars 28 --out STORE \
    --weights MODEL --mirror train restval --crop train restval
python benchmarks/backbones/extract.py flickr.txt TARS --tars 3 --prefix flickr- --out STORE \
    --weights MODEL --mirror train

Each image is decoded once, and seen in every view by every backbone, in half precision on a GPU.
TARS is a folder in which 00.tar, 01.tar ... appear, in the order of the dataset's images of train,
restval and val; those of test come last. STORES gets a feature store for each backbone (`pixels` is
one of them), one for those joined, and extract.json: how long it took. With --weights there is one
STORE, by the backbone inside MODEL. A list of names (.txt) in the place of a dataset makes a store
of unlabelled images. The stores are what `naic prepare` makes, but for the precision, which their
index tells; images are mirrored and cropped after they were squashed, which is the same but for
rounding.
"""

import argparse
import json
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from stores import (  # type: ignore[import-not-found]
    BATCH,
    Store,
    Viewer,
    compile_blocks,
    halved,
    load_inside,
    note_seen,
    open_store,
)

from naic.backbones.load import load_backbone
from naic.data.decoding import decode_batches
from naic.data.readers.textfiles import list_under, read_json_object
from naic.data.records import Record
from naic.data.tars import index_tar
from naic.data.views import twins
from naic.images.sources import FileImage, TarImage

SPLITS = ("train", "restval", "val", "test")
PIXELS = 256
SEEN_HELP = "splits whose captions the model's backbone has learnt from, if its folder has no list"


def read_records(dataset: Path, splits: list[str], limit: int | None) -> list[Record]:
    """The images with their captions, in the order of the file, those of test after the others.

    A list of names has no captions, and all its images are of "train". `limit`: so many of each
    split.
    """
    if dataset.suffix == ".txt":
        names = [Path(name) for name in dataset.read_text(encoding="utf-8").split()]
        return [Record(name.stem, FileImage(name), (), "train") for name in names[:limit]]
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


def arriving(records: list[Record], folder: Path, tars: int, prefix: str) -> Iterator[TarImage]:
    """The records' images out of the tars, each waited for until it is there."""
    places: dict[str, TarImage] = {}
    number = 0
    for record in records:
        name = record.image.name
        while name not in places:
            if number == tars:
                raise SystemExit(f"{name} is in none of the tars")
            path = folder / f"{prefix}{number:02d}.tar"
            while not path.exists():
                time.sleep(0.1)
            print(f"{time.monotonic():.0f} {path.name}", flush=True)
            places = {key: TarImage(path, *member) for key, member in index_tar(path).items()}
            number += 1
        yield places[name]


def main(argv: list[str] | None = None) -> None:
    options = parse(argv)
    records = read_records(options.dataset, options.splits, options.limit)
    began = time.monotonic()
    viewer = open_viewer(options, records)
    print(f"{time.monotonic() - began:.1f} s until the first image", flush=True)
    began, done = time.monotonic(), 0
    images = arriving(records, options.folder, options.tars, options.prefix)
    for decoded in decode_batches(images, PIXELS, batch=BATCH, processes=True):
        if decoded.errors:
            raise decoded.errors[0][1]
        viewer.show(done, torch.from_numpy(decoded.pixels))
        done += len(decoded.positions)
        if done % (8 * BATCH) == 0:
            print(f"{time.monotonic() - began:.1f} s, {done:,} of {len(records):,}", flush=True)
    viewer.finish()
    if options.weights:
        note_seen(options.out, options.weights, records, options.seen)
    took = {"images": done, "seconds": time.monotonic() - began, "backbones": options.backbones}
    (options.out / "extract.json").write_text(json.dumps(took), encoding="utf-8")
    print(json.dumps(took), flush=True)


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--tars", type=int, required=True)
    parser.add_argument("--prefix", default="", help="how the names of the tars begin")
    parser.add_argument("--out", type=Path, required=True)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--backbones", nargs="+", default=[])
    which.add_argument("--weights", type=Path, help="a model with a backbone inside")
    parser.add_argument("--joined", nargs="*", default=[])
    parser.add_argument("--splits", nargs="+", choices=SPLITS, default=SPLITS[:3])
    parser.add_argument("--mirror", nargs="*", default=[], help="splits to be seen mirrored, too")
    parser.add_argument("--crop", nargs="*", default=[], help="splits to be seen in part, too")
    parser.add_argument("--seen", nargs="*", default=[], help=SEEN_HELP)
    parser.add_argument("--compile", action="store_true", help="blocks of vision transformers")
    parser.add_argument("--limit", type=int, help="images of each split, for a dry run")
    return parser.parse_args(argv)


def open_viewer(options: argparse.Namespace, records: list[Record]) -> Viewer:
    """The backbones, and the stores for what they see."""
    if options.weights:
        inside = load_inside(options.weights, PIXELS)
        backbones = {inside.name: inside}
    else:
        own = {name: load_backbone(name, pixels=PIXELS) for name in options.backbones}
        backbones = {name: halved(backbone) for name, backbone in own.items()}
    views = {"mirrored": options.mirror, "cropped": options.crop}
    index: dict[str, Any] = {name: splits for name, splits in views.items() if splits}
    if options.dataset.suffix == ".txt":
        index |= {"reader": "folder", "unlabelled": True}
    everything = [*records, *twins(records, options.mirror, options.crop)]
    stores: list[tuple[Store, Sequence[str]]] = []
    for names in [[name] for name in backbones] + ([options.joined] if options.joined else []):
        folder = options.out if options.weights else options.out / "+".join(names)
        together = [backbones[name] for name in names]
        store = open_store(folder, everything, together, index, tuned=bool(options.weights))
        stores.append((store, names))
    if options.compile:
        for backbone in backbones.values():
            compile_blocks(backbone)
    return Viewer(backbones, stores, records, options.mirror, options.crop, whole=options.compile)


if __name__ == "__main__":
    main()
