"""The options of `naic benchmark`, and its rows: which there are, and what may be compared."""

import math
import os
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from naic.errors import ConfigError
from naic.plugins import OPTION_WORDS
from naic.tasks.options import WORDS

Runtime = Literal["eager", "compile", "graph", "onnx"]
OtherModel = Literal["blip", "vit-gpt2"]
MOST_BATCH = 4096


@dataclass(frozen=True, slots=True)
class BenchmarkOptions:
    """What to time, and how long; the command line fills it in.

    Attributes:
        model: The student: a model folder, or an owner/name of the hub; by default the model
            inside naic.
        teacher: A causal model of the same shape, or another captioner that writes word by word.
            Without one, a model of that shape that nobody trained, which takes the same time.
        size: transformer-base: random weights in the size of the paper, in place of a model.
        device: auto, cpu, cuda or cuda:N.
        runtimes: How the models are run; both always in the same way. By default graph and eager
            on a GPU, eager and onnx on a processor. compile takes minutes to get ready.
        parts: decode, from features to words; whole, from pixels to words; or all.
        batches: Images at once. By default 1 4 16 64 256 on a GPU, 1 4 16 on a processor.
        words: How many the teacher and the others write: a sentence of the usual ten words and its
            end.
        against: Other captioners to time. By default both, if the package transformers is there;
            --against alone: none.
        seconds: How long each figure is timed.
        out: A JSON file for all figures, written anew after each group; charts come beside it.
        dry_run: List what would be timed, and time nothing.
    """

    model: Annotated[Positional[Path | None], arg(metavar="[MODEL]")] = None
    _: KW_ONLY
    teacher: Annotated[Path | None, arg(metavar="DIR")] = None
    size: Literal["shipped", "transformer-base"] = "shipped"
    device: str = "auto"
    runtimes: tuple[Runtime, ...] | None = None
    parts: Literal["all", "decode", "whole"] = "all"
    batches: tuple[int, ...] | None = None
    words: int = WORDS
    against: tuple[OtherModel, ...] | None = None
    seconds: float = 0.5
    out: Annotated[Path | None, arg(metavar="FILE.json")] = None
    dry_run: bool = False

    def check(self) -> None:
        """Refuse what cannot be, before anything is loaded."""
        if self.size != "shipped":
            for name, given in (("MODEL", self.model), ("--teacher", self.teacher)):
                if given is not None:
                    why = f"--size {self.size} has random weights, and no place for {given}"
                    raise ConfigError(name, why, "Leave one of them out.")
        for batch in self.batches or ():
            if not 1 <= batch <= MOST_BATCH:
                why = f"{batch} is not from 1 to {MOST_BATCH:,}"
                raise ConfigError("--batches", why, "Try 1 4 16.")
        if self.batches == () or self.runtimes == ():
            name = "--batches" if self.batches == () else "--runtimes"
            raise ConfigError(name, "none is named", "Name one, or leave it out.")
        if self.words < 1:
            raise ConfigError("--words", f"{self.words} is below 1", "Try 11.")
        if not 0 < self.seconds < math.inf:
            why = f"{self.seconds} is no time to measure in"
            raise ConfigError("--seconds", why, "Try 0.5.")
        self._check_out()

    def _check_out(self) -> None:
        if self.out is None:
            return
        if self.out.suffix != ".json":
            raise ConfigError("--out", f"{self.out} is not called .json", "Name it FILE.json.")
        if os.path.lexists(self.out):
            raise ConfigError("--out", f"{self.out} is there already", "Choose a new name.")
        if not self.out.parent.is_dir():
            raise ConfigError("--out", f"there is no folder {self.out.parent}", "Make it first.")

    def command(self) -> str:
        """What was asked for, so that it can be asked for again."""
        words = ["naic", "benchmark", *([str(self.model)] if self.model else [])]
        for name, value in (
            ("--teacher", self.teacher),
            ("--runtimes", self.runtimes),
            ("--batches", self.batches),
            ("--against", self.against),
        ):
            if value is not None:
                several = value if isinstance(value, tuple) else (value,)
                words += [name, *map(str, several)]
        words += ["--size", self.size, "--device", self.device, "--parts", self.parts]
        words += ["--words", str(self.words), "--seconds", f"{self.seconds:g}"]
        words += [] if self.out is None else ["--out", str(self.out)]
        return shlex.join([*words, *OPTION_WORDS])


