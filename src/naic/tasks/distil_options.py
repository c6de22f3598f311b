"""The options of `naic distil`."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from naic.errors import ConfigError

WIDEST_BEAM = 100


@dataclass(frozen=True, slots=True)
class DistilOptions:
    """Who captions what, how, and where to put it; the command line fills it in.

    Attributes:
        model: The teacher: the folder of a causal model, such as runs/teacher/best.
        out: The folder for the captions.
        features: Feature stores whose images are to be captioned.
        images: Folders of images instead; their features are put into DIR/features first, with
            the backbone that the teacher learnt from.
        splits: Caption only the images of these splits, such as: train restval.
        beam: How many sentences are followed at a time.
        keep: How many of them are kept for each image, likeliest first.
        batch: How many images are captioned at once.
        device: auto, cpu, cuda or cuda:N.
        precision: bfloat16 is faster on a GPU, and now and then says something else.
        part: Make every N-th shard only, from the I-th on: N processes, each with its own I, share
            the work. The one that finds all shards done finishes the store.
        dry_run: Say what would be done and write nothing.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    out: Annotated[Path, arg(metavar="DIR")]
    features: Annotated[tuple[Path, ...], arg(metavar="STORE ...")] = ()
    images: Annotated[tuple[Path, ...], arg(metavar="PATH ...")] = ()
    splits: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    beam: int = 3
    keep: int = 1
    batch: int = 256
    device: str = "auto"
    precision: Literal["float32", "bfloat16"] = "float32"
    part: Annotated[str | None, arg(metavar="I/N")] = None
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        if bool(self.features) == bool(self.images):
            why = "one of the two is needed, and not both"
            raise ConfigError(
                "--features, --images", why, "Feature stores are what `naic prepare` makes."
            )
        if not 1 <= self.beam <= WIDEST_BEAM:
            why = f"{self.beam} is not between 1 and {WIDEST_BEAM}"
            raise ConfigError("--beam", why, "The paper's is 3.")
        if not 1 <= self.keep <= self.beam:
            why = f"{self.keep} of the {self.beam} sentences of the beam cannot be kept"
            raise ConfigError("--keep", why, "Keep 1 or more, or widen --beam.")
        if self.batch < 1:
            raise ConfigError("--batch", f"{self.batch} is below 1", "Try 256.")
        if self.images and self.part is not None:
            why = "images are turned into features by one process"
            hint = "Run `naic prepare folder` first, and share the work on its --features."
            raise ConfigError("--part", why, hint)
        self.share()

    def share(self) -> tuple[int, int]:
        """Which shards are this process's: number I - 1 and every N-th after it, as (I - 1, N)."""
        if self.part is None:
            return 0, 1
        found = re.fullmatch(r"([0-9]{1,6})/([0-9]{1,6})", self.part)
        if found is None or not 1 <= int(found[1]) <= int(found[2]):
            why = f"{self.part!r} is no part"
            raise ConfigError("--part", why, "Write 1/4 for the first of four.")
        return int(found[1]) - 1, int(found[2])
