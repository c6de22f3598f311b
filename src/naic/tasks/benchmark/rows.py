"""The rows of a benchmark: which there are, what belongs together, and what may be compared."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from naic.tasks.benchmark.options import BenchmarkOptions, Rival, Runtime

BEAM = 3
BATCHES = {"cuda": (1, 4, 16, 64, 256), "cpu": (1, 4, 16)}
# The fastest first: a run that is cut off has the figures that matter most.
RUNTIMES: dict[str, tuple[Runtime, ...]] = {"cuda": ("graph", "eager"), "cpu": ("eager", "onnx")}
PRECISIONS = {"cuda": "float16", "cpu": "float32"}
NAIC, TEACHER = "NAIC", "teacher"
RIVALS: dict[Rival, str] = {"blip": "BLIP-base", "vit-gpt2": "ViT-GPT2"}
PARALLEL, WRITTEN, GREEDY, BEAMS = "parallel", "parallel, as text", "greedy", f"beam {BEAM}"

NO_GRAPH = "a CUDA graph needs an NVIDIA GPU"
NO_ONNX = "ONNX is timed on the processor: add --device cpu"
NO_FEATURES = "an exported graph takes pixels"
NO_TEACHER = "it writes word by word, and an exported graph is one pass: there is no ratio"
NO_TWIN = "this captioner is no Transformer: there is no teacher of the same shape"
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


def plan(options: BenchmarkOptions, device: str, *, rivals: bool) -> list[Row]:
    """All rows, in the order in which they are timed.

    Args:
        options: what was asked for.
        device: "cpu" or "cuda".
        rivals: whether transformers is here; rivals that were named are planned all the same, and
            say that it is missing.
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
            against = options.against if options.against is not None else tuple(RIVALS)
            if rivals or options.against:
                rows += _others(against, batch, device)
    order = {group: place for place, group in enumerate(dict.fromkeys(row.group for row in rows))}
    return sorted(rows, key=lambda row: order[row.group])  # the rivals to the eager ones


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


def _others(names: Sequence[Rival], batch: int, device: str) -> Iterator[Row]:
    for name in names:
        for decoding in (GREEDY, BEAMS):
            model = RIVALS[name]
            yield Row("whole", "eager", PRECISIONS[device], batch, model, decoding, "on")


def without_teacher(rows: Sequence[Row]) -> list[Row]:
    """The same rows for a captioner that has no teacher of its shape."""
    return [
        replace(row, state="left out", why=NO_TWIN)
        if row.model == TEACHER and row.state == "planned"
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
    used = fastest if row.model in RIVALS.values() else None
    return replace(
        row,
        ratio=row.median_ms / same if same else None,
        ratio_as_used=row.median_ms / used if used else None,
    )
