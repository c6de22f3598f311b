"""8 bits in place of 32: the matrix products of a graph.

Written here rather than by `onnxruntime.quantization`: a product becomes one node in place of
seven, nothing heavy is imported, and whoever has the weights as float32 can make those of the
graph again, digit by digit (`eight_bits`).
"""

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

PATCH = (
    "/patch/"  # in the name of the node that reads pixels: it stays as it is, as convolutions do
)
MOST = 127  # steps from 0 to the largest weight of an output, on both sides
DOMAIN = "com.microsoft"  # of operators that ONNX Runtime has beside ONNX's own


def eight_bits(
    weights: npt.NDArray[np.float32],
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """A matrix (inputs, outputs) as whole steps, and how large the steps of each output are.

    What is no number stays none: it is in the size of its output's steps.
    """
    steps = np.abs(weights).max(0) / np.float32(MOST)  # (outputs,)
    with np.errstate(invalid="ignore"):
        counts = np.rint(weights / np.where(steps == 0, np.float32(1), steps))
        return np.nan_to_num(counts).astype(np.int8), steps


def quantised(graph: "onnx.ModelProto") -> "onnx.ModelProto":
    """The graph, changed in place: matrix products by 8-bit weights; convolutions stay.

    What reads the pixels is the delicate part: each layer works on the rounding errors of those
    before it, and an error there is one in all that follows. Attention's products are of
    activations, and stay too.
    """
    from onnx import helper, numpy_helper

    main = graph.graph
    plain = {tensor.name: tensor for tensor in main.initializer}
    readers = Counter(name for node in main.node for name in node.input)
    adders = {name: node for node in main.node if node.op_type == "Add" for name in node.input}
    made: dict[str, list[str]] = {}  # of a matrix: its steps, their sizes, and no zero points
    nodes: list[onnx.NodeProto] = []
    gone: set[str] = set()  # outputs of sums that are part of a product now
    for node in main.node:
        if node.op_type == "Add" and node.output[0] in gone:
            continue
        if not _is_product(node, plain):
            nodes.append(node)
            continue
        matrix, product = node.input[1], node.output[0]
        if matrix not in made:
            steps, sizes = eight_bits(numpy_helper.to_array(plain[matrix]))
            parts: dict[str, npt.NDArray[Any]] = {"_steps": steps, "_sizes": sizes}
            made[matrix] = [*(matrix + end for end in parts), ""]
            main.initializer.extend(
                numpy_helper.from_array(part, matrix + end) for end, part in parts.items()
            )
        inputs = [node.input[0], *made[matrix]]
        adder = adders.get(product) if readers[product] == 1 else None
        added = [name for name in adder.input if name != product] if adder else []
        if adder and added and added[0] in plain and len(plain[added[0]].dims) == 1:
            inputs.append(added[0])
            product = adder.output[0]
            gone.add(product)
        nodes.append(
            helper.make_node("DynamicQuantizeMatMul", inputs, [product], node.name, domain=DOMAIN)
        )
    _replace(graph, nodes)
    return graph


def _is_product(node: "onnx.NodeProto", plain: "dict[str, onnx.TensorProto]") -> bool:
    """Whether it multiplies by a matrix of weights, and does not read pixels."""
    if node.op_type != "MatMul" or PATCH in node.name:
        return False
    return node.input[1] in plain and len(plain[node.input[1]].dims) == 2


def _replace(graph: "onnx.ModelProto", nodes: "list[onnx.NodeProto]") -> None:
    """Other nodes, and none of the weights that they do not read."""
    from onnx import helper

    main = graph.graph
    read = {name for node in nodes for name in node.input}
    kept = [tensor for tensor in main.initializer if tensor.name in read]
    del main.node[:], main.initializer[:]
    main.node.extend(nodes)
    main.initializer.extend(kept)
    if all(known.domain != DOMAIN for known in graph.opset_import):
        graph.opset_import.append(helper.make_opsetid(DOMAIN, 1))
