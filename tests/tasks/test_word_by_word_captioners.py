"""Other captioners that write word by word go through all commands, with the settings that ship."""

import json
from pathlib import Path

import pytest
import torch

from naic.cli.main import main
from naic.errors import ConfigError
from naic.models.folder import load_model
from naic.runtime.captioner import Captioner
from naic.tasks.distil import distil
from naic.tasks.export import export_model
from naic.tasks.options import DistilOptions, ExportOptions, PackOptions
from naic.tasks.pack import pack_model
from naic.train.logs import read_metrics
from tests.images.images import encode, photo
from tests.runtime.small import NETWORK

CONFIGS = Path(__file__).parents[2] / "configs" / "shapes"
CAPTIONERS = ["eta", "ort"]
SMALL = ["--model.width", "32", "--model.hidden", "64", "--engine.device", "cpu"]
SHORT = ["--run.epochs", "12", "--run.validate_every", "12", "--schedule.total_epochs", "12"]
FAST = ["--schedule.learning_rate", "4e-3", "--schedule.warmup_steps", "4"]


@pytest.fixture(scope="module", params=CAPTIONERS)
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Features and a training run, by the commands that a person would give."""
    folder = tmp_path_factory.mktemp(request.param)
    (folder / "photo.png").write_bytes(encode(photo(), "PNG"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        store = ["--out", "store", "--backbone", NETWORK, "--pixels", "64", "--device", "cpu"]
        assert main(["prepare", "shapes", "40", *store]) == 0
        given = ["--out", request.param, "--data.features", "store", "--data.more_than", "0"]
        given += ["--run.batch", "8", "--run.log_every", "1", "--validation.report", "[2]"]
        given += [*SMALL, *SHORT, *FAST]
        assert main(["train", str(CONFIGS / f"{request.param}_xe.toml"), *given]) == 0
    return folder / str(request.param)


@pytest.fixture(autouse=True)
def here(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run.parent)


def test_it_learns_a_handful_of_scenes(run: Path) -> None:
    losses = [float(line["loss"]) for line in read_metrics(run) if "loss" in line]
    assert losses[0] > 4.3
    assert losses[-1] < 3.2


def test_it_captions(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert load_model(run / "best").settings.captioner == run.name
    words = ["--model", str(run / "best"), "photo.png", "--device", "cpu"]
    assert main(["caption", *words]) == 0
    assert capsys.readouterr().out.startswith("photo.png: ")
    (caption,) = Captioner(run / "best", device="cpu").caption(["photo.png"], alternatives=3)
    assert len({sentence.text for sentence in caption.alternatives}) == 3


def test_it_teaches(run: Path, tmp_path: Path) -> None:
    options = DistilOptions(
        run / "best", tmp_path / "pseudo", features=(Path("store"),), splits=("val",), device="cpu"
    )
    distil(options)
    assert json.loads((tmp_path / "pseudo" / "index.json").read_text())


def test_it_is_packed_and_not_exported(run: Path, tmp_path: Path) -> None:
    packed = pack_model(PackOptions(run / "best", tmp_path / "packed", bits=12))
    assert packed.backbone == f"the package's {NETWORK}"  # it has a place for one
    assert Captioner(tmp_path / "packed", device="cpu")("photo.png")
    before, after = (
        load_model(one).model.state_dict() for one in (run / "best", tmp_path / "packed")
    )
    whole = [name for name, value in before.items() if not value.is_floating_point()]
    assert all(torch.equal(after[name], before[name]) for name in whole)
    with pytest.raises(ConfigError, match="word by word"):
        export_model(ExportOptions(run / "best", out=tmp_path / "graph"))
