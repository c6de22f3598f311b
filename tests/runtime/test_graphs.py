"""Graphs beside a model's weights: what they are made of, where it is kept, and what is refused."""

import hashlib
import json
import os
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
import pytest
import torch
from PIL import Image
from safetensors.numpy import load, save

from naic.backbones.vit import VITS
from naic.device import CPU
from naic.errors import CheckpointError, ConfigError, MissingExtraError
from naic.files import WEIGHTS
from naic.runtime import graphs, ready
from naic.runtime.bones import LARGE
from naic.runtime.captioner import Captioner
from naic.runtime.export import export_graph
from naic.runtime.graphs import Graph, beside, precisions
from naic.runtime.load import load_whole
from naic.runtime.onnx_engine import OnnxEngine
from naic.runtime.skeleton import DATA, PRECISIONS, fill, graph_names
from naic.tasks.beside import graphs_if_possible, put_graphs
from naic.tasks.options import PackOptions
from naic.tasks.pack import pack_model
from naic.text.vocabulary import Vocabulary
from tests.backbones.test_vit import TINY, noise
from tests.runtime.small import NETWORK, WORDS, make_model
from tests.runtime.without import run_without_torch

PAIR = "clip-vit-b16+dinov2-vits14"
PIXELS = 256


class Home(NamedTuple):
    """A packed model with two tiny networks inside, and its graphs as `naic export` makes them."""

    model: Path
    whole: dict[str, bytes]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        for name, shape in TINY.items():
            patch.setitem(VITS, name, shape)
        plain = make_model(folder / "plain", backbone=PAIR, pixels=PIXELS, transitions=4)
        pack_model(PackOptions(plain, folder / "model"))
        loaded = load_whole(folder / "model")
        whole = {p: export_graph("model", loaded, p).graph for p in PRECISIONS}
        put_graphs(folder / "model")
        yield Home(folder / "model", whole)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "graphs"


def copied(home: Home, folder: Path, *left_out: str) -> Path:
    folder.mkdir()
    for path in home.model.iterdir():
        if path.name not in left_out:
            (folder / path.name).write_bytes(path.read_bytes())
    return folder


def say(graph: Graph) -> tuple[Any, ...]:
    found = OnnxEngine(graph, CPU, WORDS)(noise(2, PIXELS, PIXELS, 3).numpy())
    assert found.pairs is not None
    return found.words, found.log_probs, found.pairs


@pytest.mark.parametrize("precision", PRECISIONS)
def test_it_says_to_the_bit_what_the_exported_graph_says(home: Home, precision: str) -> None:
    wanted = say(Graph(Path("whole"), home.whole[precision]))
    for found in (say(beside(home.model, precision)), say(beside(home.model, precision))):
        for own, other in zip(found, wanted, strict=True):
            assert np.array_equal(own, other)


def test_no_large_tensor_stays_in_the_graphs(home: Home) -> None:
    for precision in PRECISIONS:
        graph = onnx.load(home.model / graph_names(precision)[0], load_external_data=False)
        inside = [t for t in graph.graph.initializer if not t.external_data]
        assert all(np.prod(t.dims) < LARGE for t in inside), precision
        assert {t.external_data[0].value for t in graph.graph.initializer if t.external_data} == {
            DATA
        }


def test_its_tensors_are_made_once(
    home: Home, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = beside(home.model, "int8")
    assert isinstance(first.content, Path)
    assert first.content.parent.parent == cache
    assert [path.name for path in cache.iterdir()] == [first.content.parent.name]
    monkeypatch.setattr(graphs, "fill", None)
    assert beside(home.model, "int8") == first


@pytest.mark.parametrize("harm", ["flip", "cut", "gone", "empty"])
def test_what_was_damaged_in_the_cache_is_made_again(home: Home, harm: str) -> None:
    content = beside(home.model, "int8").content
    assert isinstance(content, Path)
    data = content.with_name(DATA)
    good = data.read_bytes()
    match harm:
        case "flip":
            data.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
        case "cut":
            data.write_bytes(good[:-1])
        case "gone":
            data.unlink()
        case _:
            for path in content.parent.iterdir():
                path.unlink()
    assert beside(home.model, "int8").content == content
    assert data.read_bytes() == good


@pytest.mark.parametrize("where", ["no folder", "full disk", "no home"])
def test_without_a_cache_it_works_from_memory(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    wanted = say(beside(home.model, "int8"))
    if where == "no folder":
        (tmp_path / "file").write_bytes(b"")
        monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "file"))
    elif where == "full disk":
        monkeypatch.setenv("NAIC_CACHE", str(tmp_path / "other"))

        def full(*_: object) -> None:
            raise OSError(28, "No space left on device")

        monkeypatch.setattr(Path, "write_bytes", full)
    else:

        def none() -> Path:
            raise ConfigError("NAIC_CACHE", "there is no home", "Set it.")

        monkeypatch.setattr(graphs, "cache_folder", none)
    graph = beside(home.model, "int8")
    assert isinstance(graph.content, bytes)
    assert graph.tensors
    for own, other in zip(say(graph), wanted, strict=True):
        assert np.array_equal(own, other)
    assert not list((tmp_path / "other").rglob(DATA))


