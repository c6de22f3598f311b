"""Weights of 8 bits in a graph that goes on computing in float32.

`runtime/int8.py` rounds what goes into a product, too, which is fast; but then the last digit of a
sum decides here and there on which side a number is rounded, and another processor, or a browser,
says something else of one image in ten. A graph of this kind says the same everywhere.

The codes are those of a packed model (`naic.packing`) where there is one: a group of inputs of one
output has whole numbers of one step, and they are found again, to the last bit. Of other weights
the step is that of the group's largest. What reads the pixels has more digits, and stays as it is.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from naic.runtime.int8 import PATCH

GROUP = 64  # inputs of one output that share a step, as in a packed model
MOST, ZERO = 127, 128  # of a code; what stands for 0
STEPS = 32  # that the largest weight of a packed group is at most: 6 bits
EXACT = 1e-5  # of a step: what float32 leaves of a whole number
BITS, FLOAT = 8, 1  # of ONNX Runtime's operator; that it computes in float32


def with_weights_in_8_bits(graph: bytes) -> bytes:
    """The graph with the weights of its products as whole numbers, and a step for each group.

    The products become an operator of ONNX Runtime's own, which makes a few weights at a time
    float32 and lets go of them: the file is small, and so is what it takes of memory.
    """
    import onnx

    model = onnx.load_from_string(graph)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    done = set()
    for node in model.graph.node:
        product = node.op_type == "MatMul" and PATCH not in node.name
        tensor = tensors.get(node.input[1]) if product else None
        if tensor is None or len(tensor.dims) != 2 or tensor.dims[0] % GROUP:
            continue
        name, (inputs, outputs) = tensor.name, tensor.dims
        if name not in done:
            codes, steps = rounded(onnx.numpy_helper.to_array(tensor))
            model.graph.initializer.remove(tensor)
            for part, values in (("codes", codes), ("steps", steps)):
                added = onnx.numpy_helper.from_array(values, f"{name}:{part}")
                model.graph.initializer.append(added)
            done.add(name)
        node.op_type, node.domain = "MatMulNBits", "com.microsoft"
        node.input[1:] = [f"{name}:codes", f"{name}:steps"]
        how = {"K": inputs, "N": outputs, "bits": BITS, "block_size": GROUP}
        for key, value in (how | {"accuracy_level": FLOAT}).items():
            node.attribute.append(onnx.helper.make_attribute(key, value))
    model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    small: bytes = model.SerializeToString()
    return small


def rounded(weights: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.uint8], npt.NDArray[Any]]:
    """Weights (I, O) as codes (O, I / GROUP, GROUP) and steps (O, I / GROUP), float32.

    A weight is its code less `ZERO`, times its step.
    """
    groups = np.ascontiguousarray(weights.T).reshape(weights.shape[1], -1, GROUP)
    largest = np.abs(groups).max(-1)
    steps = np.where(largest > 0, largest, 1) / np.float32(MOST)
    left = np.flatnonzero(largest.ravel() > 0)  # the groups whose step is not found
    flat = groups.reshape(-1, GROUP)
    for count in range(1, STEPS + 1):  # the largest is so many steps: the fewest that fit
        step = largest.ravel()[left] / np.float32(count)
        numbers = flat[left] / step[:, None]
        fits = (np.abs(numbers - np.rint(numbers)) < EXACT * count).all(-1)
        steps.ravel()[left[fits]] = step[fits]
        left = left[~fits]
    codes = np.rint(groups / steps[..., None]) + ZERO
    return codes.astype(np.uint8), steps
