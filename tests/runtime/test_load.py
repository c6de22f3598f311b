import sys
import types
from pathlib import Path

import pytest
import torch

from naic.errors import CheckpointError, ConfigError
from naic.files import CARD, CONFIG, VOCABULARY, WEIGHTS
from naic.models.folder import load_model
from naic.runtime.calibration import CALIBRATION
from naic.runtime.captioner import Captioner
from naic.runtime.ready import exported_file, find_model, make_ready
from naic.runtime.skeleton import graph_names
from naic.text.style import STYLE
from tests.runtime.small import NETWORK, make_model

GRAPHS = [*graph_names("int8"), *graph_names("float32")]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_model(tmp_path_factory.mktemp("models") / "seeing", backbone=NETWORK)


def refused(
    model: Path, device: str = "cpu", runtime: str = "auto", precision: str = "auto"
) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        make_ready(model, device, runtime, precision)
    return caught.value


def test_on_a_cpu_it_is_eager_float32(model: Path) -> None:
    engine = Captioner(model, device="cpu").engine
    assert (engine.runtime, engine.precision, engine.device.type) == ("eager", "float32", "cpu")
    assert engine.pixels == 64


def test_what_does_not_go_together_is_refused(model: Path, tmp_path: Path) -> None:
    assert refused(model, runtime="graph").why == "a CUDA graph cannot run on cpu"
    assert "naic export" in refused(model, runtime="onnx").hint
    assert "naic export" in refused(model, precision="int8").hint
    assert "Known are: auto, eager" in refused(model, runtime="jax").hint
    assert refused(model, precision="float64").what == "precision"
    assert refused(model, precision="bfloat16").what == "precision bfloat16"
    assert refused(model, device="tpu").what == "--device"
    (tmp_path / "graph.onnx").write_bytes(b"")
    exported = refused(tmp_path / "graph.onnx", runtime="eager")
    assert exported.why == "graph.onnx is an exported graph, which eager cannot run"


def test_an_exported_graph_is_known_by_its_file(model: Path, tmp_path: Path) -> None:
    assert exported_file(model) is None
    assert exported_file(tmp_path) is None
    graph = tmp_path / "model.onnx"
    graph.write_bytes(b"")
    assert exported_file(graph) == exported_file(tmp_path) == graph
    (tmp_path / "other.onnx").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"several graphs: model\.onnx, other\.onnx"):
        exported_file(tmp_path)
    assert exported_file(tmp_path / "other.onnx") == tmp_path / "other.onnx"


@pytest.mark.parametrize("name", ["photo.jpg", "model.safetensors"])
def test_a_file_that_is_no_graph_is_no_model(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"")
    with pytest.raises(CheckpointError) as caught:
        Captioner(str(tmp_path / name), device="cpu")
    assert caught.value.what == str(tmp_path / name)
    assert caught.value.why.startswith("is no model: that is a folder with model.safetensors, or")
    assert 'Captioner()("photo.jpg")' in caught.value.hint
    assert "naic caption photo.jpg" in caught.value.hint


def hub(monkeypatch: pytest.MonkeyPatch, answer: Path | Exception) -> list[tuple[str, list[str]]]:
    """A hub that gives this folder, or fails, and remembers what it was asked for."""
    calls = []

    def snapshot_download(name: str, *, allow_patterns: list[str]) -> str:
        calls.append((name, allow_patterns))
        if isinstance(answer, Exception):
            raise answer
        return str(answer)

    client = types.ModuleType("huggingface_hub")
    vars(client)["snapshot_download"] = snapshot_download
    monkeypatch.setitem(sys.modules, "huggingface_hub", client)
    return calls


def test_a_name_on_the_hub_is_fetched_and_no_more_than_a_model(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = hub(monkeypatch, model)
    assert find_model("somebody/captions-v1.2") == model
    wanted = [WEIGHTS, CONFIG, VOCABULARY, CARD, CALIBRATION, STYLE, *GRAPHS]
    assert calls == [("somebody/captions-v1.2", wanted)]
    assert Captioner(Path("somebody/captions"), device="cpu").engine.pixels == 64


def test_a_folder_that_is_there_wins(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls = hub(monkeypatch, model)
    (tmp_path / "runs" / "best").mkdir(parents=True)
    assert find_model("runs/best") == Path("runs/best")
    for name in ("best", "./runs/none", "/none/at/all", "a/b/c", "../x", "a/..", "https://x/y"):
        with pytest.raises(CheckpointError, match="there is no such model"):
            find_model(name)
    assert calls == []


def test_a_hub_that_does_not_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    hub(monkeypatch, ConnectionError("no route to the hub.\nmore about it"))
    with pytest.raises(CheckpointError) as caught:
        find_model("somebody/captions")
    assert caught.value.why.endswith("the hub does not give it (no route to the hub)")
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(CheckpointError, match="pip install huggingface_hub"):
        find_model("somebody/captions")


def test_a_model_is_loaded_without_drawing_weights_first(model: Path) -> None:
    """That took longer than reading them, and used up random numbers of the caller."""
    torch.manual_seed(7)
    before = torch.get_rng_state()
    loaded = load_model(model)
    assert torch.equal(torch.get_rng_state(), before)
    assert all(tensor.isfinite().all() for tensor in loaded.model.state_dict().values())
    positions = dict(loaded.model.named_buffers())["decoder.positions"]
    assert positions[0].tolist() == [0.0, 1.0] * (positions.shape[1] // 2)
