"""One pure function for a shard: the images of a shard in, an output and statistics out.

What comes out depends on the shard and on what was asked for, not on who makes it, when, or how
often: so shards are made by any number of processes on any number of machines, twice if need be.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from naic.data.decoding import Decoded, ImageDecoder, decode_with
from naic.device import threads
from naic.errors import DataError, ImageError, Problem, StorageError, StoreError
from naic.images.sources import ImageSource
from naic.storage import exists, join, write_whole
from naic.stores import shown
from naic.tasks.shards.folder import OutFolder, Statistics
from naic.tasks.shards.inputs import Shard, absolute
from naic.tasks.shards.options import Asked, CaptionShards, PrepareShards, task_of
from naic.tasks.shards.rows import Columns, Row, open_rows


class Made(NamedTuple):
    """The output of a shard: its bytes, and how many images it has, and errors in place of some."""

    data: bytes
    images: int
    errors: int


class Maker(Protocol):
    """What makes an output of the images of a shard. It has a model; to load that takes a while.

    Attributes:
        beside: files, by their names, that the folder has once for all shards.
    """

    beside: Mapping[str, bytes]

    def __call__(self, shard: Shard, rows: Iterator[Row]) -> Made:
        """The output: the same bytes for the same images."""
        ...


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of a shard: its statistics, or why it has none."""

    shard: Shard
    statistics: Statistics | None = None
    problem: Problem | None = None


def make_shard(shard: Shard, maker: Maker, columns: Columns, out: OutFolder) -> Statistics:
    """Make the output of a shard and put it in its place, whole or not at all.

    Raises:
        DataError, StorageError: the shard is damaged, or cannot be read.
        WriteError: the output cannot be written.
    """
    started = time.perf_counter()
    with open_rows(shard.source, columns) as rows:
        made = maker(shard, rows)
    seconds = time.perf_counter() - started
    statistics = Statistics(shown(shard.source), made.images, made.errors, round(seconds, 3))
    # The statistics first: where the output is, they are.
    out.write_statistics(shard.name, statistics)
    write_whole(out.output(shard.name), made.data)
    return statistics


class Worker:
    """Who makes shards, one after another, with a model that is loaded once."""

    def __init__(self, asked: Asked, tell: Callable[[Problem], None]) -> None:
        """Load what the task takes; `tell` hears what may not be meant.

        Raises:
            NaicError: the model, the backbone or a package cannot be had.
        """
        self._columns = Columns(asked.image_column, asked.key_column)
        self._out = OutFolder(absolute(asked.out), task_of(asked))
        self._maker = make_maker(asked, tell)
        for name, data in self._maker.beside.items():
            if not exists(path := join(self._out.where, name)):
                write_whole(path, data)  # others may, too: the same bytes

    def __call__(self, shard: Shard) -> Outcome:
        """Make a shard; one that is damaged or cannot be read is noted, and the run goes on.

        Raises:
            NaicError: what would be wrong with the next shard, too: a full disk, say.
        """
        try:
            statistics = make_shard(shard, self._maker, self._columns, self._out)
        except (DataError, StorageError, StoreError) as error:
            problem = Problem(shown(shard.source), error.why, error.hint)
            self._out.write_problem(shard.name, problem)
            return Outcome(shard, problem=problem)
        return Outcome(shard, statistics)


def make_maker(asked: Asked, tell: Callable[[Problem], None]) -> Maker:
    """What does the task that was asked for. Nothing of another task is imported."""
    if isinstance(asked, CaptionShards):
        from naic.tasks.shards.captions import CaptionMaker

        return CaptionMaker(asked, tell)
    if isinstance(asked, PrepareShards):
        from naic.tasks.shards.features import FeatureMaker

        return FeatureMaker(asked)
    from naic.tasks.shards.taught import TaughtMaker

    return TaughtMaker(asked)


class Looking:
    """Decoders that stay from shard to shard; the next batches are decoded while one is used."""

    def __init__(self, pixels: int, batch: int, device: str) -> None:
        """Threads beside a network on a CPU, which leaves little to decode with; else processes."""
        self._decoder = ImageDecoder(threads(), pixels, isolated=device != "cpu")
        self._batch = batch

    def __call__(self, rows: Iterator[Row]) -> Iterator[tuple[Sequence[str], Decoded]]:
        """Batches, each with the keys of all rows so far: positions of images are places there."""
        keys: list[str] = []

        def images() -> Iterator[ImageSource]:
            for row in rows:
                keys.append(row.key)
                yield row.image

        for decoded in decode_with(self._decoder, images(), batch=self._batch):
            yield keys, decoded


def why_not(error: ImageError) -> str:
    """What a row says of its image. Where the image lies is left out: it is elsewhere elsewhere."""
    return f"{error.why}. {error.hint}".rstrip()
