"""There is room for another captioner: one that is written here is trained, scored and kept."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from naic.errors import CheckpointError, ConfigError
from naic.models.captioners import CAPTIONERS
from naic.models.folder import load_model
from naic.tasks.evaluate.options import EvaluateOptions
from naic.tasks.evaluate.run import evaluate
from naic.tasks.reproduce.preset import is_finished
from naic.train.config import read_settings
from naic.train.logs import read_metrics
from naic.train.loop import train
from tests.plugging import plugged
from tests.toy import Bag, BagConfig
from tests.train.runs import COMMAND, EPOCH, LENGTH, VALIDATION, enter, make_home, run_settings

RUN = Path("run")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with plugged("tests.toy"):
        yield enter(home, tmp_path, monkeypatch)


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


def test_its_model_folder_is_loaded_by_those_who_know_it(here: Path) -> None:
    train(run_settings("student_xe", captioner="bag", model=None))
    loaded = load_model(RUN / "best")
    assert isinstance(loaded.model, Bag)
    assert loaded.settings.model == BagConfig()
    del CAPTIONERS["bag"]
    with pytest.raises(CheckpointError, match=r"no captioner 'bag'\. .*--plugin tests\.toy "):
        load_model(RUN / "best")
    with pytest.raises(ConfigError, match="there is no captioner 'bag'"):
        read_settings(write_config())


def test_the_run_and_its_model_say_which_plug_in_that_was(here: Path) -> None:
    settings = run_settings("student_xe", captioner="bag", model=None)
    assert settings.plugins == ()  # as if the command line had named it
    train(settings)
    assert is_finished(settings)
    assert load_model(RUN / "best").settings.made_with == ("tests.toy",)
    kept = RUN / "config.toml"
    assert read_settings(kept).plugins == ("tests.toy",)
    moved = kept.read_text().replace("tests.toy", "where.it.was")
    kept.write_text(moved)  # a module that has moved makes no other run
    train(run_settings("student_xe", captioner="bag", model=None, epochs=2.0), resume=True)


def test_a_start_model_imports_nothing(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(run_settings("student_xe", captioner="bag", model=None))
    monkeypatch.syspath_prepend(here)
    Path("tempting.py").write_text("raise RuntimeError('it was imported')\n")
    config = RUN / "best" / "config.toml"
    config.write_text(config.read_text().replace("tests.toy", "tempting").replace('"bag"', '"b"'))
    again = read_settings(write_config(extra='start = "run/best"'), [("out", "more")])
    with pytest.raises(CheckpointError, match=r"asks for a plug-in.* --plugin tempting "):
        train(again)
    with pytest.raises(ConfigError, match="made_with"):  # nor given by mistake
        read_settings(config, [("out", "more"), ("stage", "student_xe"), ("data.features", "f")])


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
