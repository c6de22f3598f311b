"""Batches for the training step: what to take is decided on the host, the taking is tensor work.

`draw` says which images and captions a step has; `fetch` gathers them. With the features on the
device `fetch` is nothing but gathers there, so it can be part of a CUDA graph.
"""

from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from naic.data.batches import Ints, Spread, Targets, columns, count_regions
from naic.data.features import read_features
from naic.errors import ConfigError
from naic.text import PAD
from naic.train.kept import Kept, identity
from naic.train.settings import RunSettings

if TYPE_CHECKING:
    from naic.data.joined import AnyStore

Bools = npt.NDArray[np.bool_]
_IMAGES_AT_ONCE = 512  # on their way to the device, by each reader: some 100 MB of locked memory
_READERS = 6


class Draw(NamedTuple):
    """Which images and captions a batch is made of.

    Attributes:
        rows: (b,) rows of the feature store, which are the rows of the references too.
        places: (b,) places among the targets that this process holds.
        columns: (b, C) which captions; -1 where the image has no more.
        normaliser: 0-dim float32, target words of the whole step: all processes, all parts.
        images: 0-dim float32, images of the whole step.
        judged: 0-dim float32, those of them that have references.
        features: (b, R, F), where features are kept on the host.
        mask: (b, R), where they are, and images have different numbers of regions.
    """

    rows: Tensor
    places: Tensor
    columns: Tensor
    normaliser: Tensor
    images: Tensor
    judged: Tensor
    features: Tensor | None
    mask: Tensor | None


class Batch(NamedTuple):
    """What a stage learns from.

    Attributes:
        features: (b, R, F) as the store has them: float16, or uint8 for pixels.
        mask: (b, R) True where there is a region; None where all images have R.
        words: (b, C, N) int64 targets; a caption that is not there is all PAD.
        rows: (b,) rows of the references.
        normaliser: 0-dim float32, target words of the whole step.
        images: 0-dim float32, images of the whole step.
        judged: 0-dim float32, those of them that have references: what rewards are means over.
    """

    features: Tensor
    mask: Tensor | None
    words: Tensor
    rows: Tensor
    normaliser: Tensor
    images: Tensor
    judged: Tensor


def check_shares(batch: int, world: int, accumulate: int) -> None:
    """Refuse a batch that cannot be cut into equal parts."""
    if batch % (world * accumulate):
        why = f"{batch} images cannot be shared by {world} processes in {accumulate} parts each"
        hint = f"Choose a multiple of {world * accumulate}, or another number of processes."
        raise ConfigError("run.batch", why, hint)


@dataclass(frozen=True)
class Shares:
    """How a step is shared out, as checkpoints keep it.

    Attributes:
        accumulate: `run.accumulate` as it was set.
        pieces: into how many pieces the run cut a step when it began: its processes times parts.
    """

    accumulate: int
    pieces: int


