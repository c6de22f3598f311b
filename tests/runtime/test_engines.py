import copy
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from naic.backbones.patches import PATCH
from naic.decode.decoding import CHOICES
from naic.decode.policy import parallel
from naic.decode.stepwise import greedy
from naic.errors import ConfigError
from naic.models.config import TransformerConfig
from naic.models.transformer import PARALLEL, TransformerCaptioner
from naic.runtime.captioner import Captioner
from naic.runtime.engines import (
    CompiledEngine,
    EagerEngine,
    GraphEngine,
    Whole,
    padded,
)
from naic.runtime.load import load_whole
from naic.runtime.ready import make_ready
from naic.runtime.sentences import Proposals
from tests.runtime.small import LENGTH, NETWORK, PIXELS, make_model

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models")
    make_model(folder / "seeing", backbone=NETWORK)
    make_model(folder / "backbone")
    make_model(folder / "causal", "causal", backbone=NETWORK)
    make_model(folder / "chain", backbone=NETWORK, transitions=4)
    return folder


def some_pixels(count: int) -> Tensor:
    generator = torch.Generator().manual_seed(count)
    shape = (count, PIXELS, PIXELS, 3)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


def same(one: Proposals, other: Proposals) -> None:
    """The same best word everywhere, and its probability; others may tie in bfloat16."""
    assert one.words.shape == other.words.shape
    assert np.array_equal(one.words[..., 0], other.words[..., 0])
    assert np.allclose(one.log_probs, other.log_probs, rtol=1e-4, atol=1e-4)
    if one.pairs is None or other.pairs is None:
        assert one.pairs is other.pairs
        return
    places = one.words == other.words  # where two of one probability changed places, pairs did
    assert places.mean() > 0.9
    both = places[:, :-1, :, None] & places[:, 1:, None]
    assert np.allclose(one.pairs[both], other.pairs[both], rtol=1e-3, atol=1e-3)


def test_an_engine_says_what_the_model_says(models: Path) -> None:
    loaded = load_whole(models / "seeing")
    with torch.inference_mode():
        expected, _ = parallel(loaded.whole.model(some_pixels(3))[:, 0], CHOICES)
    said = EagerEngine(loaded.whole, PIXELS, CPU, "float32")(some_pixels(3))
    assert said.words.dtype == np.int64
    assert said.log_probs.dtype == np.float32
    assert said.words.shape == said.log_probs.shape == (3, LENGTH, CHOICES)
    assert np.array_equal(said.words, expected.numpy())
    assert np.all(np.diff(said.log_probs, axis=2) <= 0)  # best first


def test_a_causal_engine_says_one_word_in_each_place(models: Path) -> None:
    loaded = load_whole(models / "causal")
    with torch.inference_mode():
        model = loaded.whole.model
        assert isinstance(model, TransformerCaptioner)
        expected = greedy(model, model.encode(some_pixels(2)))
    said = EagerEngine(loaded.whole, PIXELS, CPU, "float32")(some_pixels(2))
    assert said.words.shape == (2, LENGTH, 1)
    assert np.array_equal(said.words[..., 0], expected.words.numpy())


@given(st.integers(1, 5000))
def test_batches_are_padded_by_less_than_half(count: int) -> None:
    size = padded(count)
    assert count <= size < 2 * count
    assert size & (size - 1) == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles
@pytest.mark.parametrize("name", ["seeing", "causal", "chain"])
def test_compiled_it_says_the_same(models: Path, name: str) -> None:
    eager = make_ready(models / name, "cpu", "eager", "auto").engine
    compiled = make_ready(models / name, "cpu", "compile", "auto").engine
    assert (compiled.runtime, compiled.precision) == ("compile", "float32")
    for count in (1, 3):
        same(compiled(some_pixels(count)), eager(some_pixels(count)))


def test_a_compiler_that_is_missing_is_told_when_the_model_is_loaded(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compiled(whole: torch.nn.Module, **_: object) -> object:
        def fails(_: Tensor) -> None:
            raise RuntimeError("InvalidCxxCompiler: no g++ here\nand a long story")

        return fails

    monkeypatch.setattr(torch, "compile", compiled)
    with pytest.raises(ConfigError, match=r"InvalidCxxCompiler: no g\+\+ here\)") as caught:
        CompiledEngine(load_whole(models / "seeing").whole, PIXELS, CPU, "float32")
    assert "eager" in caught.value.hint


@pytest.fixture
def exact_convolutions() -> Iterator[None]:
    """By default a GPU rounds the inputs of a float32 convolution, and other sizes otherwise."""
    with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        yield


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["seeing", "backbone", "causal", "chain"])
def test_a_graph_says_what_the_model_says(
    models: Path, name: str, exact_convolutions: None
) -> None:
    """In float32, at sizes that are recorded, padded, and met again after others."""
    eager = make_ready(models / name, "cuda", "eager", "float32").engine
    graph = make_ready(models / name, "cuda", "graph", "float32").engine
    for count in (1, 3, 4, 1, 7, 3, 8, 2):
        same(graph(some_pixels(count)), eager(some_pixels(count)))