def test_a_cache_that_is_deleted_meanwhile_is_no_matter(
    home: Home, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who watches a folder for days has one engine, and the session for batches is made late."""
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    engine = OnnxEngine(beside(home.model, "int8"), CPU, WORDS)
    pixels = noise(3, PIXELS, PIXELS, 3).numpy()
    alone = [engine(image[None]).words[0] for image in pixels]
    shutil.rmtree(cache)
    assert np.array_equal(engine(pixels).words, alone)
    assert np.array_equal(engine(pixels).words, alone)


def test_several_at_once_are_no_matter(home: Home, cache: Path) -> None:
    found: list[Graph] = []
    threads = [
        threading.Thread(target=lambda: found.append(beside(home.model, "float32")))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len({graph.content for graph in found}) == 1
    assert len(list(cache.iterdir())) == 1


def test_another_process_may_be_faster(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its folder is there when this one wants to give its own that name."""
    real = fill

    def slowly(*arguments: Any) -> Iterator[Any]:
        monkeypatch.setattr(graphs, "fill", real)
        monkeypatch.setattr(graphs, "_MAKING", threading.Lock())
        beside(home.model, "int8")
        yield from real(*arguments)

    monkeypatch.setattr(graphs, "fill", slowly)
    graph = beside(home.model, "int8")
    assert isinstance(graph.content, Path)
    assert say(graph)


def test_what_a_killed_process_left_long_ago_is_removed(
    home: Home, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".saving-old.1", ".saving-new.2"):
        (cache / name).mkdir(parents=True)
    before = time.time() - 2 * 24 * 3600
    os.utime(cache / ".saving-old.1", (before, before))
    beside(home.model, "int8")
    left = sorted(path.name for path in cache.iterdir() if path.name.startswith("."))
    assert left == [".saving-new.2"]


def test_a_graph_of_other_weights_is_refused(home: Home, tmp_path: Path) -> None:
    model = copied(home, tmp_path / "other")
    tensors = load((model / WEIGHTS).read_bytes())
    tensors["decoder.output.bias"] = tensors["decoder.output.bias"] + 1
    (model / WEIGHTS).write_bytes(save(tensors))
    with pytest.raises(CheckpointError, match=r"is not of the model.safetensors beside it"):
        beside(model, "int8")
    model = copied(home, tmp_path / "mixed")
    names = graph_names("int8")[0], graph_names("float32")[0]
    (model / names[0]).write_bytes((model / names[1]).read_bytes())
    with pytest.raises(CheckpointError, match=r"is not of the graph-int8.onnx beside it"):
        beside(model, "int8")


def test_half_a_graph_is_none(home: Home, tmp_path: Path) -> None:
    assert precisions(home.model) == PRECISIONS == ("int8", "float32")
    assert precisions(copied(home, tmp_path / "one", "graph-int8.json")) == ("float32",)
    assert precisions(copied(home, tmp_path / "none", WEIGHTS)) == ()


Change = Callable[[dict[str, Any]], object]
HOSTILE: dict[str, Change] = {
    "another version": lambda it: it.update({"naic graph": 2}),
    "no parts": lambda it: it.pop("parts"),
    "parts of another kind": lambda it: it.update(parts=3),
    "a short part": lambda it: it["parts"][0].pop(),
    "a weight that is not there": lambda it: it["parts"][0].__setitem__(2, "nothing"),
    "a tensor larger than its weight": lambda it: it["parts"][0].__setitem__(1, [1 << 40]),
    "another shape": lambda it: it["parts"][0][1].insert(0, 1),
    "no size": lambda it: it["parts"][0].__setitem__(3, [0]),
    "a step without a name": lambda it: it["parts"][0].__setitem__(4, [[]]),
    "a step with a list for a name": lambda it: it["parts"][0].__setitem__(4, [[["x"]]]),
    "a shape without end": lambda it: it["parts"][0].__setitem__(1, [1e999, 2]),
    "a number beyond all": lambda it: it["parts"][0].__setitem__(4, [["times", 10**400]]),
    "another precision": lambda it: it.update(precision="float32"),
    "a step that is none": lambda it: it["parts"][0].__setitem__(4, [["import", "os"]]),
    "a step that does not fit": lambda it: it["parts"][0].__setitem__(4, [["permute", [5, 4]]]),
    "a vector that is no vector": lambda it: it.update(vectors=["?"]),
    "a vector that is not there": lambda it: it["parts"][0].__setitem__(4, [["inputs", 999]]),
    "a vector of another size": lambda it: it.update(vectors=["AACAPw=="] * 99),
    "a rounding that is none": lambda it: it["parts"][0].__setitem__(5, "int2"),
    "one weight a thousand times": lambda it: it.update(parts=it["parts"][:1] * 1000),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_skeleton_that_asks_for_what_is_not_there_is_refused(
    home: Home, tmp_path: Path, name: str, cache: Path
) -> None:
    model = copied(home, tmp_path / "hostile")
    path = model / "graph-int8.json"
    facts = json.loads(path.read_bytes())
    HOSTILE[name](facts)
    path.write_text(json.dumps(facts))
    with pytest.raises(CheckpointError) as error:
        beside(model, "int8")
    assert "naic export MODEL --beside" in error.value.hint
    assert not list(cache.glob("*"))


def test_files_that_are_no_json_or_no_weights_are_refused(home: Home, tmp_path: Path) -> None:
    model = copied(home, tmp_path / "broken")
    (model / "graph-int8.json").write_text("{")
    with pytest.raises(CheckpointError, match="is damaged"):
        beside(model, "int8")
    data = (home.model / "graph-float32.json").read_text()
    (model / WEIGHTS).write_bytes(b"12345678")
    digest = hashlib.sha256(b"12345678").hexdigest()
    own = json.loads(data)["weights"]
    (model / "graph-float32.json").write_text(data.replace(own, digest))
    with pytest.raises(CheckpointError, match="no whole safetensors file"):
        beside(model, "float32")


def test_a_processor_takes_the_graph_and_what_is_asked_for_wins(home: Home) -> None:
    def chosen(device: str, runtime: str, precision: str) -> tuple[str, str]:
        engine = ready.make_ready(home.model, device, runtime, precision).engine
        return engine.runtime, engine.precision

    assert chosen("cpu", "auto", "auto") == ("onnx", "int8")
    assert chosen("cpu", "auto", "float32") == ("onnx", "float32")
    assert chosen("cpu", "onnx", "float32") == ("onnx", "float32")
    assert chosen("cpu", "eager", "auto") == ("eager", "float32")
    with pytest.raises(ConfigError, match="there is no 'int4'"):
        chosen("cpu", "auto", "int4")
    with pytest.raises(ConfigError, match="'cpu:x' is no device"):
        chosen("cpu:x", "auto", "auto")
    for how in (
        ("cuda", "onnx", "auto"),
        ("cpu", "onnx", "bfloat16"),
        ("cpu", "eager", "int8"),
        ("cuda", "auto", "int8"),
    ):
        with pytest.raises(ConfigError, match=r"are int8 and float32, run by ONNX Runtime") as told:
            chosen(*how)
        assert "--device cpu" in told.value.hint


def test_with_a_gpu_torch_runs_it(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ready, "may_have_gpu", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    assert ready._light(home.model, "auto", "auto", "auto") is None
    assert ready._light(home.model, "auto", "onnx", "auto") == "int8"
    assert ready._light(home.model, "auto", "auto", "int8") == "int8"  # which no GPU has
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert ready._light(home.model, "auto", "auto", "auto") == "int8"
    assert ready._light(home.model, "cuda", "auto", "auto") is None


def test_captions_and_the_command_need_no_torch(home: Home, tmp_path: Path) -> None:
    photo = tmp_path / "photo.png"
    Image.fromarray(noise(1, 40, 60, 3)[0].numpy()).save(photo)
    code = """
from naic.cli.main import main
print([main(["caption", "--model", sys.argv[1], sys.argv[2]]), main(["train", "x.toml"])])
"""
    done = run_without_torch(code, str(home.model), str(photo))
    caption, codes = done.stdout.splitlines()
    wanted = Captioner(home.model, device="cpu")(photo)
    assert (caption, codes) == (f"{photo}: {wanted}", "[0, 1]")
    assert "pip install 'naic[train]'" in done.stderr


def test_without_torch_a_model_without_a_graph_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = make_model(tmp_path / "plain", backbone=NETWORK)
    monkeypatch.setattr(ready, "has_torch", lambda: False)
    with pytest.raises(MissingExtraError, match=r"pip install 'naic\[train\]'"):
        Captioner(model)


def test_models_that_cannot_be_a_graph_have_none(tmp_path: Path) -> None:
    features = make_model(tmp_path / "features")
    assert "naic pack" in graphs_if_possible(features)
    assert precisions(features) == ()
    causal = make_model(tmp_path / "causal", "causal", backbone=NETWORK)
    assert "word by word" in graphs_if_possible(causal)


def test_a_plain_model_with_convolutions(tmp_path: Path) -> None:
    model = make_model(tmp_path / "plain", backbone=NETWORK)
    put_graphs(model, ("float32",))
    graph = beside(model, "float32")
    pixels = torch.randint(0, 256, (2, 64, 64, 3), dtype=torch.uint8).numpy()
    found = OnnxEngine(graph, CPU, Vocabulary.load(model / "vocab.json"))(pixels)
    wanted = Captioner(model, device="cpu", runtime="eager").engine(pixels)
    assert np.array_equal(found.words, wanted.words)
    np.testing.assert_allclose(found.log_probs, wanted.log_probs, atol=1e-4)
