"""MNIC and FNIC go from drawn scenes to captions, a graph and a packed model, by our configs."""

from pathlib import Path

import pytest

from naic.cli.main import main
from naic.runtime.captioner import Captioner
from naic.tasks.benchmark.rows import BenchmarkOptions
from naic.tasks.benchmark.run import benchmark
from naic.tasks.export import export_model
from naic.tasks.options import ExportOptions, PackOptions
from naic.tasks.pack import pack_model
from naic.train.logs import read_metrics
from tests.images.images import encode, photo
from tests.runtime.small import NETWORK

CONFIGS = Path(__file__).parents[2] / "configs" / "shapes"
SMALL = {
    "data.features": "store",
    "data.more_than": "0",
    "model.width": "32",
    "model.heads": "2",
    "model.decoder_layers": "1",
    "model.hidden": "64",
    "schedule.learning_rate": "5e-3",
    "schedule.warmup_steps": "2",
    "schedule.total_epochs": "20",
    "run.epochs": "20",
    "run.batch": "12",
    "run.log_every": "1",
    "run.validate_every": "20",
    "run.save_every": "20",
    "engine.device": "cpu",
}
LOSS = {"mnic": 3.5, "fnic": 6.0}  # of 4 and more at first


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty drawn scenes; blobs, which see them best, cannot be exported."""
    folder = tmp_path_factory.mktemp("masked")
    (folder / "photo.png").write_bytes(encode(photo(), "PNG"))
    given = ["--out", str(folder / "store"), "--backbone", NETWORK, "--pixels", "64"]
    assert main(["prepare", "shapes", "60", *given, "--device", "cpu"]) == 0
    return folder


@pytest.mark.parametrize("name", LOSS)
def test_it_goes_the_whole_way(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(home)
    options = [word for key, value in SMALL.items() for word in (f"--{key}", value)]
    assert main(["train", str(CONFIGS / f"{name}_xe.toml"), "--out", name, *options]) == 0
    losses = [float(line["loss"]) for line in read_metrics(Path(name)) if "loss" in line]
    assert losses[0] > 4.0
    assert losses[-1] < LOSS[name]
    capsys.readouterr()
    assert main(["caption", "--model", f"{name}/best", "photo.png", "--device", "cpu"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("photo.png: ")
    model = Captioner(f"{name}/best", device="cpu")
    (caption,) = model.caption(["photo.png"], alternatives=3)
    assert len({sentence.text for sentence in caption.alternatives}) == 3
    export_model(ExportOptions(Path(name, "best"), out=Path(f"{name}-graph")))
    graph = Captioner(f"{name}-graph", device="cpu")
    assert graph.engine.runtime == "onnx"
    assert graph("photo.png") == model("photo.png")
    pack_model(PackOptions(Path(name, "best"), Path(f"{name}-packed"), bits=12))
    assert Captioner(f"{name}-packed", device="cpu")("photo.png")


@pytest.mark.parametrize("name", LOSS)
def test_it_has_a_row_in_the_benchmark(
    name: str, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home)
    report = benchmark(
        BenchmarkOptions(
            Path(name, "best"),
            device="cpu",
            runtimes=("eager",),
            parts="decode",
            words=3,
            seconds=0.001,
            batches=(1,),
            against=(),
        )
    )
    assert {(row.model, row.state) for row in report.rows} == {
        ("NAIC", "timed"),
        ("teacher", "left out"),
    }
