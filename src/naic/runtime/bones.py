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
from naic.runtime.skeleton import DATA, Part, Step, encoded, follow, int8_columns, places

if TYPE_CHECKING:
    import onnx

Array = npt.NDArray[Any]
LARGE = 256  # numbers; smaller tensors stay in the graph
_FOLDED: tuple[Step, ...] = (("permute", [0, 2, 3, 1]), ("rows",), ("over", MIDDLE))
_TURNED: Step = ("transpose",)


def take_apart(
    graph: "onnx.ModelProto",
    weights: Mapping[str, Array],
    factors: Mapping[str, npt.NDArray[np.float32]],
) -> tuple["onnx.ModelProto", tuple[Part, ...]]:
    """The graph without its large tensors, in place, and what they come from.

    Args:
        graph: with all its tensors.
        weights: float32, of the model as its file has them.
        factors: by the names of weights, what their inputs were multiplied by.
    """
    _shorten(graph.graph)
    large = {t.name: _array(t) for t in graph.graph.initializer if _size(t) >= LARGE}
    wanted = {_digest(array) for array in large.values()}
    known: dict[bytes, tuple[str, tuple[Step, ...], str]] = {}
    for name, weight in weights.items():
        for steps, rounded, made in _forms(weight, factors.get(name), _shift(name, weights)):
            digest = _digest(made)
            if digest in wanted:
                known.setdefault(digest, (name, steps, rounded))
    parts = [
        Part(name, array.shape, known[d][0], weights[known[d][0]].shape, *known[d][1:])
        for name, array in large.items()
        if (d := _digest(array)) in known
    ]
    parts.sort(key=lambda part: (part.weight, part.steps, part.rounded))
    _leave_out(graph, parts)
    return graph, tuple(parts)


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
    weight: Array, factor: npt.NDArray[np.float32] | None, shift: Array | None
) -> Iterator[tuple[tuple[Step, ...], str, Array]]:
    """What a weight may have become: steps, rounding and the tensor."""
    if weight.size < 1:
        return
    yield (), "", weight
    if shift is not None:
        moved: Step = ("plus", encoded(shift))
        yield (moved,), "", follow(weight, (moved,))
    if weight.ndim == 1:
        for step in (("times", QUICK), ("over", QUICK)):
            yield (step,), "", follow(weight, (step,))
        return
    begins: list[tuple[Step, ...]] = [(), (("times", QUICK),), (("times", 1 / QUICK),)]
    if weight.ndim > 2:
        begins = [_FOLDED]
    for begin in begins:
        steps = begin if factor is None else (*begin, ("columns", encoded(factor)))
        for way in (steps, (*steps, _TURNED)):
            made = follow(weight, way)
            yield way, "", made
        small, scales = int8_columns(made)
        yield way, "int8", small
        yield way, "scales", scales


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
