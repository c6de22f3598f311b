"""Weights of 8 bits: nearly those they were, a quarter of the size, and one answer everywhere."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from naic.runtime.weights8 import GROUP, MOST, ZERO, rounded, with_weights_in_8_bits

WIDE = 3 * GROUP


def product(weights: npt.NDArray[np.float32], small: npt.NDArray[np.float32]) -> bytes:
    """x @ weights @ small."""
    names: list[tuple[str, npt.NDArray[Any]]] = [("weights", weights), ("small", small)]
    given = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", WIDE])
    told = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", small.shape[1]])
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["between"]),
        helper.make_node("MatMul", ["between", "small"], ["y"]),
    ]
    tensors = [numpy_helper.from_array(value, name) for name, value in names]
    graph = helper.make_graph(nodes, "product", [given], [told], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    content: bytes = model.SerializeToString()
    return content


def values(codes: npt.NDArray[np.uint8], steps: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The weights (I, O) that codes stand for."""
    groups = (codes.astype(np.float32) - ZERO) * steps[..., None]
    weights: npt.NDArray[np.float32] = groups.reshape(len(codes), -1).T
    return weights


@given(seed=st.integers(0, 1000), bits=st.integers(2, 6))
def test_packed_weights_are_found_to_the_last_bit(seed: int, bits: int) -> None:
    random = np.random.default_rng(seed)
    codes = random.integers(-(1 << bits - 1), 1 << bits - 1, (3, 5, GROUP))
    steps = random.uniform(1e-4, 1, (3, 5, 1)).astype(np.float16)  # as in a packed file
    weights = (codes.astype(np.float32) * steps.astype(np.float32)).reshape(3, -1).T
    np.testing.assert_allclose(values(*rounded(weights)), weights, rtol=1e-6)


def test_other_weights_are_off_by_half_a_step_at_most() -> None:
    random = np.random.default_rng(0)
    weights = (random.normal(size=(2 * GROUP, 4)) * [1, 100, 0.01, 0]).astype(np.float32)
    codes, steps = rounded(weights)
    off = np.abs(values(codes, steps) - weights).reshape(2, GROUP, 4).max(1).T
    assert (off <= 0.5001 * steps).all()
    np.testing.assert_allclose(steps[0], np.abs(weights[:, 0]).reshape(2, GROUP).max(1) / MOST)


def test_the_graph_says_nearly_the_same_and_is_small() -> None:
    random = np.random.default_rng(0)
    weights = random.normal(size=(WIDE, WIDE)).astype(np.float32)
    small = random.normal(size=(WIDE, 3)).astype(np.float32)
    whole = product(weights, small)
    graph = with_weights_in_8_bits(whole)
    assert len(graph) < len(whole) / 3
    x = random.normal(size=(2, WIDE)).astype(np.float32)
    session = onnxruntime.InferenceSession(graph, providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x})
    near = x @ values(*rounded(weights)) @ values(*rounded(small))
    np.testing.assert_allclose(found, near, rtol=1e-5, atol=1e-2)  # inputs are not rounded
    exact = x @ weights @ small
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()


def test_what_has_no_whole_groups_or_reads_pixels_stays() -> None:
    odd = np.ones((WIDE, 40), np.float32), np.ones((40, 3), np.float32)
    model = onnx.load_from_string(with_weights_in_8_bits(product(*odd)))
    assert [node.op_type for node in model.graph.node] == ["MatMulNBits", "MatMul"]
    model = onnx.load_from_string(product(*odd))
    model.graph.node[0].name = "/backbone/patch/MatMul"
    model = onnx.load_from_string(with_weights_in_8_bits(model.SerializeToString()))
    assert [node.op_type for node in model.graph.node] == ["MatMul", "MatMul"]
