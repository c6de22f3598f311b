"""A captioner's graph without its weights, and how they come from those that the model has anyway.

    graph-int8.onnx    the graph; its large tensors are named in it, and lie elsewhere
    graph-int8.json    of which weight of model.safetensors each of them is made, and by what steps

Both are small, so that a model stays one packed file, and runs without torch: numpy unpacks the
weights and takes the steps, once, and the cache keeps what comes of it (`graphs.py`). What is read
here may be a stranger's: no tensor is made that is not as large as the weight it comes from.
"""

import base64
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from naic.errors import CheckpointError
from naic.files import CODES
from naic.runtime.int8 import eight_bits
from naic.unpacking import SCALES, misfit, unpacked

Array = npt.NDArray[Any]
Step = tuple[Any, ...]  # its name, and what it is done with
FORMAT, VERSION = "naic graph", 1
DATA = "weights.bin"  # where the graph looks for its tensors: a file beside it
PRECISIONS = ("int8", "float32")
PAGE, LINE = 4096, 64  # large tensors begin at a page, so that they can be mapped
MOST_USES = 8  # of one weight, in one graph
ROUNDED = {"": np.float32, "int8": np.int8, "scales": np.float32}
_HINT = "Make it again: naic export MODEL --beside"

# What reading JSON that somebody has damaged, or made up, may end in.
_DAMAGED = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)