BEAM = 3
BATCHES = {"cuda": (1, 4, 16, 64, 256), "cpu": (1, 4, 16)}
# The fastest first: a run that is cut off has the figures that matter most.
RUNTIMES: dict[str, tuple[Runtime, ...]] = {"cuda": ("graph", "eager"), "cpu": ("eager", "onnx")}
PRECISIONS = {"cuda": "float16", "cpu": "float32"}
NAIC, TEACHER = "NAIC", "teacher"
OTHER_MODELS: dict[OtherModel, str] = {"blip": "BLIP-base", "vit-gpt2": "ViT-GPT2"}
PARALLEL, WRITTEN, GREEDY, BEAMS = "parallel", "parallel, as text", "greedy", f"beam {BEAM}"

NO_GRAPH = "a CUDA graph needs an NVIDIA GPU"
NO_ONNX = "ONNX is timed on the processor: add --device cpu"
NO_FEATURES = "an exported graph takes pixels"
NO_TEACHER = "it writes word by word, and an exported graph is one pass: there is no ratio"
NO_TWIN = "this captioner is no Transformer: it has no teacher unless --teacher names one"
NO_AGAIN = "only a Transformer that writes word by word reads all its words again"
NO_SHAPE = "each word has another shape, and each would be compiled by itself"

