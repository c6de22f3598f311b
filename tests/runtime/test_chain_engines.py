"""A model with transitions between neighbours says the same in whatever way it is run."""

import itertools
import runpy
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from torch import Tensor

from naic.decode.decoding import Decoding, likeliest_words
from naic.device import CPU
from naic.errors import CheckpointError
from naic.models.folder import load_model
from naic.runtime.captioner import Captioner
from naic.runtime.engines import EagerEngine
from naic.runtime.export import export_graph
from naic.runtime.graphs import exported
from naic.runtime.int8 import quantised
from naic.runtime.load import load_whole
from naic.runtime.onnx_engine import OnnxEngine
from naic.runtime.ready import Engine
from naic.runtime.sentences import Caption, Proposals
from naic.tasks.options import PackOptions
from naic.tasks.pack import pack_model
from naic.text.vocabulary import PERIOD
from tests.runtime.small import CHAIN, LENGTH, NETWORK, PIXELS, WORDS, make_model

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "caption_onnx.py"
COUNT = 5


def images(count: int = COUNT) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    shape = (count, PIXELS, PIXELS, 3)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


class Home(NamedTuple):
    """A model, what it says eagerly, and its graph."""

    folder: Path
    said: Proposals
    graph: Path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("home")
    model = make_model(folder / "chain", backbone=NETWORK, transitions=4, seed=7)
    loaded = load_whole(model)
    made = export_graph("chain", loaded, "float32")
    assert (made.agents, made.top, made.pairs) == (LENGTH, CHAIN, True)
    (folder / "chain.onnx").write_bytes(made.graph)
    said = EagerEngine(loaded.whole, PIXELS, torch.device("cpu"), "float32")(images())
    return Home(model, said, folder / "chain.onnx")


def sentences(said: Proposals) -> list[list[int]]:
    chosen = likeliest_words(*said)[..., None]
    ids = np.take_along_axis(said.words, chosen, -1)[..., 0].tolist()
    return [list(itertools.takewhile(lambda id_: id_ != PERIOD, row)) for row in ids]


def test_neighbours_make_a_difference(home: Home) -> None:
    assert home.said.pairs is not None
    assert home.said.words.shape == (COUNT, LENGTH, CHAIN)
    assert home.said.pairs.shape == (COUNT, LENGTH - 1, CHAIN, CHAIN)
    assert home.said.pairs.dtype == np.float32
    alone = sentences(home.said._replace(pairs=np.zeros_like(home.said.pairs)))
    assert alone != sentences(home.said)


@pytest.mark.parametrize("repeats", [True, False])
def test_validation_says_what_the_captioner_says(home: Home, repeats: bool) -> None:
    loaded = load_model(home.folder)
    decoding = Decoding(repeats=repeats)
    ids = loaded.spec.caption(loaded.model, images(), None, decoding).tolist()
    said = [list(itertools.takewhile(lambda id_: id_ != PERIOD, row)) for row in ids]
    if repeats:
        assert said == sentences(home.said)
        assert any(has_repeat(row) for row in said)
        return
    assert not any(has_repeat(row) for row in said)
    captions = Captioner(home.folder, device="cpu").caption(list(images().numpy()))
    for caption, row in zip(captions, said, strict=True):
        assert WORDS.decode(row).startswith(caption.text)  # without what cannot end a sentence


def has_repeat(words: list[int]) -> bool:
    return any(one == other for one, other in itertools.pairwise(words))


def check_same(engine: Engine, home: Home) -> None:
    for batch in (images(), images()[:1]):
        said = engine(batch)
        count = len(batch)
        assert np.array_equal(said.words, home.said.words[:count])
        np.testing.assert_allclose(said.log_probs, home.said.log_probs[:count], atol=1e-4)
        assert said.pairs is not None
        assert home.said.pairs is not None
        assert said.pairs.dtype == np.float32
        np.testing.assert_allclose(said.pairs, home.said.pairs[:count], atol=1e-4)


def test_a_graph_of_onnx_says_the_same(home: Home) -> None:
    check_same(OnnxEngine(exported(home.graph), CPU), home)
    outputs = onnx.load(home.graph).graph.output
    assert [value.name for value in outputs] == ["words", "confidences", "pairs"]
    dims = [d.dim_param or d.dim_value for d in outputs[2].type.tensor_type.shape.dim]
    assert dims[0] == "batch"
    photos = list(images().numpy())
    wanted = Captioner(home.folder, device="cpu").caption(photos, alternatives=3)
    found = Captioner(home.graph, device="cpu").caption(photos, alternatives=3)
    assert [texts(caption) for caption in found] == [texts(caption) for caption in wanted]


def texts(caption: Caption) -> list[str]:
    return [sentence.text for sentence in caption.alternatives]


def test_the_example_says_the_likeliest_sentence(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, (pixels, said) in enumerate(zip(images(), sentences(home.said), strict=True)):
        photo = tmp_path / f"{number}.png"
        Image.fromarray(pixels.numpy()).save(photo)
        monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(home.graph), str(photo)])
        runpy.run_path(str(EXAMPLE))
        assert capsys.readouterr().out == f"{WORDS.decode(said)}\n"


def test_int8_is_near_and_an_image_has_no_neighbours(home: Home, tmp_path: Path) -> None:
    rounded = quantised(onnx.load(home.graph))  # as an export does, which takes seconds
    facts = {fact.key: fact.value for fact in rounded.metadata_props} | {"precision": "int8"}
    onnx.helper.set_model_props(rounded, facts)
    onnx.save(rounded, tmp_path / "int8.onnx")
    engine = OnnxEngine(exported(tmp_path / "int8.onnx"), CPU)
    together, alone = engine(images()), engine(images()[1:2])
    assert together.pairs is not None
    assert alone.pairs is not None
    assert together.pairs.shape == (COUNT, LENGTH - 1, CHAIN, CHAIN)
    assert np.array_equal(alone.pairs[0], together.pairs[1])
    assert 0 < np.abs(together.log_probs - home.said.log_probs).max() < 0.3
    assert (together.words[..., 0] == home.said.words[..., 0]).mean() > 0.8


def test_it_can_be_packed(home: Home, tmp_path: Path) -> None:
    done = pack_model(PackOptions(home.folder, tmp_path / "packed", bits=12, output_bits=12))
    assert done.parts[-1].name == "words"
    assert done.parts[-1].bits == (12,)
    engine = Captioner(tmp_path / "packed", device="cpu").engine
    said = engine(images())
    assert said.pairs is not None
    assert home.said.pairs is not None
    same = (said.words == home.said.words).all((1, 2))  # no two changed places
    assert same.any()
    np.testing.assert_allclose(said.pairs[same], home.said.pairs[same], atol=0.05)


def test_a_strangers_pairs_are_checked(home: Home) -> None:
    engine = OnnxEngine(exported(home.graph), CPU)
    words, log_probs, pairs = home.said
    assert pairs is not None

    class Session:
        def __init__(self, *answer: object) -> None:
            self.answer = answer

        def run(self, *_: object) -> tuple[object, ...]:
            return self.answer

    for wrong in (pairs[:, 1:], pairs.astype(np.float64), pairs * np.nan, None):
        engine._session = Session(words, np.exp(log_probs), wrong)
        with pytest.raises(CheckpointError, match=r"pairs|tensors"):
            engine(images())
