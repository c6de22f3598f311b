"""Other people's captioners go from drawn scenes to captions by all commands, by our configs."""

import json
from dataclasses import fields
from pathlib import Path

import pytest
import torch

from naic.cli.main import main
from naic.errors import ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.folder import load_model
from naic.models.transformer import TransformerCaptioner
from naic.runtime.captioner import Captioner
from naic.tasks.benchmark.rows import BenchmarkOptions
from naic.tasks.benchmark.run import benchmark
from naic.tasks.distil import distil
from naic.tasks.export import export_model
from naic.tasks.export_options import ExportOptions
from naic.tasks.options import DistilOptions, PackOptions
from naic.tasks.pack import pack_model
from naic.train.logs import read_metrics
from tests.images.images import encode, photo
from tests.runtime.small import NETWORK

CONFIGS = Path(__file__).parents[2] / "configs" / "shapes"
OTHERS = [name for name in CAPTIONERS if name not in ("causal", "parallel")]
SMALL = {
    "data.features": "../store",
    "data.more_than": "0",
    "schedule.learning_rate": "5e-3",
    "schedule.warmup_steps": "2",
    "schedule.total_epochs": "16",
    "run.epochs": "16",
    "optimiser.average": "0.0",
    "run.batch": "12",
    "run.log_every": "1",
    "run.validate_every": "16",
    "run.save_every": "16",
    "engine.device": "cpu",
}
RATES = {"nic": "2e-2", "updown": "2e-2"}  # LSTMs learn faster
SIZES = {"width": 32, "heads": 2, "encoder_layers": 1, "decoder_layers": 1, "hidden": 64}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty drawn scenes in grids; blobs, which see them best, are none and cannot be exported."""
    folder = tmp_path_factory.mktemp("others")
    (folder / "photo.png").write_bytes(encode(photo(), "PNG"))
    given = ["--out", str(folder / "store"), "--backbone", NETWORK, "--pixels", "64"]
    assert main(["prepare", "shapes", "60", *given, "--device", "cpu"]) == 0
    return folder


@pytest.fixture(scope="module", params=OTHERS)
def name(request: pytest.FixtureRequest, home: Path) -> str:
    """Of a captioner that was trained, by the command that a person would give."""
    chosen = str(request.param)
    (home / chosen).mkdir()
    own = {field.name for field in fields(CAPTIONERS[chosen].config)}
    sizes = {f"model.{key}": str(value) for key, value in SIZES.items() if key in own}
    values = SMALL | sizes
    values["schedule.learning_rate"] = RATES.get(chosen, SMALL["schedule.learning_rate"])
    options = [word for key, value in values.items() for word in (f"--{key}", value)]
    if CAPTIONERS[chosen].beams is not None:
        options += ["--validation.report", "[2]"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home / chosen)
        assert main(["train", str(CONFIGS / f"{chosen}_xe.toml"), "--out", "run", *options]) == 0
    return chosen


@pytest.fixture(autouse=True)
def here(home: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(home / name)


def test_it_learns_a_handful_of_scenes(name: str) -> None:
    lines = [line for line in read_metrics(Path("run")) if "loss" in line]
    losses = [float(line.get("loss_words", line["loss"])) for line in lines]
    assert losses[0] > 3.8
    assert losses[-1] < 0.85 * losses[0]
    if CAPTIONERS[name].losses is not None:
        parts = [value for key, value in lines[-1].items() if key.startswith("loss_")]
        assert sum(map(float, parts)) == pytest.approx(float(lines[-1]["loss"]), rel=1e-3)


def test_it_captions(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_model(Path("run/best")).settings.captioner == name
    assert main(["caption", "--model", "run/best", "../photo.png", "--device", "cpu"]) == 0
    assert capsys.readouterr().out.startswith("../photo.png: ")
    (caption,) = Captioner("run/best", device="cpu").caption(["../photo.png"], alternatives=3)
    others = [sentence.text for sentence in caption.alternatives]
    assert 1 <= len(set(others)) == len(others) <= 3


def test_it_teaches_if_it_can_search(name: str) -> None:
    options = DistilOptions(
        Path("run/best"), Path("pseudo"), features=(Path("../store"),), splits=("val",)
    )
    if CAPTIONERS[name].beams is None:
        with pytest.raises(ConfigError, match="cannot search for sentences"):
            distil(options)
    else:
        distil(options)
        assert json.loads(Path("pseudo", "index.json").read_text())


def test_it_is_exported_if_it_has_one_pass(name: str) -> None:
    options = ExportOptions(Path("run/best"), out=Path("graph"))
    if not CAPTIONERS[name].one_pass:
        with pytest.raises(ConfigError, match="word by word"):
            export_model(options)
        return
    export_model(options)
    graph, model = Captioner("graph", device="cpu"), Captioner("run/best", device="cpu")
    assert graph.engine.runtime == "onnx"
    assert graph("../photo.png") == model("../photo.png")


def test_it_is_packed() -> None:
    pack_model(PackOptions(Path("run/best"), Path("packed"), bits=12))
    assert Captioner("packed", device="cpu")("../photo.png")
    before, after = (load_model(Path(one)).model.state_dict() for one in ("run/best", "packed"))
    whole = [key for key, value in before.items() if not value.is_floating_point()]
    assert all(torch.equal(after[key], before[key]) for key in whole)


def test_it_has_a_row_in_the_benchmark(name: str) -> None:
    options = BenchmarkOptions(
        Path("run/best"),
        device="cpu",
        runtimes=("eager",),
        parts="decode",
        words=3,
        seconds=0.001,
        batches=(1,),
        against=(),
    )
    if not CAPTIONERS[name].one_pass:  # in the teacher's place: tests/tasks/benchmark
        with pytest.raises(ConfigError, match="--teacher"):
            benchmark(options)
        return
    rows = {(row.model, row.state) for row in benchmark(options).rows}
    twin = isinstance(load_model(Path("run/best")).model, TransformerCaptioner)
    assert rows == {("NAIC", "timed"), ("teacher", "timed" if twin else "left out")}
