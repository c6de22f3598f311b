"""There is room for another captioner: one that is written here is trained, scored and kept."""

import json
from pathlib import Path

import pytest
import torch

from naic.errors import CheckpointError, ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.folder import load_model
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.run import evaluate
from naic.train.config import read_settings
from naic.train.logs import read_metrics
from naic.train.loop import train
from tests.toy import Bag, BagConfig, add_bag
from tests.train.runs import COMMAND, EPOCH, LENGTH, VALIDATION, enter, make_home, run_settings

RUN = Path("run")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    add_bag(monkeypatch)
    return enter(home, tmp_path, monkeypatch)


def write_config(stage: str = "student_xe", extra: str = "") -> Path:
    path = Path(f"{stage}.toml")
    path.write_text(f"""
stage = "{stage}"
captioner = "bag"
out = "run"
{extra}
data = {{ features = "../store", more_than = 0, captions = 3 }}
model = {{ hidden = 24, length = {LENGTH} }}
schedule = {{ learning_rate = 2e-2 }}
engine = {{ device = "cpu" }}
run = {{ epochs = 12, batch = 8, log_every = 1, validate_every = 4.0 }}
""")
    return path


def test_a_new_captioner_is_trained_and_scored(here: Path) -> None:
    settings = read_settings(write_config())
    report = train(settings, command=COMMAND)
    losses = [float(line["loss"]) for line in read_metrics(RUN) if "loss" in line]
    assert len(losses) == 12 * EPOCH
    assert losses[-1] < 0.5 * losses[0]
    evaluation = evaluate(
        EvaluateOptions(
            RUN / "captions" / "val-beam1.json",
            references="../store",
            split=("val",),
            fast=True,
            bootstrap=0,
        )
    )
    assert len(evaluation.images) == VALIDATION
    # The evaluation that anyone can run finds what the run reported.
    assert evaluation.system.scores["CIDEr"].value == pytest.approx(report["scores"][0]["cider"])
    assert evaluation.system.scores["CIDEr"].value > 1


def test_its_report_is_like_any_other(here: Path) -> None:
    settings = read_settings(write_config())
    report = train(settings, command=COMMAND)
    other = json.loads(Path("../teacher/report.json").read_text())
    assert report.keys() == other.keys()
    assert [row.keys() for row in report["scores"]] == [row.keys() for row in other["scores"]]
    assert (report["captioner"], other["captioner"]) == ("bag", "causal")
    words = len(load_model(RUN / "best").vocabulary)
    assert report["parameters"] == 9 * 24 + 24 + 25 * LENGTH * words


def test_its_model_folder_is_loaded_by_those_who_know_it(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run_settings("student_xe", captioner="bag", model=None))
    loaded = load_model(RUN / "best")
    assert isinstance(loaded.model, Bag)
    assert loaded.settings.model == BagConfig()
    monkeypatch.delitem(CAPTIONERS, "bag")
    with pytest.raises(CheckpointError, match="there is no captioner 'bag'"):
        load_model(RUN / "best")
    with pytest.raises(ConfigError, match="there is no captioner 'bag'"):
        read_settings(write_config())


def test_it_learns_by_reinforcement_too(here: Path) -> None:
    """CMAL asks for nothing but the forward pass."""
    train(read_settings(write_config()))
    path = write_config("cmal", 'start = "run/best"')
    settings = read_settings(path, [("out", "rl"), ("run.epochs", "2")])
    train(settings)
    lines = [line for line in read_metrics(Path("rl")) if "reward" in line]
    assert len(lines) == 2 * EPOCH
    assert all(float(line["reward"]) > 0 for line in lines)
    assert load_model(Path("rl/best")).settings.captioner == "bag"


def test_it_goes_on_after_a_break(here: Path) -> None:
    chosen = run_settings("student_xe", captioner="bag", model=None, epochs=1.0)
    train(chosen)
    more = run_settings("student_xe", captioner="bag", model=None, epochs=2.0)
    train(more, resume=True)
    whole = run_settings("student_xe", captioner="bag", model=None, epochs=2.0, out="whole")
    train(whole)
    one, two = (load_model(Path(name) / "best").model for name in ("run", "whole"))
    for name, value in one.state_dict().items():
        assert torch.equal(two.state_dict()[name], value)
