"""The options of `naic prepare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from naic.data.readers import ReaderName
from naic.errors import ConfigError


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """What to read, with which backbone, and where to put it; the command line fills it in.

    Attributes:
        reader: How SOURCE is to be read.
        source: The file or folder to read; for shapes, how many scenes to draw.
        out: The folder for the features.
        images: Folders or .tar files with the images, when they lie elsewhere.
        backbone: efficientnet-lite0, efficientnet-lite1, efficientnet-lite2, or timm:NAME; with
            +colours after it the features also hold the colours of each cell. For drawn images
            such as those of shapes: blobs, their patches of even colour. For a model that learns
            to see: pixels, the images themselves.
        weights: A safetensors file with the weights of a timm: backbone, or for an efficientnet the
            folder of a model that has such a backbone and trained it, such as RUN/best.
        pixels: Images are squashed to this many pixels a side; by default the backbone's own.
        device: auto, cpu, cuda or cuda:N.
        batch: How many images go through the backbone at once.
        per_shard: How many images go into one file: what a kill can cost at most.
        workers: How many images are decoded at once; 0 means one for each core.
        splits: Take only these splits, such as: train restval.
        limit: Take only the first so many images.
        unlabelled: Leave the captions (and facts) out: for images that stand in for unlabelled
            ones.
        mirror: Take the images of these splits mirrored, too, as images of their own with the
            same captions. For photos: people rarely speak of left and right there, and a model
            learns less by heart. Name the splits it is trained on, such as: train restval.
        seed: Which scenes shapes draws.
        skip_bad: Leave bad rows of SOURCE out and count them, instead of stopping at the first.
        retry_bad: Try images again that an earlier run into DIR could not use.
        dry_run: Say what would be done (counts, GB, time) and write nothing.
    """

    reader: Positional[ReaderName]
    source: Annotated[Positional[str], arg(metavar="SOURCE")]
    out: Annotated[Path | None, arg(metavar="DIR")] = None
    images: Annotated[tuple[Path, ...], arg(metavar="PATH ...")] = ()
    backbone: Annotated[str, arg(metavar="NAME")] = "efficientnet-lite2"
    weights: Annotated[Path | None, arg(metavar="PATH")] = None
    pixels: Annotated[int | None, arg(metavar="INT")] = None
    device: str = "auto"
    batch: int = 16
    per_shard: int = 512
    workers: int = 0
    splits: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    limit: Annotated[int | None, arg(metavar="INT")] = None
    unlabelled: bool = False
    mirror: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    seed: int = 0
    skip_bad: bool = False
    retry_bad: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Refuse values that cannot be; not on creation, since a file may give only some."""
        for option, value in (("--batch", self.batch), ("--per-shard", self.per_shard)):
            if value < 1:
                raise ConfigError(option, f"{value} is below 1", "Try 16 and 512.")
        if self.per_shard % self.batch:
            raise ConfigError(
                "--batch",
                f"{self.batch} does not divide --per-shard {self.per_shard}",
                "No batch may cross the end of a shard: try 16, 32, 64, 128 or 256.",
            )
        if self.pixels is not None and not 32 <= self.pixels <= 2048:
            raise ConfigError("--pixels", f"{self.pixels} is out of range", "Choose 32 to 2048.")
        if self.workers < 0:
            raise ConfigError("--workers", "is negative", "0 means one for each core.")