State = Literal["planned", "timed", "left out", "failed"]
Group = tuple[int, str, str, str]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure.

    Attributes:
        part: "decode", features on the device to words on the host; "whole", pixels on the host to
            words on the host.
        runtime: "eager", "compile", "graph" or "onnx".
        precision: "float32", "float16" or "int8".
        batch: images at once.
        model: NAIC, the teacher, or another captioner.
        decoding: how it finds its words.
        cache: "on" or "off", whether the words so far are kept or read again; "none": there are
            no words so far.
        state: "timed"; "failed"; "left out": it cannot be; "planned": not yet.
        why: the reason where there is no figure.
        median_ms: of one pass over the whole batch.
        p99_ms: likewise.
        repeats: passes that counted.
        images_per_second: by the median.
        ratio: how many times as long as NAIC it takes, in the same runtime, precision and part,
            at the same batch.
        ratio_as_used: of another captioner, how many times as long as NAIC it takes, each as its
            users run it: NAIC in its fastest runtime here, the other eagerly.
    """

    part: str
    runtime: str
    precision: str
    batch: int
    model: str
    decoding: str
    cache: str = "none"
    state: State = "planned"
    why: str = ""
    median_ms: float | None = None
    p99_ms: float | None = None
    repeats: int = 0
    images_per_second: float | None = None
    ratio: float | None = None
    ratio_as_used: float | None = None

    @property
    def group(self) -> Group:
        """What must be the same for a ratio to mean something."""
        return (self.batch, self.runtime, self.precision, self.part)

    @property
    def name(self) -> str:
        """Model and decoding, unlike all others of its group."""
        without = ", no cache" if self.cache == "off" else ""
        if self.model == NAIC:
            return NAIC if self.decoding == PARALLEL else f"{NAIC}, as text"
        return f"{self.model}, {self.decoding}{without}"


def plan(options: BenchmarkOptions, device: str, *, other_models: bool) -> list[Row]:
    """All rows, in the order in which they are timed.

    Args:
        options: what was asked for.
        device: "cpu" or "cuda".
        other_models: whether transformers is here; models that were named are planned all the
            same, and say that it is missing.
    """
    parts = ("decode", "whole") if options.parts == "all" else (options.parts,)
    runtimes = options.runtimes or RUNTIMES[device]
    batches = options.batches or BATCHES[device]
    rows: list[Row] = []
    for batch in dict.fromkeys(batches):
        for runtime in dict.fromkeys(runtimes):
            for part in parts:
                rows += _own(part, runtime, batch, device)
        # On a processor they take seconds for one image.
        if "whole" in parts and (device == "cuda" or batch == batches[0]):
            against = options.against if options.against is not None else tuple(OTHER_MODELS)
            if other_models or options.against:
                rows += _others(against, batch, device)
    order = {group: place for place, group in enumerate(dict.fromkeys(row.group for row in rows))}
    return sorted(rows, key=lambda row: order[row.group])  # other models to the eager ones


def _own(part: str, runtime: str, batch: int, device: str) -> Iterator[Row]:
    """NAIC and its teacher in one runtime; what cannot be run says so."""
    precision = PRECISIONS[device]
    naic = Row(part, runtime, precision, batch, NAIC, PARALLEL)
    if runtime == "onnx":
        yield from _onnx(naic, device)
        return
    without = NO_GRAPH if runtime == "graph" and device != "cuda" else ""
    ways = [(GREEDY, "on"), (BEAMS, "on"), (GREEDY, "off"), (BEAMS, "off")]
    rows = [naic, *([replace(naic, decoding=WRITTEN)] if part == "whole" else [])]
    for decoding, cache in ways:
        rows.append(replace(naic, model=TEACHER, decoding=decoding, cache=cache))
    for row in rows:
        why = without or (NO_SHAPE if runtime == "compile" and row.cache == "off" else "")
        yield replace(row, state="left out", why=why) if why else row


def _onnx(naic: Row, device: str) -> Iterator[Row]:
    for precision in ("float32", "int8"):
        own = replace(naic, precision=precision)
        without = NO_ONNX if device != "cpu" else NO_FEATURES if naic.part == "decode" else ""
        if without:
            yield replace(own, state="left out", why=without)
            continue
        yield own
        yield replace(own, decoding=WRITTEN)
        teacher = replace(own, model=TEACHER, decoding=GREEDY, cache="on")
        yield replace(teacher, state="left out", why=NO_TEACHER)


def _others(names: Sequence[OtherModel], batch: int, device: str) -> Iterator[Row]:
    for name in names:
        for decoding in (GREEDY, BEAMS):
            model = OTHER_MODELS[name]
            yield Row("whole", "eager", PRECISIONS[device], batch, model, decoding, "on")


def without_teacher(rows: Sequence[Row]) -> list[Row]:
    """The same rows for a captioner that has no teacher of its shape."""
    return [
        replace(row, state="left out", why=NO_TWIN)
        if row.model == TEACHER and row.state == "planned"
        else row
        for row in rows
    ]


def without_reading_again(rows: Sequence[Row]) -> list[Row]:
    """The same rows for a teacher that is no Transformer, or writes several words at once."""
    return [
        replace(row, state="left out", why=NO_AGAIN)
        if row.cache == "off" and row.state == "planned"
        else row
        for row in rows
    ]


def with_ratios(rows: Sequence[Row]) -> list[Row]:
    """The rows with what can be compared compared."""
    own = {row.group: row.median_ms for row in rows if row.name == NAIC and row.median_ms}
    fastest: dict[int, float] = {}
    for (batch, _, precision, part), taken in own.items():
        if part == "whole" and precision != "int8":  # which does not say quite the same
            fastest[batch] = min(taken, fastest.get(batch, taken))
    return [_compared(row, own.get(row.group), fastest.get(row.batch)) for row in rows]


def _compared(row: Row, same: float | None, fastest: float | None) -> Row:
    if row.median_ms is None or row.model == NAIC:
        return row
    used = fastest if row.model in OTHER_MODELS.values() else None
    return replace(
        row,
        ratio=row.median_ms / same if same else None,
        ratio_as_used=row.median_ms / used if used else None,
    )
