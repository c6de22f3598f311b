"""What `extract.py` and `from_pixels.py` share: images shown in views, stores that fill up."""

from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from naic.backbones.load import Backbone, load_backbone
from naic.backbones.patches import cropped
from naic.backbones.vit import VitBlock
from naic.data.joined import SEEN, TUNED, SeenImages
from naic.data.records import Record
from naic.data.storewriter import ShardRows, StoreWriter
from naic.data.views import crop_box
from naic.models.folder import load_model

BATCH = 512
WRITERS = 4  # shards that are on their way to the disk at a time
AHEAD = 4  # batches of features on their way from the device


@dataclass
class Store:
    """One store as it fills up: shards in memory until they are whole, then written meanwhile."""

    writer: StoreWriter
    regions: int
    dim: int
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(WRITERS))
    blocks: dict[int, npt.NDArray[Any]] = field(default_factory=dict)
    missing: dict[int, int] = field(default_factory=dict)
    writing: "deque[Future[None]]" = field(default_factory=deque)

    def put(self, first: int, features: Tensor) -> None:
        """(b, R, F) of the rows from `first` on, of one shard or of several."""
        number = first // self.writer.per_shard
        span = self.writer.span(number)
        if number not in self.blocks:
            shape = (len(span), self.regions, self.dim)
            self.blocks[number] = np.empty(shape, self.writer.settings["dtype"])
            self.missing[number] = len(span)
        own = features[: span.stop - first]
        place = self.blocks[number][first - span.start : first - span.start + len(own)]
        torch.from_numpy(place).copy_(own)
        self.missing[number] -= len(own)
        if not self.missing[number]:
            self._write(number, span)
        if len(own) < len(features):
            self.put(span.stop, features[len(own) :])

    def _write(self, number: int, span: range) -> None:
        while len(self.writing) >= WRITERS:
            self.writing.popleft().result()
        features = self.blocks.pop(number).reshape(-1, self.dim)
        rows = ShardRows(list(span), [self.regions] * len(span), features)
        self.writing.append(self.pool.submit(self.writer.write, number, rows, ()))

    def finish(self) -> None:
        for written in self.writing:
            written.result()
        self.writer.finish()


@dataclass
class Viewer:
    """Shows images to backbones, in all their views, and has what they see put into stores.

    Attributes:
        backbones: by name.
        stores: with the names of the backbones whose features each one has side by side.
        records: of the images; those of their views follow in the stores (`twins`).
        mirror: splits.
        crop: splits.
        whole: give the backbones full batches only, which is all they were compiled for.
    """

    backbones: dict[str, Backbone]
    stores: list[tuple[Store, Sequence[str]]]
    records: Sequence[Record]
    mirror: Sequence[str] = ()
    crop: Sequence[str] = ()
    whole: bool = False
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    coming: "deque[Future[None]]" = field(default_factory=deque)

    def __post_init__(self) -> None:
        """Find the row of each image in each of its views; -1 where there is none."""
        self.device = next(iter(self.backbones.values())).device
        everything = np.arange(len(self.records))
        self.rows, count = [everything], len(everything)
        for splits in (self.mirror, self.crop):
            chosen = np.array([record.split in splits for record in self.records], bool)
            self.rows.append(np.where(chosen, count + np.cumsum(chosen) - 1, -1))
            count += int(chosen.sum())
        boxes = [crop_box(record.id) for record in self.records] if self.crop else []
        self.boxes = torch.tensor(boxes, dtype=torch.float32).reshape(-1, 4)  # (images, 4)

    def show(self, first: int, decoded: Tensor) -> None:
        """Pixels uint8 (b, P, P, 3) of the images from `first` on."""
        pixels = self._there(decoded)
        for view, rows in enumerate(self.rows):
            (chosen,) = np.nonzero(rows[first : first + len(pixels)] >= 0)
            if len(chosen) == 0:
                continue
            which = torch.from_numpy(chosen)
            own = pixels if len(chosen) == len(pixels) else pixels[self._there(which)]
            if view == 1:
                own = own.flip(2)
            elif view == 2:
                own = cropped(own, self._there(self.boxes[first + which]))
            self._look(int(rows[first + chosen[0]]), own)

    def _there(self, tensor: Tensor) -> Tensor:
        """On the device, without waiting for what it is doing."""
        if self.device.type != "cuda":
            return tensor
        return tensor.pin_memory().to(self.device, non_blocking=True)

    def _look(self, row: int, pixels: Tensor) -> None:
        """Features of pixels (b, P, P, 3) for the rows from `row` on."""
        count = len(pixels)
        if self.whole and count < BATCH:
            pixels = torch.cat((pixels, pixels.new_zeros(BATCH - count, *pixels.shape[1:])))
        seen = {name: backbone(pixels)[:count] for name, backbone in self.backbones.items()}
        kept = [torch.cat([seen[name] for name in names], dim=2) for _, names in self.stores]
        kept = [own.half() if own.is_floating_point() else own for own in kept]
        event = None
        if self.device.type == "cuda":
            homes = [torch.empty(own.shape, dtype=own.dtype, pin_memory=True) for own in kept]
            kept = [h.copy_(own, non_blocking=True) for h, own in zip(homes, kept, strict=True)]
            event = torch.cuda.Event()  # type: ignore[no-untyped-call]
            event.record()
        self.coming.append(self.pool.submit(self._put, event, row, kept))
        while len(self.coming) > AHEAD:
            self.coming.popleft().result()

    def _put(self, event: "torch.cuda.Event | None", row: int, kept: list[Tensor]) -> None:
        if event is not None:
            event.synchronize()
        for (store, _), features in zip(self.stores, kept, strict=True):
            store.put(row, features)

    def finish(self) -> None:
        for put in self.coming:
            put.result()
        for store, _ in self.stores:
            store.finish()


