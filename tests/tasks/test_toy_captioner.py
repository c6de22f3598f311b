"""A captioner of forty lines goes through all commands: they know the contract, and no class."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.errors import ConfigError
from naic.models.folder import load_model
from naic.runtime.captioner import Captioner
from naic.tasks.benchmark.rows import BenchmarkOptions
from naic.tasks.benchmark.run import benchmark
from naic.tasks.distil import distil
from naic.tasks.export import export_model
from naic.tasks.options import DistilOptions, ExportOptions, PackOptions
from naic.tasks.pack import pack_model
from tests.images.images import encode, photo
from tests.runtime.small import NETWORK
from tests.toy import Bag, add_bag

CONFIG = """
stage = "student_xe"
captioner = "bag"
out = "run"
data = { features = "store", more_than = 0, captions = 3 }
model = { hidden = 24 }
schedule = { learning_rate = 1e-2 }
engine = { device = "cpu" }
run = { epochs = 4, batch = 8, validate_every = 2.0 }
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features and a training run, by the commands that a person would give."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "photo.png").write_bytes(encode(photo(), "PNG"))
    (folder / "config.toml").write_text(CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        add_bag(patch)
        store = ["--out", "store", "--backbone", NETWORK, "--pixels", "64", "--device", "cpu"]
        assert main(["prepare", "shapes", "60", *store]) == 0
        assert main(["train", "config.toml"]) == 0
    return folder


@pytest.fixture(autouse=True)
def here(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    add_bag(monkeypatch)


def test_it_was_trained_and_its_captions_can_be_evaluated(tmp_path: Path) -> None:
    assert isinstance(load_model(Path("run/best")).model, Bag)
    results = "run/captions/val-beam1.json"
    given = ["--references", "store", "--split", "val", "--fast", "--bootstrap", "0"]
    assert main(["evaluate", results, *given, "--json", str(tmp_path / "scores.json")]) == 0
    found = json.loads((tmp_path / "scores.json").read_text())
    report = json.loads(Path("run/report.json").read_text())
    assert found["CIDEr"] == pytest.approx(report["scores"][0]["cider"])


def test_it_captions(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["--model", "run/best", "photo.png", "--device", "cpu"]
    assert main(["caption", *given]) == 0
    assert capsys.readouterr().out.startswith("photo.png: ")
    (caption,) = Captioner("run/best", device="cpu").caption(["photo.png"], alternatives=3)
    assert len({sentence.text for sentence in caption.alternatives}) == 3


def test_it_is_no_teacher_and_says_so() -> None:
    options = DistilOptions(Path("run/best"), Path("pseudo"), features=(Path("store"),))
    with pytest.raises(ConfigError, match="a bag captioner cannot search for sentences"):
        distil(options)


def test_it_is_timed_without_a_teacher() -> None:
    options = BenchmarkOptions(
        Path("run/best"), device="cpu", words=3, seconds=0.001, batches=(1,), against=()
    )
    report = benchmark(options)
    states = {(row.model, row.state) for row in report.rows if row.runtime == "eager"}
    assert states == {("NAIC", "timed"), ("teacher", "left out")}
    assert all("no Transformer" in r.why for r in report.rows if r.runtime == "eager" and r.why)
    assert report.model["sight"] == NETWORK
    with pytest.raises(ConfigError, match="says all words at once"):
        benchmark(replace(options, teacher=Path("run/best")))


def test_it_is_exported(tmp_path: Path) -> None:
    export_model(ExportOptions(Path("run/best"), out=tmp_path / "graph"))
    graph, model = Captioner(tmp_path / "graph", device="cpu"), Captioner("run/best", device="cpu")
    assert graph("photo.png") == model("photo.png")
    assert graph.engine.runtime == "onnx"


def test_it_is_packed_and_its_backbone_stays_outside(tmp_path: Path) -> None:
    packed = pack_model(PackOptions(Path("run/best"), tmp_path / "packed", bits=12))
    assert packed.backbone == f"not inside: {NETWORK}"
    assert [part.name for part in packed.parts] == ["hidden", "output"]
    assert Captioner(tmp_path / "packed", device="cpu")("photo.png")
    with pytest.raises(ConfigError, match="has no place for a backbone"):
        pack_model(PackOptions(Path("run/best"), tmp_path / "other", backbone=tmp_path))