def share_out(run: RunSettings, world: int, before: Mapping[str, int] | None) -> tuple[Shares, int]:
    """How this part of a run shares its steps out, and the parts that each process takes.

    A step has as many images whatever their number, so with fewer processes each has more of them.
    So that no more are in memory at once than when the run began, it takes them in more parts;
    unless `run.accumulate` was set anew, which then holds.
    """
    if before is None or before["accumulate"] != run.accumulate:
        return Shares(run.accumulate, world * run.accumulate), run.accumulate
    parts = max(run.accumulate, -(-before["pieces"] // world))
    while run.batch % (world * parts):  # of one image each at the latest
        parts += 1
    return Shares(run.accumulate, before["pieces"]), parts


class Feed:
    """The batches of one process.

    A step's images do not depend on how many processes share it: process r takes the r-th part of
    the global batch, and cuts that into `accumulate` parts. With `spread` it holds, and reads, the
    features of those images only that can come in its share.
    """

    def __init__(
        self,
        store: "AnyStore",
        targets: Targets,
        *,
        batch: int,
        captions: int,
        seed: int,
        rank: int = 0,
        world: int = 1,
        accumulate: int = 1,
        spread: int = 1,
        device: torch.device | str = "cpu",
        keep: Literal["device", "host"] = "device",
        fill: bool = False,
        kept: Kept | None = None,
        judged: Bools | None = None,
    ) -> None:
        """`fill` counts the places after the period as targets too, as `cross_entropy` does.

        With `kept`, features that an earlier run brought to the device are not read again. `judged`
        says which of the targets' images (I,) have references; without it all have.
        """
        check_shares(batch, world, accumulate)
        self._store = store
        self._targets = targets
        self._captions = captions
        self._share = (rank, world, accumulate)
        self._device = torch.device(device)
        self._stream = Spread(len(targets), batch, seed, spread)
        self._held = self._stream.held(rank, world)
        regions = count_regions(store, targets.rows)
        self._regions = int(regions.max())
        self._ragged = bool((regions < self._regions).any())
        self._learnt = _learnt_words(targets, fill)  # (I, C + 1)
        self._judged = judged
        self._images = torch.tensor(float(batch), device=self._device)
        # One more caption of nothing but PAD: that is where column -1 leads.
        own = targets.ids[self._held]
        padded = np.pad(own, ((0, 0), (0, 1), (0, 0)), constant_values=PAD)
        self._ids = torch.from_numpy(padded).to(self._device)
        self._table: tuple[Tensor, Tensor | None] | None = None
        self._reader: ThreadPoolExecutor | None = None
        self._ahead: dict[int, Future[list[Draw]]] = {}
        if keep == "device":
            self._table = (kept or Kept()).get("features", self._origin(), self._bring_all)
        else:
            self._reader = ThreadPoolExecutor(1, "naic-feed")

    def draw(self, step: int) -> list[Draw]:
        """What this process learns in a step, in `accumulate` parts.

        A pure function of the step. With features on the host those of the next step are read
        meanwhile; what goes wrong there is raised when that step is drawn.
        """
        if self._reader is None:
            parts = self._plan(step)
        else:
            coming = self._ahead.pop(step, None) or self._reader.submit(self._plan, step)
            self._ahead = {step + 1: self._reader.submit(self._plan, step + 1)}
            parts = coming.result()
        return [self._sent(part) for part in parts]

    def fetch(self, draw: Draw) -> Batch:
        """Gather a batch; no value is looked at, so nothing waits for the device."""
        places = draw.places
        features, mask = draw.features, draw.mask
        if self._table is not None:
            table, masks = self._table
            features = table.index_select(0, places)  # (b, R, F)
            mask = masks.index_select(0, places) if masks is not None else None
        assert features is not None
        words = self._ids[places[:, None], draw.columns].long()  # (b, C, N)
        return Batch(features, mask, words, draw.rows, draw.normaliser, draw.images, draw.judged)

    def cut(self, accumulate: int) -> None:
        """Before the first draw: cut this process's share into another number of parts."""
        rank, world, _ = self._share
        check_shares(self._stream.batch, world, accumulate)
        self._share = (rank, world, accumulate)

    def epoch(self, step: int) -> float:
        """How many epochs are over when a step begins."""
        return self._stream.epoch_of(step)

    def close(self) -> None:
        """Stop reading ahead."""
        if self._reader is not None:
            self._reader.shutdown(cancel_futures=True)

    def _plan(self, step: int) -> list[Draw]:
        """The parts of a step, still on the host; always run by the same thread."""
        places = self._stream.at(step)  # (batch,)
        counts = self._targets.counts[places]
        epochs = self._stream.epochs(step)
        chosen = columns(counts, places, epochs, self._captions, self._stream.seed)  # (batch, C)
        # Each process counts the words of all: no need to ask the others.
        words = self._learnt[places[:, None], chosen].sum()
        normaliser = torch.tensor(float(words), dtype=torch.float32)
        rank, world, accumulate = self._share
        size = len(places) // (world * accumulate)
        starts = range(rank * accumulate * size, (rank + 1) * accumulate * size, size)
        totals = (normaliser, self._images, self._count_judged(places))
        return [
            self._part(places[first : first + size], chosen[first : first + size], totals)
            for first in starts
        ]

    def _count_judged(self, places: Ints) -> Tensor:
        """Of a step's images those with references; 1 where there are none, to divide by."""
        if self._judged is None:
            return self._images
        return torch.tensor(max(1.0, float(self._judged[places].sum())))

    def _part(self, places: Ints, chosen: Ints, totals: tuple[Tensor, Tensor, Tensor]) -> Draw:
        rows = self._targets.rows[places]
        features, mask = (None, None) if self._table is not None else self._read(rows)
        return Draw(
            torch.from_numpy(rows),
            torch.from_numpy(places - self._held.start),
            torch.from_numpy(chosen),
            *totals,
            features,
            mask,
        )

    def _sent(self, part: Draw) -> Draw:
        sent = {
            name: self._locked(value).to(self._device, non_blocking=True)
            for name, value in part._asdict().items()
            if value is not None and value.device.type == "cpu"  # others are there already
        }
        return part._replace(**sent)

    def _locked(self, value: Tensor) -> Tensor:
        """In page-locked memory, from which a GPU copies while the host goes on."""
        return value.pin_memory() if self._device.type == "cuda" else value

    def _read(self, rows: Ints) -> tuple[Tensor, Tensor | None]:
        features, mask = read_features(self._store, rows, self._regions)
        lengths = self._locked(torch.from_numpy(mask)) if self._ragged else None
        return self._locked(torch.from_numpy(features)), lengths

    def _origin(self) -> tuple[object, ...]:
        """What tells the table of these features on this device from another."""
        stores = tuple(map(identity, self._store.stores))
        return stores, self._targets.rows[self._held].tobytes(), self._device

    def _bring_all(self) -> tuple[Tensor, Tensor | None]:
        """(H, R, F) the features of the images that are held, and their mask, on the device."""
        rows = self._targets.rows[self._held]
        shape = (len(rows), self._regions, self._store.dim)
        kind = torch.from_numpy(np.empty(0, self._store.dtype)).dtype
        try:
            table = torch.empty(shape, dtype=kind, device=self._device)
        except RuntimeError as error:  # of a CPU's memory it is no OutOfMemoryError
            size = kind.itemsize * np.prod(shape, dtype=np.int64) / 1e9
            why = f"{size:.3g} GB of features do not fit the memory of {self._device}"
            hint = 'Set keep = "host", or spread them over processes: data.spread.'
            raise ConfigError("data.keep", why, hint) from error
        masks = torch.empty(shape[:2], dtype=torch.bool, device=self._device)

        def bring(first: int) -> None:
            some = slice(first, first + _IMAGES_AT_ONCE)
            features, mask = self._read(rows[some])
            table[some].copy_(features)
            if mask is not None:
                masks[some].copy_(mask)

        # Several at a time: one core copies a few gigabytes a second, and there may be forty.
        with ThreadPoolExecutor(_READERS, "naic-feed") as pool:
            list(pool.map(bring, range(0, len(rows), _IMAGES_AT_ONCE)))
        return table, masks if self._ragged else None


def _learnt_words(targets: Targets, fill: bool) -> Ints:
    """(I, C + 1) target words of each caption, and 0 for the one that is not there."""
    words: Ints = (targets.ids != PAD).sum(2, dtype=np.int64)
    if fill:
        words = np.where(words > 0, targets.ids.shape[2], 0)
    return np.pad(words, ((0, 0), (0, 1)))