def open_store(
    folder: Path,
    records: Sequence[Record],
    backbones: list[Backbone],
    index: dict[str, Any],
    *,
    tuned: bool = False,
) -> Store:
    """A store for one backbone, or for several side by side; `index` is added to its settings."""
    folder.mkdir(parents=True)
    first = backbones[0]
    settings: dict[str, Any] = {
        "reader": "karpathy",
        "backbone": "+".join(backbone.name for backbone in backbones),
        "weights": load_digest(backbones),
        "pixels": first.pixels,
        "regions": first.regions,
        "dim": sum(backbone.dim for backbone in backbones),
        "dtype": first.dtype,
        "device": first.device.type,
        "batch": BATCH,
        **index,
    }
    for weight in first.module.parameters():
        settings["precision"] = str(weight.dtype).removeprefix("torch.")
    notes = {TUNED: True} if tuned else {}
    writer = StoreWriter(folder, records, settings, per_shard=4 * BATCH, notes=notes)
    return Store(writer, settings["regions"], settings["dim"])


def load_digest(backbones: list[Backbone]) -> str:
    """As the backbone that is named has it."""
    if len(backbones) == 1:
        return backbones[0].digest
    return load_backbone("+".join(b.name for b in backbones), device="cpu").digest


def load_inside(model: Path, pixels: int) -> Backbone:
    """The backbone inside a model, in half precision on a GPU."""
    loaded = load_model(model)
    name = loaded.spec.backbone(loaded.settings.model)
    return halved(load_backbone(name, pixels=pixels, weights=model))


def halved(backbone: Backbone) -> Backbone:
    """The same one in half precision, if it is on a GPU."""
    if backbone.device.type == "cuda":
        backbone.module.half()
    return backbone


def compile_blocks(backbone: Backbone) -> None:
    """Compile the blocks of vision transformers: one for all of a network, in seconds.

    For batches of `BATCH` images, which are tried at once.
    """
    for module in backbone.module.modules():
        if isinstance(module, VitBlock):
            module.compile(dynamic=False)
    size = backbone.pixels
    backbone(torch.zeros(BATCH, size, size, 3, dtype=torch.uint8))


def note_seen(store: Path, model: Path, records: Sequence[Record], splits: Sequence[str]) -> None:
    """Beside the features: whose captions their backbone has learnt from.

    The model's own list; if it has none, the images of these splits, if any are named.
    """
    if (model / SEEN).is_file():
        (store / SEEN).write_bytes((model / SEEN).read_bytes())
    elif splits:
        seen = SeenImages(frozenset(r.id for r in records if r.split in splits))
        (store / SEEN).write_bytes(seen.as_json())
