"""A graph taken apart: which of its tensors are a model's weights, and after what steps.

They are known by what they hold. Whatever an exporter makes of names, and wherever a transposition
or a factor was put into a weight, each large tensor of the graph is compared, to the bit, with what
the model's weights become by the few steps that naic takes; one that comes of none stays inside.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from naic.backbones.vit import MIDDLE, QUICK
from naic.runtime.even import Changes
from naic.runtime.int8 import eight_bits
from naic.runtime.skeleton import DATA, Part, Step, follow, places

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]
LARGE = 256  # numbers; smaller tensors stay in the graph
_FOLDED: tuple[Step, ...] = (("permute", [0, 2, 3, 1]), ("rows",), ("over", MIDDLE))
_TURNED: Step = ("transpose",)


def take_apart(
    graph: "onnx.ModelProto", weights: Mapping[str, Array], changes: Changes
) -> tuple["onnx.ModelProto", tuple[Part, ...], tuple[Array, ...]]:
    """The graph without its large tensors, in place; what they come from, and by which vectors.

    Args:
        graph: with all its tensors.
        weights: float32, of the model as its file has them.
        changes: by the names of weights, what was done to them before.
    """
    _shorten(graph.graph)
    large = {t.name: _array(t) for t in graph.graph.initializer if _size(t) >= LARGE}
    wanted = {_digest(array) for array in large.values()}
    known: dict[bytes, tuple[str, tuple[Step, ...], str]] = {}
    vectors = _Vectors()
    for name, weight in weights.items():
        before = vectors.steps(changes.get(name, []))
        if (shift := _shift(name, weights)) is not None:
            before = (("plus", vectors.number(shift)),)
        for steps, rounded, made in _forms(weight, before, vectors.all):
            digest = _digest(made)
            if digest in wanted:
                known.setdefault(digest, (name, steps, rounded))
    parts = [
        Part(name, array.shape, known[d][0], weights[known[d][0]].shape, *known[d][1:])
        for name, array in large.items()
        if (d := _digest(array)) in known
    ]
    parts.sort(key=lambda part: (part.weight, repr(part.steps), part.rounded))
    _leave_out(graph, parts)
    return graph, tuple(parts), tuple(vectors.all)


class _Vectors:
    """The vectors that steps are done with, each once."""

    def __init__(self) -> None:
        self.all: list[Array] = []
        self._numbers: dict[bytes, int] = {}

    def number(self, vector: Array) -> int:
        """Its place among all."""
        key = vector.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self.all)
            self.all.append(vector)
        return self._numbers[key]

    def steps(self, changes: "list[tuple[str, torch.Tensor]]") -> tuple[Step, ...]:
        """Changes as steps."""
        return tuple((name, self.number(vector.numpy())) for name, vector in changes)


def _shift(name: str, weights: Mapping[str, Array]) -> Array | None:
    """(D,) what is added to the positions (T², D) of a vision transformer that is folded."""
    network = name.removesuffix("positions")
    kernel, bias = (weights.get(f"{network}patch.{kind}") for kind in ("weight", "bias"))
    if network == name or kernel is None or bias is None:
        return None
    # By torch, as in folding: sums in another order end in other bits.
    found: Array = (torch.from_numpy(bias) - torch.from_numpy(kernel).sum((1, 2, 3))).numpy()
    return found


def _shorten(graph: "onnx.GraphProto") -> None:
    """Numbers for names, which take more room than all else that stays: nobody reads them."""
    kept = {value.name for value in (*graph.input, *graph.output)}
    names: dict[str, str] = {}

    def short(name: str) -> str:
        return name if not name or name in kept else names.setdefault(name, f"{len(names):x}")

    for node in graph.node:
        node.name = node.doc_string = ""
        node.input[:] = [short(name) for name in node.input]
        node.output[:] = [short(name) for name in node.output]
    for tensor in graph.initializer:
        tensor.name = short(tensor.name)
    del graph.value_info[:]


def _forms(
    weight: Array, before: tuple[Step, ...], vectors: Sequence[Array]
) -> Iterator[tuple[tuple[Step, ...], str, Array]]:
    """What a weight may have become: steps, rounding and the tensor.

    `before` is what was done to it last; where a network was folded, that was earlier.
    """
    ways: list[tuple[Step, ...]] = [(), (("times", QUICK),), (("times", 1 / QUICK),)]
    if weight.ndim > 2:
        ways = [(), _FOLDED]
    for way in ways:
        steps = (*way, *before)
        for turned in (steps, (*steps, _TURNED)) if weight.ndim > 1 else (steps,):
            made = follow(weight, turned, vectors)
            yield turned, "", made
        if made.ndim == 2:
            small, scales = eight_bits(made)
            yield turned, "int8", small
            yield turned, "scales", scales


def _leave_out(graph: "onnx.ModelProto", parts: Sequence[Part]) -> None:
    """Put the place of each tensor in `DATA` where its numbers were."""
    import onnx

    begins = dict(zip((part.name for part in parts), places(parts), strict=False))
    sizes = {part.name: part.nbytes for part in parts}
    for tensor in graph.graph.initializer:
        if tensor.name in begins:
            for field in ("raw_data", "float_data", "int32_data"):
                tensor.ClearField(field)
            tensor.data_location = onnx.TensorProto.EXTERNAL
            del tensor.external_data[:]
            place = {"location": DATA, "offset": begins[tensor.name], "length": sizes[tensor.name]}
            for key, value in place.items():
                tensor.external_data.add(key=key, value=str(value))


def _array(tensor: "onnx.TensorProto") -> Array:
    from onnx import numpy_helper

    found: Array = numpy_helper.to_array(tensor)
    return found


def _size(tensor: "onnx.TensorProto") -> int:
    return int(np.prod(tensor.dims))


def _digest(array: Array) -> bytes:
    """What tells tensors apart: their numbers, their kind and their shape."""
    head = f"{array.dtype}{array.shape}".encode()
    return hashlib.sha256(head + np.ascontiguousarray(array).tobytes()).digest()
