"""Exported graphs say what PyTorch says, or are not made; what is no such graph is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import onnxruntime  # type: ignore[import-untyped]
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from naic.device import CPU, Place
from naic.errors import CheckpointError, ConfigError, MissingExtraError
from naic.images.converting import square_pixels
from naic.images.opening import open_image
from naic.runtime import ready
from naic.runtime.captioner import Captioner
from naic.runtime.engines import EagerEngine, Whole
from naic.runtime.export import export_graph
from naic.runtime.graphs import exported
from naic.runtime.load import LoadedWhole, load_whole
from naic.runtime.onnx_engine import OnnxEngine
from naic.text.vocabulary import BOS, PAD, UNK
from tests.runtime.small import LENGTH, NETWORK, PIXELS, WORDS, make_model
from tests.tasks import packs

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "caption_onnx.py"


def images(count: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    shape = (count, PIXELS, PIXELS, 3)
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)


class Home(NamedTuple):
    """A model with a backbone, and its graphs."""

    folder: Path
    loaded: LoadedWhole
    plain: Path
    small: Path


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    folder = tmp_path_factory.mktemp("home")
    model = make_model(folder / "seeing", backbone=NETWORK)
    loaded = load_whole(model)
    paths = {name: folder / f"{name}.onnx" for name in ("float32", "int8")}
    for precision, path in paths.items():
        path.write_bytes(export_graph("seeing", loaded, precision).graph)
    return Home(model, loaded, paths["float32"], paths["int8"])


def check_equal(engine: OnnxEngine, loaded: LoadedWhole) -> None:
    """Every word of every agent, whatever the batch."""
    eager = EagerEngine(loaded.whole, PIXELS, torch.device("cpu"), "float32")
    for batch in (images(), images()[:1]):
        wanted, found = eager(batch), engine(batch)
        assert found.words.dtype == np.int64
        assert found.log_probs.dtype == np.float32
        assert np.array_equal(found.words, wanted.words)
        np.testing.assert_allclose(found.log_probs, wanted.log_probs, atol=1e-4)
        assert not np.isin(found.words, (BOS, UNK, PAD)).any()
    assert len({row.tobytes() for row in engine(images()).log_probs}) == 5  # not blind


def test_it_says_what_pytorch_says(home: Home) -> None:
    engine = OnnxEngine(exported(home.plain), CPU)
    assert (engine.runtime, engine.precision, engine.pixels) == ("onnx", "float32", PIXELS)
    assert engine.vocabulary == WORDS
    check_equal(engine, home.loaded)


def test_a_model_without_backbone_has_its_backbone_inside(tmp_path: Path) -> None:
    loaded = load_whole(make_model(tmp_path / "model"))
    made = export_graph("model", loaded, "float32")
    assert (made.agents, made.top) == (LENGTH, 5)
    (tmp_path / "model.onnx").write_bytes(made.graph)
    check_equal(OnnxEngine(exported(tmp_path / "model.onnx"), CPU), loaded)


def test_int8_is_small_and_near_and_an_image_has_no_neighbours(home: Home) -> None:
    matrices = 1280 * 32 + 32 * len(WORDS)  # at the least: the first one and the last
    assert home.plain.stat().st_size - home.small.stat().st_size > 2 * matrices
    kinds = {node.op_type for node in onnx.load(home.small).graph.node}
    assert "DynamicQuantizeMatMul" in kinds
    assert "ConvInteger" not in kinds
    engine = OnnxEngine(exported(home.small), CPU)
    assert engine.precision == "int8"
    batch = images()
    batch[0] //= 8  # a dark one: its numbers are smaller than its neighbours'
    together = engine(batch)
    for row in range(len(batch)):
        alone = engine(batch[row : row + 1])
        assert np.array_equal(alone.words[0], together.words[row])
        assert np.array_equal(alone.log_probs[0], together.log_probs[row])
    wanted = OnnxEngine(exported(home.plain), CPU)(batch)
    assert 0 < np.abs(together.log_probs - wanted.log_probs).max() < 0.2


def test_int8_on_several_cores_needs_the_file_no_more(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second session is made late, and must be of the same graph."""
    path = tmp_path / "model.onnx"
    path.write_bytes(home.small.read_bytes())
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    batch, engine = images(), OnnxEngine(exported(path), CPU)
    one_by_one = [engine(image[None]).words[0] for image in batch]
    path.unlink()
    assert np.array_equal(engine(batch).words, one_by_one)


