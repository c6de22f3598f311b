"""A captioner of forty lines goes through all commands: they know the contract, and no class.

It is a plug-in: a module in a folder of its user's, named on the command line.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from naic.cli.main import main
from naic.errors import CheckpointError, ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.folder import load_model
from naic.plugins import use
from naic.runtime.captioner import Captioner
from naic.tasks.benchmark.rows import BenchmarkOptions
from naic.tasks.benchmark.run import benchmark
from naic.tasks.distil import distil
from naic.tasks.export import export_model
from naic.tasks.export_options import ExportOptions
from naic.tasks.options import DistilOptions, PackOptions
from naic.tasks.pack import pack_model
from tests import toy
from tests.images.images import encode, photo
from tests.plugging import unplugged
from tests.runtime.small import NETWORK

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


PLUGIN = ("--plugin", "bag_captioner")


def naic(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The script `naic` in a folder, which is not where it looks for modules by itself."""
    script = [sys.executable, str(Path(sys.executable).with_name("naic")), *words]
    return subprocess.run(script, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features and a training run, by the commands that a person would give."""
    folder = tmp_path_factory.mktemp("toy")
    (folder / "photo.png").write_bytes(encode(photo(), "PNG"))
    (folder / "config.toml").write_text(CONFIG)
    shutil.copy(toy.__file__, folder / "bag_captioner.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        store = ["--out", "store", "--backbone", NETWORK, "--pixels", "64", "--device", "cpu"]
        assert main(["prepare", "shapes", "60", *store]) == 0
    done = naic(folder, "train", "config.toml", *PLUGIN)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(autouse=True)
def here(run: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(run)
    with unplugged():
        yield


def test_it_was_trained_and_its_captions_can_be_evaluated(run: Path, tmp_path: Path) -> None:
    use("bag_captioner")
    loaded = load_model(Path("run/best"))
    assert type(loaded.model).__module__ == "bag_captioner"
    assert loaded.settings.made_with == ("bag_captioner",)
    results = "run/captions/val-beam1.json"
    given = ["--references", "store", "--split", "val", "--fast", "--bootstrap", "0"]
    scores = ["--json", str(tmp_path / "scores.json")]
    done = naic(run, "evaluate", results, *given, *scores, *PLUGIN)
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "scores.json").read_text())
    report = json.loads(Path("run/report.json").read_text())
    assert found["CIDEr"] == pytest.approx(report["scores"][0]["cider"])
    assert (
        "naic train config.toml --plugin bag_captioner\n" in Path("run/best/README.md").read_text()
    )


def test_it_captions(run: Path) -> None:
    done = naic(run, "caption", "--model", "run/best", "photo.png", "--device", "cpu", *PLUGIN)
    assert done.returncode == 0, done.stderr
    model = Captioner("run/best", device="cpu", plugins=["bag_captioner"])
    assert done.stdout == f"photo.png: {model('photo.png')}\n"
    (caption,) = model.caption(["photo.png"], alternatives=3)
    assert len({sentence.text for sentence in caption.alternatives}) == 3


def test_it_is_refused_where_nobody_named_it(run: Path) -> None:
    """Though its module lies in this very folder, and the model asks for it."""
    done = naic(run, "caption", "--model", "run/best", "photo.png", "--device", "cpu")
    assert done.returncode == 1
    assert "run/best/config.toml: there is no captioner 'bag'. There are: causal, " in done.stderr
    assert "name it: --plugin bag_captioner (" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_program_gives_the_module_itself() -> None:
    assert Captioner("run/best", device="cpu", plugins=[toy]).engine.runtime == "eager"


def test_it_is_no_teacher_and_says_so() -> None:
    use("bag_captioner")
    options = DistilOptions(Path("run/best"), Path("pseudo"), features=(Path("store"),))
    with pytest.raises(ConfigError, match="a bag captioner cannot search for sentences"):
        distil(options)


def test_it_is_timed_without_a_teacher(run: Path, tmp_path: Path) -> None:
    words = ["--words", "3", "--seconds", "0.001", "--batches", "1", "--runtimes", "eager"]
    out = ["--against", "--device", "cpu", "--out", str(tmp_path / "times.json"), *PLUGIN]
    done = naic(run, "benchmark", "run/best", *words, *out)
    assert done.returncode == 0, done.stderr
    report = json.loads((tmp_path / "times.json").read_text())
    rows = report["rows"]
    states = {(row["model"], row["state"]) for row in rows}
    assert states == {("NAIC", "timed"), ("teacher", "left out")}
    assert all("no Transformer" in row["why"] for row in rows if row["why"])
    assert report["model"]["sight"] == NETWORK
    assert report["command"].endswith(" --plugin bag_captioner")
    use("bag_captioner")
    options = BenchmarkOptions(Path("run/best"), device="cpu", against=())
    with pytest.raises(ConfigError, match="says all words at once"):
        benchmark(replace(options, teacher=Path("run/best")))


def test_it_is_exported_and_its_graph_needs_no_plug_in(tmp_path: Path) -> None:
    use("bag_captioner")
    export_model(ExportOptions(Path("run/best"), out=tmp_path / "graph"))
    said = Captioner("run/best", device="cpu")("photo.png")
    del CAPTIONERS["bag"]
    graph = Captioner(tmp_path / "graph", device="cpu")
    assert graph("photo.png") == said
    assert graph.engine.runtime == "onnx"
    with pytest.raises(CheckpointError, match="--plugin bag_captioner"):
        Captioner("run/best", device="cpu")


def test_it_is_packed_and_its_backbone_stays_outside(tmp_path: Path) -> None:
    use("bag_captioner")
    packed = pack_model(PackOptions(Path("run/best"), tmp_path / "packed", bits=12))
    assert load_model(tmp_path / "packed").settings.made_with == ("bag_captioner",)
    assert packed.backbone == f"not inside: {NETWORK}"
    assert [part.name for part in packed.parts] == ["hidden", "output"]
    assert Captioner(tmp_path / "packed", device="cpu")("photo.png")
    with pytest.raises(ConfigError, match="has no place for a backbone"):
        pack_model(PackOptions(Path("run/best"), tmp_path / "other", backbone=tmp_path))