@pytest.mark.gpu
def test_on_a_gpu_a_graph_in_float16_is_chosen(models: Path) -> None:
    engine = make_ready(models / "seeing", "auto", "auto", "auto").engine
    assert isinstance(engine, GraphEngine)
    assert engine.precision == "float16"
    eager = make_ready(models / "seeing", "cuda", "eager", "float16").engine
    said, expected = engine(some_pixels(8)), eager(some_pixels(8))
    same(said, expected)  # 8 are not padded, and not few: the very same kernels


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["seeing", "backbone", "causal", "chain"])
@pytest.mark.parametrize(("precision", "apart"), [("bfloat16", 0.2), ("float16", 0.03)])
def test_half_the_bits_say_nearly_the_same(
    models: Path, name: str, precision: str, apart: float
) -> None:
    for count in (1, 4, 9):
        exact = make_ready(models / name, "cuda", "eager", "float32").engine(some_pixels(count))
        said = make_ready(models / name, "cuda", "graph", precision).engine(some_pixels(count))
        assert said.log_probs.dtype == np.float32
        assert said.log_probs[:, 0, 0] == pytest.approx(exact.log_probs[:, 0, 0], abs=apart)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's own, while it compiles
def test_what_was_compiled_is_recorded(models: Path) -> None:
    eager = make_ready(models / "seeing", "cuda", "eager", "float32").engine
    compiled = make_ready(models / "seeing", "cuda", "compile", "float32").engine
    assert isinstance(compiled, GraphEngine)
    assert compiled.runtime == "compile"
    for count in (1, 3):
        same(compiled(some_pixels(count)), eager(some_pixels(count)))


@pytest.mark.gpu
def test_a_graph_writes_into_no_one_elses_memory(models: Path) -> None:
    """What it reads and leaves is its own, also after the tensors of its recording are gone."""
    engine = make_ready(models / "seeing", "cuda", "graph", "float32").engine
    expected = engine(some_pixels(2))
    others = [torch.full((1 << 20,), 7, dtype=torch.uint8, device="cuda") for _ in range(40)]
    size = 2 * PIXELS * PIXELS * 3  # as what the engine was given
    others += [torch.full((size,), 7, dtype=torch.uint8, device="cuda") for _ in range(40)]
    same(engine(some_pixels(2)), expected)
    assert all(bool((other == 7).all()) for other in others)


@pytest.mark.gpu
def test_threads_share_the_graphs(models: Path) -> None:
    images = [list(some_pixels(count).numpy()) for count in range(1, 7)]
    captioner = Captioner(models / "seeing")
    expected = [captioner(several) for several in images]
    fresh = Captioner(models / "seeing")  # its graphs are recorded while others wait for theirs

    def work(number: int) -> list[str]:
        return fresh(images[number])

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, [*range(6)] * 4)) == expected * 4


@pytest.mark.gpu
@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_the_kernels_of_our_own_are_used_in_graphs_of_few_images(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model as wide as the one that ships, on a grid, with words enough to be cut in pieces."""
    from naic.runtime import fused

    torch.manual_seed(0)
    config = TransformerConfig(
        encoder_layers=1, decoder_layers=2, grid=True, dropout=0.0, backbone=NETWORK
    )
    model = TransformerCaptioner(config, PATCH, 1000, causal=False).eval()
    with torch.no_grad():
        model.decoder.output.weight.mul_(3)  # sure of its words
    whole = Whole(PARALLEL, model, None)
    exact = EagerEngine(copy.deepcopy(whole), PIXELS, torch.device("cuda"), "float32")
    calls: list[int] = []
    real = fused.linear

    def counted(x: Tensor, *rest: Any, **options: Any) -> Tensor:
        calls.append(x.numel() // x.shape[-1])
        return real(x, *rest, **options)

    monkeypatch.setattr(fused, "linear", counted)
    graph = GraphEngine(whole, PIXELS, torch.device("cuda"), "float16")
    said, expected = graph(some_pixels(count)), exact(some_pixels(count))
    assert (max(calls, default=0) > 0) == (count <= 4)
    assert np.allclose(said.log_probs[..., 0], expected.log_probs[..., 0], atol=0.05)
    assert (said.words[..., 0] == expected.words[..., 0]).mean() > 0.9