def test_agents_give_no_more_words_than_there_are(tmp_path: Path) -> None:
    folder = packs.make_model(tmp_path / "model", backbone=packs.NETWORK)
    made = export_graph("model", load_whole(folder), "float32")
    (tmp_path / "model.onnx").write_bytes(made.graph)
    assert made.top == 4  # the period, "a", "circle", "square"
    said = OnnxEngine(exported(tmp_path / "model.onnx"), CPU)(images(2))
    assert said.words.shape == (2, 16, 4)
    assert set(said.words.flatten().tolist()) == {0, 4, 5, 6}
    np.testing.assert_allclose(np.exp(said.log_probs).sum(-1), 1, atol=1e-5)


def test_the_graph_can_be_read_by_others(home: Home) -> None:
    graph = onnx.load(home.small)
    onnx.checker.check_model(graph)
    inputs, outputs = graph.graph.input, graph.graph.output
    shapes = {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in (*inputs, *outputs)
    }
    assert shapes["pixels"] == ["batch", PIXELS, PIXELS, 3]
    assert [value.name for value in outputs] == ["words", "confidences"]
    assert shapes["words"][0] == shapes["confidences"][0] == "batch"
    facts = {fact.key: fact.value for fact in graph.metadata_props}
    assert json.loads(facts["vocabulary"]) == list(WORDS.words)
    assert (facts["naic"], facts["pixels"], facts["precision"]) == ("1", str(PIXELS), "int8")


class Fickle(nn.Module):
    """Sees the inverse of bright images: a trace knows one of the two ways."""

    def __init__(self, backbone: nn.Module) -> None:
        super().__init__()
        self.backbone = backbone

    def forward(self, pixels: Tensor) -> Tensor:
        features: Tensor = self.backbone(pixels)
        return -features if len(pixels) % 2 else features


class Strange(nn.Module):
    """Has a step that is no operator of ONNX."""

    def forward(self, pixels: Tensor) -> Tensor:
        strange: Tensor = torch.special.i0e(pixels.flatten(1).float()[:, None, :1280])
        return strange


def with_backbone(loaded: LoadedWhole, backbone: nn.Module) -> LoadedWhole:
    return loaded._replace(whole=Whole(loaded.whole.spec, loaded.whole.model, backbone))


def test_what_is_no_graph_is_refused(tmp_path: Path) -> None:
    causal = load_whole(make_model(tmp_path / "causal", "causal", backbone=NETWORK))
    with pytest.raises(ConfigError, match="teacher: it writes word by word"):
        export_graph("teacher", causal, "float32")
    loaded = load_whole(make_model(tmp_path / "model"))
    backbone: Any = loaded.whole.backbone
    with pytest.raises(ConfigError, match="does not say what the model says"):
        export_graph("model", with_backbone(loaded, Fickle(backbone)), "float32")
    with pytest.raises(ConfigError, match="cannot be made one graph") as error:
        export_graph("model", with_backbone(loaded, Strange()), "float32")
    assert "i0e" in error.value.why


def test_the_model_stays_as_it_was(home: Home) -> None:
    """It was exported twice when `home` was made."""
    assert not any(module.training for module in home.loaded.whole.modules())
    before, after = load_whole(home.folder).whole.state_dict(), home.loaded.whole.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())


def test_weights_that_are_no_numbers_do_not_hide(tmp_path: Path) -> None:
    """They are exported as they are, and whoever captions with them is told."""
    loaded = load_whole(make_model(tmp_path / "bad", backbone=NETWORK, spoilt=True))
    path = tmp_path / "bad.onnx"
    path.write_bytes(export_graph("bad", loaded, "float32").graph)
    with pytest.raises(CheckpointError, match="confidences that are not from 0 to 1"):
        Captioner(path, device="cpu").caption([images(1)[0].numpy()])


@pytest.mark.parametrize("package", ["onnx", "onnxruntime"])
def test_packages_that_are_missing_are_named(
    home: Home, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError) as error:
        export_graph("model", home.loaded, "float32")
    assert error.value.hint == "Run: pip install 'naic[onnx]'"
    assert package in str(error.value)
    if package == "onnxruntime":
        with pytest.raises(MissingExtraError, match=r"onnxruntime: .* pip install onnxruntime"):
            OnnxEngine(exported(home.plain), CPU)


