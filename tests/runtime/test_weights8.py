"""Weights of 8 bits: nearly those they were, a quarter of the size, and one answer everywhere."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from naic.device import CPU
from naic.runtime.graphs import Graph
from naic.runtime.int8 import eight_bits
from naic.runtime.onnx_engine import _session
from naic.runtime.weights8 import FEWEST, with_weights_in_8_bits

WIDE = 160  # squared, more than FEWEST


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


def test_each_column_has_a_scale_of_its_own() -> None:
    random = np.random.default_rng(0)
    weights = (random.normal(size=(50, 4)) * [1, 100, 0.01, 0]).astype(np.float32)
    codes, scales = eight_bits(weights)
    assert codes.dtype == np.int8
    assert (np.abs(codes * scales - weights) <= scales * 0.5001).all()
    assert np.abs(codes).max(0).tolist() == [127, 127, 127, 0]


def test_the_graph_says_nearly_the_same_and_is_small() -> None:
    random = np.random.default_rng(0)
    weights = random.normal(size=(WIDE, WIDE)).astype(np.float32)
    small = random.normal(size=(WIDE, 3)).astype(np.float32)
    assert weights.size > FEWEST > small.size
    whole = product(weights, small)
    graph = with_weights_in_8_bits(whole)
    assert len(graph) < len(whole) / 3
    onnx.checker.check_model(onnx.load_from_string(graph))
    x = random.normal(size=(2, WIDE)).astype(np.float32)
    (found,) = _session(Graph(Path("graph"), graph), CPU, 1).run(None, {"x": x})
    codes, scales = eight_bits(weights)
    np.testing.assert_allclose(found, x @ (codes * scales) @ small, rtol=1e-5, atol=1e-3)
    exact = x @ weights @ small
    assert 0 < np.abs(found - exact).max() < 0.02 * np.abs(exact).max()