_STEPS: dict[str, Callable[..., Array]] = {
    "permute": lambda x, axes: x.transpose(axes),
    "rows": lambda x: x.reshape(len(x), -1),
    "transpose": lambda x: x.T,
    "times": lambda x, number: x * np.float32(number),
    "over": lambda x, number: x / np.float32(number),
}
# With a vector of a skeleton, by its number: on what goes in, on what comes out, (O, I) or (O,).
_WITH_VECTOR: dict[str, Callable[[Array, Array], Array]] = {
    "inputs": lambda x, vector: x * _fitting(vector, x.shape[-1]),
    "outputs": lambda x, vector: x / _fitting(vector, len(x)).reshape(-1, *[1] * (x.ndim - 1)),
    "plus": lambda x, vector: x + _fitting(vector, x.shape[-1]),
}


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor that the graph leaves out.

    Attributes:
        name: of the tensor in the graph.
        shape: its own.
        weight: the weight that it comes from.
        stored: the shape of that weight.
        steps: what is done to the weight, in this order.
        rounded: "int8": then rounded to 8 bits; "scales": the steps of that rounding; or "".
    """

    name: str
    shape: tuple[int, ...]
    weight: str
    stored: tuple[int, ...]
    steps: tuple[Step, ...]
    rounded: str = ""

    @property
    def nbytes(self) -> int:
        """The size of its tensor."""
        return prod(self.shape) * np.dtype(ROUNDED[self.rounded]).itemsize


@dataclass(frozen=True, slots=True)
class Skeleton:
    """What is known of a graph beside a model.

    Attributes:
        precision: "int8" or "float32".
        weights: SHA-256 of the model.safetensors that it belongs to.
        graph: SHA-256 of the graph itself.
        vectors: what some steps are done with.
        parts: the tensors, in the order in which they lie in `DATA`.
    """

    precision: str
    weights: str
    graph: str
    vectors: tuple[Array, ...]
    parts: tuple[Part, ...]


def graph_names(precision: str) -> tuple[str, str]:
    """The names of its two files."""
    return f"graph-{precision}.onnx", f"graph-{precision}.json"


def encoded(vector: npt.NDArray[np.float32]) -> str:
    """A vector as text, to the bit."""
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()


def decoded(text: str) -> npt.NDArray[np.float32]:
    """What was `encoded`."""
    return np.frombuffer(base64.b64decode(text, validate=True), "<f4")


def _fitting(vector: Array, size: int) -> Array:
    """The vector, which must be as long as what it is for."""
    if vector.shape != (size,):
        raise ValueError(f"{len(vector)} numbers are not for {size}")
    return vector


def follow(
    weight: Array, steps: Sequence[Step], vectors: Sequence[Array]
) -> npt.NDArray[np.float32]:
    """A weight, float32, after these steps."""
    for name, *how in steps:
        if name in _WITH_VECTOR:
            weight = _WITH_VECTOR[name](weight, vectors[how[0]])
        else:
            weight = _STEPS[name](weight, *how)
    return np.ascontiguousarray(weight, np.float32)


def places(parts: Sequence[Part]) -> list[int]:
    """Where each tensor begins in `DATA`, and after them where it ends."""
    found, end = [], 0
    for part in parts:
        step = PAGE if part.nbytes >= PAGE else LINE
        begin = -(-end // step) * step
        found.append(begin)
        end = begin + part.nbytes
    return [*found, end]


def fill(path: Path, skeleton: Skeleton, tensors: Mapping[str, Array]) -> Iterator[Array]:
    """The tensors of a graph, one after the other; `tensors` are those of a model's file at `path`.

    Raises:
        CheckpointError: they do not belong together.
    """
    for _, group in groupby(skeleton.parts, key=lambda part: (part.weight, part.steps)):
        several = list(group)
        first = several[0]
        try:
            weight = _weight(path, first, tensors)
            matrix = follow(weight, first.steps, skeleton.vectors)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise CheckpointError(str(path), f"{first.weight}: {error}", _HINT) from error
        small = eight_bits(matrix) if any(part.rounded for part in several) else None
        for part in several:
            made: Array = matrix
            if small is not None and part.rounded:
                made = small[0] if part.rounded == "int8" else small[1]
            if made.shape != part.shape:
                why = f"{part.weight} gives a tensor of {made.shape}, not {part.shape}"
                raise CheckpointError(str(path), why, _HINT)
            yield made


def _weight(path: Path, part: Part, tensors: Mapping[str, Array]) -> Array:
    """The weight that a tensor comes from, as float32."""
    codes, scales = tensors.get(part.weight + CODES), tensors.get(part.weight + SCALES)
    if codes is not None and scales is not None:
        if why := misfit(codes, scales, part.stored):
            raise CheckpointError(str(path), f"{part.weight}: {why}", "Use a whole copy of it.")
        return unpacked(codes, scales, part.stored)
    found = tensors.get(part.weight)
    if found is None or found.shape != part.stored or found.dtype.kind != "f":
        why = f"has no weight {part.weight} of {part.stored}"
        raise CheckpointError(str(path), why, _HINT)
    return found.astype(np.float32)


def write_skeleton(skeleton: Skeleton) -> bytes:
    """The JSON of it."""
    parts = [
        [part.name, part.shape, part.weight, part.stored, part.steps, part.rounded]
        for part in skeleton.parts
    ]
    names = ("precision", "weights", "graph")
    facts = {FORMAT: VERSION} | {name: getattr(skeleton, name) for name in names}
    facts["vectors"] = [encoded(vector) for vector in skeleton.vectors]
    rows = ",\n".join(json.dumps(part, separators=(",", ":")) for part in parts)
    return f'{json.dumps(facts)[:-1]}, "parts": [\n{rows}\n]}}\n'.encode()


def read_skeleton(path: Path, data: bytes) -> Skeleton:
    """What `write_skeleton` made.

    Raises:
        CheckpointError: it is damaged, or of another version of naic.
    """
    try:
        facts = json.loads(data)
        if facts.get(FORMAT) != VERSION:
            why = "is of another version of naic, or no graph of it"
            raise CheckpointError(str(path), why, _HINT)
        parts = tuple(_part(row) for row in facts["parts"])
        vectors = tuple(decoded(text) for text in facts["vectors"])
        found = Skeleton(facts["precision"], facts["weights"], facts["graph"], vectors, parts)
    except _DAMAGED as error:
        raise CheckpointError(str(path), f"is damaged ({error})", _HINT) from error
    uses: dict[str, int] = {}
    for part in parts:
        uses[part.weight] = uses.get(part.weight, 0) + 1
        bad = prod(part.shape) > prod(part.stored) or uses[part.weight] > MOST_USES
        if bad or part.rounded not in ROUNDED or not _known(part.steps):
            why = f"asks for a tensor that no weight {part.weight} of {part.stored} gives"
            raise CheckpointError(str(path), why, _HINT)
    return found


def _known(steps: Sequence[Step]) -> bool:
    names = [step[0] if step else None for step in steps]
    return all(isinstance(n, str) and (n in _STEPS or n in _WITH_VECTOR) for n in names)


def _part(row: Sequence[Any]) -> Part:
    name, shape, weight, stored, steps, rounded = row
    sizes = [tuple(int(size) for size in both) for both in (shape, stored)]
    if any(size < 1 for both in sizes for size in both):
        raise ValueError(f"{name} has no size")
    return Part(str(name), sizes[0], str(weight), sizes[1], tuple(map(tuple, steps)), str(rounded))
