"""Weights of 8 bits in a graph that goes on computing in float32.

`runtime/int8.py` rounds what goes into a product, too, which is fast; but then the last digit of a
sum decides here and there on which side a number is rounded, and another processor, or a browser,
says something else of one image in ten. A graph of this kind says the same everywhere, where ONNX
Runtime is told to compute such products in float32: its own choice is to round their inputs.
"""

from typing import Any

import numpy as np

from naic.runtime.int8 import eight_bits

PRODUCTS = ("MatMul", "Gemm")  # convolutions have few weights, and stay as they are
FEWEST = 1 << 14  # weights that are worth it


def with_weights_in_8_bits(graph: bytes) -> bytes:
    """The graph with the weights of its products as int8, and a scale for each column.

    ONNX Runtime makes each float32 again when it comes to its product, and lets go of it then: the
    file is small, and so is what it takes of memory.
    """
    import onnx

    model = onnx.load_from_string(graph)
    inputs = {node.input[1] for node in model.graph.node if node.op_type in PRODUCTS}
    weights = [
        tensor
        for tensor in model.graph.initializer
        if tensor.name in inputs and np.prod(tensor.dims) >= FEWEST
    ]
    nodes: list[Any] = []
    for tensor in weights:
        name = tensor.name
        codes, scales = eight_bits(onnx.numpy_helper.to_array(tensor))
        model.graph.initializer.remove(tensor)
        for part, values in (("codes", codes), ("scales", scales)):
            model.graph.initializer.append(onnx.numpy_helper.from_array(values, f"{name}:{part}"))
        parts = [f"{name}:codes", f"{name}:scales"]
        nodes.append(onnx.helper.make_node("DequantizeLinear", parts, [name], axis=1))
    nodes += model.graph.node
    del model.graph.node[:]
    model.graph.node.extend(nodes)
    small: bytes = model.SerializeToString()
    return small