def test_the_captioner_takes_the_file_alone(home: Home) -> None:
    photos = list(images().numpy())
    wanted = Captioner(home.folder, device="cpu").caption(photos)
    captioner = Captioner(home.plain, device="cpu")
    assert captioner.engine.runtime == "onnx"
    assert [said.text for said in captioner.caption(photos)] == [said.text for said in wanted]


def refused(path: Path) -> CheckpointError:
    with pytest.raises(CheckpointError) as error:
        OnnxEngine(exported(path), CPU)(images(1))
    assert error.value.what == str(path)
    return error.value


def with_facts(home: Home, path: Path, **facts: str) -> Path:
    """The graph with other metadata; an empty value leaves that fact out."""
    graph = onnx.load(home.plain)
    own = {fact.key: fact.value for fact in graph.metadata_props} | facts
    onnx.helper.set_model_props(graph, {key: value for key, value in own.items() if value})
    onnx.save(graph, path)
    return path


def test_damaged_and_foreign_files_are_refused(home: Home, tmp_path: Path) -> None:
    data, path = home.plain.read_bytes(), tmp_path / "x.onnx"
    assert "cannot be read" in refused(path).why  # there is none
    for wrong in (b"", b"no graph", data[: len(data) // 2], data[::-1]):
        path.write_bytes(wrong)
        found = refused(path)
        assert "cannot run it" in found.why or "none of naic's" in found.why
        assert "\n" not in str(found)
    assert "none of naic's" in refused(with_facts(home, path, naic="")).why
    assert "of another version" in refused(with_facts(home, path, naic="2")).why
    for facts in (
        {"pixels": ""},
        {"pixels": "many"},
        {"precision": ""},
        {"vocabulary": ""},
        {"vocabulary": "["},
        {"vocabulary": "7"},
        {"vocabulary": '["a", 1]'},
    ):
        assert "its metadata cannot be read" in refused(with_facts(home, path, **facts)).why
    for pixels in ("0", "-64", "1000000"):
        assert "pixels a side" in refused(with_facts(home, path, pixels=pixels)).why
    few = json.dumps(WORDS.words[:5])
    assert "what is not among its 5 words" in refused(with_facts(home, path, vocabulary=few)).why


def test_a_graph_with_other_inputs_is_refused(home: Home) -> None:
    engine = OnnxEngine(exported(home.plain), CPU)
    with pytest.raises(CheckpointError, match="cannot run it"):
        engine(torch.zeros(1, 32, 32, 3, dtype=torch.uint8))


def test_a_gpu_that_onnx_runtime_cannot_use_is_refused(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ConfigError, match="built for CPUs, and cannot use cuda:1"):
        OnnxEngine(exported(home.plain), Place("cuda", 1))


@pytest.mark.parametrize("gpu", [False, True])
def test_without_a_device_named_it_runs_where_onnx_runtime_can(
    home: Home, monkeypatch: pytest.MonkeyPatch, gpu: bool
) -> None:
    """With a GPU that PyTorch can use, and an ONNX Runtime that may be built for CPUs alone."""
    real, asked = onnxruntime.InferenceSession, []
    built_for = ["CUDAExecutionProvider"] * gpu + ["CPUExecutionProvider"]

    def session(path: Path, options: Any, providers: list[Any]) -> Any:
        asked.append(providers[0])
        return real(path, options, providers=["CPUExecutionProvider"])

    monkeypatch.setattr(ready, "may_have_gpu", lambda: True)
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: built_for)
    monkeypatch.setattr(onnxruntime, "InferenceSession", session)
    made = ready.make_ready(home.plain, "auto", "auto", "auto")
    assert made.engine.device.type == ("cuda" if gpu else "cpu")
    assert asked == [("CUDAExecutionProvider", {"device_id": 0}) if gpu else "CPUExecutionProvider"]
    assert made.engine(images(1)).words.shape == (1, LENGTH, 5)


def test_a_device_that_was_named_is_not_left(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: ["CPUExecutionProvider"])
    with pytest.raises(ConfigError, match="built for CPUs, and cannot use cuda"):
        ready.make_ready(home.plain, "cuda", "auto", "auto")


def test_ten_lines_without_torch_say_the_same(home: Home, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    Image.fromarray(images(1)[0].numpy()).resize((90, 70)).save(photo)
    code = f"""
import runpy, sys
sys.modules.update(dict.fromkeys(["torch", "naic", "onnx", "tyro"]))
sys.argv = ["caption_onnx.py", {str(home.plain)!r}, {str(photo)!r}]
runpy.run_path({str(EXAMPLE)!r})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    engine = OnnxEngine(exported(home.plain), CPU)
    pixels = square_pixels(open_image(photo, at_least=PIXELS), PIXELS)
    likeliest = engine(torch.from_numpy(pixels[None])).words[0, :, 0].tolist()
    assert done.stdout == f"{engine.vocabulary.decode(likeliest)}\n"
    lines = EXAMPLE.read_text().split("\n\n\n")[1].splitlines()
    assert lines[0].startswith("def caption(")
    assert len(lines) <= 10


def test_the_example_says_in_a_line_what_it_cannot_use(home: Home, tmp_path: Path) -> None:
    foreign = onnx.load(home.plain)
    del foreign.metadata_props[:]
    onnx.save(foreign, tmp_path / "foreign.onnx")
    (tmp_path / "notes.txt").write_text("no image")
    usage = "usage: python caption_onnx.py exported/model.onnx photo.jpg"
    model = str(home.plain)
    for words, told in (
        ([], usage),
        ([model], usage),
        ([model, "."], "no caption of .: [Errno 21] Is a directory"),
        ([model, "gone.jpg"], "no caption of gone.jpg: [Errno 2] No such file"),
        ([model, "notes.txt"], "no caption of notes.txt: cannot identify image file"),
        (["notes.txt", "notes.txt"], "Load model from notes.txt failed"),
        (["foreign.onnx", "notes.txt"], "foreign.onnx: not a graph of naic export"),
    ):
        done = subprocess.run(
            [sys.executable, str(EXAMPLE), *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert told in done.stderr
        assert len(done.stderr.splitlines()) == 1


def answering(words: Any, confidences: Any, facts: dict[str, str]) -> bytes:
    """A graph that says the same of all images: what a stranger may have made."""
    outputs = {"words": np.asarray(words), "confidences": np.asarray(confidences)}
    nodes = [
        onnx.helper.make_node(
            "Constant", [], [name], value=onnx.numpy_helper.from_array(value, name)
        )
        for name, value in outputs.items()
    ]
    told = [
        onnx.helper.make_tensor_value_info(
            name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype), value.shape
        )
        for name, value in outputs.items()
    ]
    shape = ("batch", PIXELS, PIXELS, 3)
    taken = onnx.helper.make_tensor_value_info("pixels", onnx.TensorProto.UINT8, shape)
    graph = onnx.helper.make_graph(nodes, "g", [taken], told)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)])
    model.ir_version = 8
    onnx.helper.set_model_props(model, facts)
    return bytes(model.SerializeToString())


WORD, SURE = np.full((1, 2, 2), 5), np.full((1, 2, 2), 0.5, np.float32)


@pytest.mark.parametrize(
    ("words", "confidences", "why"),
    [
        (WORD.astype(np.float32), SURE, "does not answer with int64 words"),
        (WORD[0], SURE[0], "does not answer with int64 words"),
        (WORD, SURE[..., :1], "does not answer with int64 words"),
        (np.repeat(WORD, 2, 0), np.repeat(SURE, 2, 0), "to 1 images"),
        (WORD[:, :0], SURE[:, :0], "to 1 images"),
        (WORD * 0 + BOS, SURE, "says what is not among its"),
        (WORD * 1000, SURE, "says what is not among its"),
        (WORD, SURE * np.nan, "confidences that are not from 0 to 1"),
        (WORD, SURE * 1e30, "confidences that are not from 0 to 1"),
    ],
)
def test_the_answer_of_a_graph_is_not_trusted(
    home: Home, tmp_path: Path, words: Any, confidences: Any, why: str
) -> None:
    facts = {one.key: one.value for one in onnx.load(home.plain).metadata_props}
    (tmp_path / "model.onnx").write_bytes(answering(words, confidences, facts))
    with pytest.raises(CheckpointError, match=why):
        OnnxEngine(exported(tmp_path / "model.onnx"), CPU)(images(1))
    (tmp_path / "model.onnx").write_bytes(answering(WORD, SURE, facts))
    assert (
        OnnxEngine(exported(tmp_path / "model.onnx"), CPU)(images(1)).words.tolist()
        == WORD.tolist()
    )
