"""The options of `naic shards`: one set for each thing to make of shards."""

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import FlagCreatePairsOff, Positional, arg

from naic.errors import ConfigError
from naic.tasks.caption.options import CaptionOptions, Precision, Runtime, path_word
from naic.tasks.options import check_beam

MOST_WORKERS = 1024
_Model = Annotated[Path, path_word("--model")]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardOptions:
    """Which shards, where to, and by whom: the same for all tasks.

    Attributes:
        inputs: Files that end in .tar (as of webdataset), .parquet, or .txt (a list of images, one
            a line); folders of them; patterns such as 'in/*.tar' or 'in/{000..999}.tar', in quotes;
            paths or URLs, such as s3://bucket/in/{000..999}.tar.
        out: The folder for what is made, an output for each shard; a path, or an s3:// URL.
        shard: Do only every N-th shard, from the I-th on: N jobs of a cluster, each with its own I
            from 1 to N, share the work.
        workers: How many processes, each with a model of its own; 0 means one for each core, or
            for each GPU.
        engine: processes of this machine, or workers of a Ray cluster: of the one that RAY_ADDRESS
            names, or that was started on this machine, or else of one for this run.
        device: auto, cpu, cuda or cuda:N.
        image_column: The column of Parquet shards that has the images, as bytes, as {bytes, path}
            or as paths; by default the first that is called like one, such as image.
        key_column: The column with what an image is known by; by default key, __key__, id or
            image_id, or else the path, or else the number of the row.
        batch: How many images the model sees at once.
        dry_run: Say which shards would be done and write nothing.
    """

    inputs: Annotated[Positional[tuple[str, ...]], arg(metavar="SHARD ...")]
    out: Annotated[str, arg(metavar="DIR")]
    shard: Annotated[str | None, arg(metavar="I/N")] = None
    workers: Annotated[int, arg(metavar="N")] = 0
    engine: Literal["processes", "ray"] = "processes"
    device: str = "auto"
    image_column: Annotated[str | None, arg(metavar="NAME")] = None
    key_column: Annotated[str | None, arg(metavar="NAME")] = None
    batch: int = 16
    dry_run: Annotated[bool, FlagCreatePairsOff] = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is listed."""
        if not self.out:
            hint = "If it came from a variable of the shell, that is not set."
            raise ConfigError("--out", "it is empty", hint)
        if not 0 <= self.workers <= MOST_WORKERS:
            why = f"{self.workers} is not from 0 to {MOST_WORKERS}"
            raise ConfigError("--workers", why, "0 means one for each core, or for each GPU.")
        if self.batch < 1:
            raise ConfigError("--batch", f"{self.batch} is below 1", "Try 16.")


@dataclass(frozen=True, slots=True, kw_only=True)
class CaptionShards(ShardOptions):
    """Captions of all images in shards; the command line fills it in.

    Attributes:
        model: A model folder, a file or folder of `naic export`, or an owner/name of the hub; by
            default the model inside naic.
        alternatives: Give the likeliest N sentences; the first is the caption itself.
        max_words: Cut longer captions, at a word that can end a sentence.
        max_chars: The same for captions of more characters.
        forbid: Words that are not said, such as "man,woman".
        prefer: Words that are said rather than others, where the model considers them.
        neutral: Say person, people, child and the like instead of guessing a gender.
        style: Write captions in the style of the model, if it has learnt one.
        runtime: How the model is run; auto chooses as naic caption does.
        precision: In which numbers; auto chooses as naic caption does.
    """

    model: Annotated[_Model | None, arg(metavar="MODEL")] = None
    alternatives: Annotated[int, arg(metavar="N")] = 0
    max_words: Annotated[int | None, arg(metavar="N")] = None
    max_chars: Annotated[int | None, arg(metavar="N")] = None
    forbid: Annotated[str, arg(metavar="WORDS")] = ""
    prefer: Annotated[str, arg(metavar="WORDS")] = ""
    neutral: bool = False
    style: bool = True
    runtime: Runtime = "auto"
    precision: Precision = "auto"

    def as_caption(self) -> CaptionOptions:
        """The same for `naic caption`, which knows the words and the model."""
        both = {own.name for own in fields(CaptionOptions)} & {own.name for own in fields(self)}
        shared = {name: getattr(self, name) for name in both - {"out"}}
        return CaptionOptions((Path("-"),), confidence=True, format="jsonl", **shared)

    def check(self) -> None:
        """Refuse what cannot be, as `naic caption` would."""
        super(CaptionShards, self).check()
        self.as_caption().check()


@dataclass(frozen=True, slots=True, kw_only=True)
class PrepareShards(ShardOptions):
    """Features of all images in shards, as a feature store; the command line fills it in.

    Attributes:
        backbone: As of naic prepare: efficientnet-lite2, clip-vit-b16, dinov2-vits14, pixels, ...
        weights: The folder of a model that has such a backbone inside and trained it, or a file of
            weights, as of naic prepare.
        pixels: Images are squashed to this many pixels a side; by default the backbone's own.
    """

    backbone: Annotated[str, arg(metavar="NAME")] = "efficientnet-lite2"
    weights: Annotated[Path | None, arg(metavar="PATH")] = None
    pixels: Annotated[int | None, arg(metavar="INT")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DistilShards(ShardOptions):
    """A teacher's captions of all images in shards; the command line fills it in.

    Attributes:
        model: The teacher: the folder of a causal model, such as runs/teacher/best.
        weights: The weights of its backbone, where these are its own, as of naic prepare.
        beam: How many sentences are followed at a time.
        keep: How many of them are kept for each image, likeliest first.
        precision: bfloat16 is faster on a GPU, and now and then says something else.
    """

    model: Annotated[_Model, arg(metavar="TEACHER")]
    weights: Annotated[Path | None, arg(metavar="PATH")] = None
    beam: int = 3
    keep: int = 1
    batch: int = 64
    precision: Literal["float32", "bfloat16"] = "float32"

    def check(self) -> None:
        """Refuse what cannot be."""
        super(DistilShards, self).check()
        check_beam(self.beam, self.keep)


Asked = CaptionShards | PrepareShards | DistilShards
Task = Literal["caption", "prepare", "distil"]


def task_of(asked: Asked) -> Task:
    """What is to be made, in a word."""
    if isinstance(asked, CaptionShards):
        return "caption"
    return "prepare" if isinstance(asked, PrepareShards) else "distil"
