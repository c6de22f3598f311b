"""Graphs of 8 bits of a model with vision transformers inside."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
import pytest
from onnx import helper, numpy_helper

from naic.backbones.vit import VITS
from naic.device import CPU
from naic.runtime.captioner import Captioner
from naic.runtime.export import export_graph
from naic.runtime.graphs import exported
from naic.runtime.int8 import MOST, eight_bits, quantised
from naic.runtime.load import load_whole
from naic.runtime.onnx_engine import OnnxEngine
from tests.backbones.test_vit import TINY, noise
from tests.runtime.small import make_model

PAIR = "clip-vit-b16+dinov2-vits14"
PIXELS = 256  # as usual: the second network shrinks them by a matrix


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with two tiny networks inside, and its graphs."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name, shape in TINY.items():
            patch.setitem(VITS, name, shape)
        loaded = load_whole(make_model(home / "model", backbone=PAIR, pixels=PIXELS))
        for precision in ("float32", "int8"):
            graph = export_graph("model", loaded, precision).graph
            (home / f"{precision}.onnx").write_bytes(graph)
    return home


def test_every_product_of_the_blocks_is_by_8_bits(home: Path) -> None:
    graph = onnx.load(home / "int8.onnx").graph
    eight = [node for node in graph.node if node.op_type == "DynamicQuantizeMatMul"]
    products = [node for node in eight if "backbone" in node.name]
    names = ("qkv", "out", "rise", "fall")
    blocks = sum(shape.depth for shape in TINY.values())
    for name in names:
        assert sum(f"/{name}/" in node.name for node in products) == blocks
    assert len(products) == len(names) * blocks  # not those that read the pixels
    held = {tensor.name: tensor for tensor in graph.initializer}
    for node in products:
        assert node.input[3] == ""  # no zero points: a step is a step on both sides
        steps, sizes, *bias = (held[name] for name in node.input[1:] if name)
        assert steps.data_type == onnx.TensorProto.INT8
        assert list(sizes.dims) == [steps.dims[1]]  # one for each output
        assert len(bias) == ("/fall/" not in node.name)  # there it is added to tokens of their size
    read = {name for node in graph.node for name in node.input}
    assert read >= set(held)  # no weights as float32 beside them


def test_the_graphs_say_nearly_the_same(home: Path) -> None:
    pixels = noise(3, PIXELS, PIXELS, 3)
    exact, rounded = (
        OnnxEngine(exported(home / f"{p}.onnx"), CPU)(pixels) for p in ("float32", "int8")
    )
    difference = np.abs(exact.log_probs[..., 0] - rounded.log_probs[..., 0]).max()
    assert 0 < difference < 0.2
    captions = Captioner(home / "int8.onnx", device="cpu")(list(pixels.numpy()))
    assert len(captions) == 3


def test_cores_with_an_image_each_say_what_they_say_together(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pixels = noise(5, PIXELS, PIXELS, 3)
    before = OnnxEngine(exported(home / "int8.onnx"), CPU)  # one thread, as all tests here
    expected = before(pixels)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    for engine in (before, OnnxEngine(exported(home / "int8.onnx"), CPU)):
        found = engine(pixels)
        assert np.array_equal(found.words, expected.words)
        assert np.array_equal(found.log_probs, expected.log_probs)
        one = engine(pixels[:1])  # both cores at one image
        assert np.array_equal(one.words[0], expected.words[0])


def product(weights: Any, *, read_twice: bool = False) -> onnx.ModelProto:
    """x @ weights + bias; `read_twice`: and the product itself."""
    nodes = [
        helper.make_node("MatMul", ["x", "weights"], ["product"]),
        helper.make_node("Add", ["bias", "product"], ["sum"]),
        *([helper.make_node("Identity", ["product"], ["copy"])] if read_twice else []),
    ]
    kind = onnx.TensorProto.FLOAT
    outputs = ["sum", "copy"] if read_twice else ["sum"]
    bias = np.arange(weights.shape[1], dtype=np.float32)
    graph = helper.make_graph(
        nodes,
        "product",
        [helper.make_tensor_value_info("x", kind, [None, len(weights)])],
        [helper.make_tensor_value_info(name, kind, None) for name in outputs],
        [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(graph: onnx.ModelProto, x: Any) -> Any:
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(graph.SerializeToString(), providers=providers)
    return session.run(None, {"x": x})[0]


@pytest.mark.parametrize("read_twice", [False, True])
def test_a_product_is_what_it_was_but_for_rounding(*, read_twice: bool) -> None:
    dice = np.random.default_rng(0)
    weights = dice.normal(size=(64, 24)).astype(np.float32) * np.logspace(-3, 3, 24)
    weights = weights.astype(np.float32)
    weights[:, 5] = 0  # an output that nobody uses
    x = dice.normal(size=(7, 64)).astype(np.float32)
    exact = run(product(weights, read_twice=read_twice), x)
    made = quantised(product(weights, read_twice=read_twice))
    kinds = [node.op_type for node in made.graph.node]
    # A product that is read elsewhere too keeps its sum apart.
    assert kinds == ["DynamicQuantizeMatMul", *(["Add", "Identity"] if read_twice else [])]
    found = run(made, x)
    apart = np.abs(found - exact).mean(0) / np.abs(weights).max(0).clip(min=1e-9)
    assert apart[5] == 0
    assert 0 < np.delete(apart, 5).max() < 0.2  # of 64 terms; whatever the output's size
    assert not (found == exact).all()


def test_weights_as_whole_steps() -> None:
    dice = np.random.default_rng(0)
    weights = dice.normal(size=(32, 9)).astype(np.float32)
    weights[:, 2] = 0
    weights[3, 4] = np.nan
    steps, sizes = eight_bits(weights)
    assert steps.dtype == np.int8
    assert sizes.dtype == np.float32
    assert sizes.shape == (9,)
    fine = [i for i in range(9) if i not in (2, 4)]
    assert (np.abs(steps[:, fine]).max(0) == MOST).all()
    assert (np.abs(steps * sizes - weights)[:, fine] <= 0.5001 * sizes[fine]).all()
    assert not steps[:, 2].any()
    assert np.isnan(sizes[4])  # so that whoever uses it is told
