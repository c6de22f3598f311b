"""Whole runs: what they leave behind, how they go on, and what they refuse."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from naic.config import read_toml
from naic.data.features import FeatureStore, read_features
from naic.decode.decoding import Decoding
from naic.errors import CheckpointError, ConfigError, StoreError
from naic.models.folder import load_model, read_weights
from naic.resume import locked
from naic.train import checkpoint
from naic.train.config import read_settings, settings_toml
from naic.train.logs import read_metrics
from naic.train.loop import train
from tests.train.runs import COMMAND, EPOCH, VALIDATION, enter, make_home, refused, run_settings
from tests.train.sameness import content

RUN = Path("run")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(home, tmp_path, monkeypatch)


def files(folder: Path) -> set[str]:
    found = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file())
    return {path.as_posix() for path in found if path.parts[0] != "tensorboard"}


def test_a_run_leaves_what_is_documented(here: Path) -> None:
    report = train(run_settings(validation={"report": [1, 2]}), command=COMMAND)
    best = f"models/step-{report['best_step']:08d}"
    parts = ("model.safetensors", "optimiser.safetensors", "average.safetensors", "state.json")
    assert files(RUN) == {
        "config.toml",
        "vocab.json",
        "metrics.jsonl",
        "report.json",
        "captions/val-beam1.json",
        "captions/val-beam2.json",
        *(f"checkpoints/step-{step:08d}/{name}" for step in (5, 10) for name in parts),
        *(f"{best}/{n}" for n in ("model.safetensors", "config.toml", "vocab.json", "README.md")),
    }
    assert (RUN / "best").readlink() == Path(best)
    assert len(list((RUN / "tensorboard").iterdir())) == 1
    assert json.loads((RUN / "report.json").read_text()) == json.loads(json.dumps(report))
    assert (report["stage"], report["steps"], report["command"]) == ("teacher_xe", 10, COMMAND)
    assert [row["beam"] for row in report["scores"]] == [1, 2]
    chosen = read_settings(RUN / "config.toml")
    assert (chosen.validation.report, chosen.run.epochs) == ((1, 2), 2.0)
    assert settings_toml(chosen) == (RUN / "config.toml").read_text() == report["config"]
    card = (RUN / "best" / "README.md").read_text()
    assert f"| cider | {report['scores'][1]['cider']:.4f} | val, 8 images, beam 2" in card
    assert COMMAND in card
    assert str(here) not in card


def test_a_report_whose_settings_are_laid_out_otherwise_is_of_the_same_run() -> None:
    """An earlier naic wrote lists on one line."""
    report = train(run_settings(epochs=1.0), command=COMMAND)
    path = RUN / "report.json"
    text = report["config"].replace('[\n    "train",\n]', '["train"]')
    assert text != report["config"]
    before = json.dumps(report | {"config": text})
    path.write_text(before)
    train(run_settings(epochs=1.0), resume=True, command=COMMAND)
    assert path.read_text() == before


def validated(run: Path) -> list[int]:
    return [int(line["step"]) for line in read_metrics(run) if "cider" in line]


@pytest.mark.parametrize(
    ("every", "steps"),
    [
        (0.5, [2, 5, 7, 10]),  # an epoch has 5 steps; the nearest one to each half
        (0.05, list(range(1, 11))),  # more often than there are steps
        (0.7, [3, 7, 10]),
        (9.0, [10]),
    ],
)
def test_validations_keep_to_the_epochs(here: Path, every: float, steps: list[int]) -> None:
    train(run_settings(run={"validate_every": every}))
    assert validated(RUN) == steps


def test_the_log(here: Path) -> None:
    train(run_settings(run={"validate_every": 0.6, "log_every": 4}))
    lines = read_metrics(RUN)
    logged = [line["step"] for line in lines if "loss" in line]
    assert validated(RUN) == [3, 6, 9, 10]  # each so many steps, and the last one
    assert logged == [3, 4, 5, 6, 8, 9, 10]  # beside every fourth: where a checkpoint may be
    assert logged == [int(float(line["epoch"]) * EPOCH + 0.5) for line in lines if "loss" in line]
    assert all(line["learning_rate"] == 3e-3 for line in lines if "loss" in line)


def test_a_line_of_the_log_is_the_mean_since_the_last(here: Path) -> None:
    for number, every in enumerate((1, 5)):
        train(run_settings(out=f"run{number}", run={"log_every": every}))
    single, mean = (
        [float(line["loss"]) for line in read_metrics(Path(f"run{number}")) if "loss" in line]
        for number in (0, 1)
    )
    assert len(single) == 2 * EPOCH
    assert mean == pytest.approx([sum(single[:5]) / 5, sum(single[5:]) / 5], rel=1e-6)


def test_the_best_model_has_the_averaged_weights(here: Path) -> None:
    train(run_settings(epochs=1.0))  # one validation, so the last is the best
    saved = checkpoint.load(RUN / "checkpoints" / "step-00000005")
    weights = read_weights(RUN / "best" / "model.safetensors")
    for name, value in saved.average.items():
        assert torch.equal(weights[name], value), name
    assert any(not torch.equal(weights[name], saved.model[name]) for name in saved.average)


@pytest.mark.parametrize("beam", [1, 3])
def test_the_captions_are_those_of_the_best_model(here: Path, beam: int) -> None:
    report = train(run_settings(validation={"report": [beam]}))
    rows = json.loads((RUN / "captions" / f"val-beam{beam}.json").read_text())
    store = FeatureStore(Path("../store"))
    chosen = [row for row, record in enumerate(store.records) if record.split == "val"]
    assert [row["image_id"] for row in rows] == [int(store.records[i].id) for i in chosen]
    assert len(rows) == report["validation_images"] == VALIDATION
    best = load_model(RUN / "best")
    features = torch.from_numpy(read_features(store, chosen, 2)[0])
    with torch.no_grad():
        words = best.spec.caption(best.model, features, None, Decoding(beam))
    expected = [best.vocabulary.decode(ids) for ids in words.tolist()]
    assert [row["caption"] for row in rows] == expected


def test_fewer_images_to_validate(here: Path) -> None:
    report = train(run_settings(epochs=1.0, validation={"limit": 3}))
    assert report["validation_images"] == 3
    assert len(json.loads((RUN / "captions" / "val-beam1.json").read_text())) == 3


def test_a_run_is_not_begun_over_another(here: Path) -> None:
    train(run_settings(epochs=1.0))
    before = content(RUN.resolve())
    error = refused(ConfigError, run_settings(epochs=1.0))
    assert "--resume auto" in error.hint
    assert content(RUN.resolve()) == before


def test_a_folder_in_use_is_refused(here: Path) -> None:
    RUN.mkdir()
    with locked(RUN):
        assert "another run" in refused(StoreError, run_settings()).why
    assert list(RUN.iterdir()) == []


@pytest.mark.parametrize("resume", [False, True])
def test_a_folder_of_something_else_is_refused(here: Path, resume: bool) -> None:
    RUN.mkdir()
    (RUN / "thesis.tex").write_text("years of work")
    assert "thesis.tex" in refused(StoreError, run_settings(), resume=resume).why
    assert files(RUN) == {"thesis.tex"}


def test_a_model_folder_is_no_run(here: Path) -> None:
    shutil.copytree("../teacher/best", RUN)
    before = files(RUN)
    refused(ConfigError, run_settings())
    refused(ConfigError, run_settings(), resume=True)
    assert files(RUN) == before


def test_the_start_model_is_reported_and_validated_first(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train(run_settings("student_xe", epochs=1.0, start="../teacher/best"))
    told = capsys.readouterr().err
    assert "from ../teacher/best: " in told
    assert "tensors taken" in told
    assert "not used: decoder.embedding" in told
    first = read_metrics(RUN)[0]
    assert first["step"] == 0
    assert "cider" in first


def test_a_start_model_is_taken_over_whole(here: Path) -> None:
    """Also its vocabulary and, where the settings leave them out, its sizes."""
    train(run_settings("scst", epochs=0.1, model=None, start="../teacher/best"))
    teacher = load_model(Path("../teacher/best"))
    assert (RUN / "vocab.json").read_bytes() == Path("../teacher/vocab.json").read_bytes()
    assert read_toml(RUN / "config.toml")["model"]["width"] == teacher.settings.model.width
    # A single step moves no weight by much more than the learning rate.
    best = load_model(RUN / "best")
    for name, value in teacher.model.state_dict().items():
        assert torch.allclose(best.model.state_dict()[name], value, atol=1e-2), name


def test_what_settings_leave_out_is_the_start_models(here: Path) -> None:
    """One size on the command line must not bring back the defaults of all others."""
    chosen = run_settings("scst", epochs=0.1, model=None)
    train(replace(chosen, model={"dropout": 0.0}))
    teacher = load_model(Path("../teacher/best")).settings.model
    assert load_model(RUN / "best").settings.model == replace(teacher, dropout=0.0)


@pytest.mark.parametrize("stage", ["scst", "cmal"])
def test_rewards_teach_no_model_that_is_partly_new(here: Path, stage: str) -> None:
    error = refused(ConfigError, run_settings(stage, model={"hidden": 24}))
    assert error.what == "start"
    assert f"{stage} needs all of its weights, and 6 tensors" in error.why
    train(run_settings("student_xe", epochs=0.1, start="../teacher/best", model={"hidden": 24}))


def test_a_start_model_of_another_kind_is_refused(here: Path) -> None:
    folder = Path("../wide")
    shutil.copytree("../teacher/best", folder, symlinks=False)
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("features = 9", "features = 10"))
    refused(CheckpointError, run_settings("scst", start=str(folder)))
    refused(CheckpointError, run_settings("scst", start="../nowhere"))
    train(run_settings(epochs=0.1, data={"more_than": 20}))  # a vocabulary with fewer words
    own = {"vocabulary": "run/vocab.json"}
    error = refused(ConfigError, run_settings("scst", out="other", data=own))
    assert error.what == "data.vocabulary"


def test_splits_that_are_not_there(here: Path) -> None:
    assert "vla" in str(refused(ConfigError, run_settings(data={"validation": ["vla"]})))
    assert "trian" in str(refused(ConfigError, run_settings(data={"train": ["trian"]})))


def test_a_batch_that_cannot_be_shared_out(here: Path) -> None:
    error = refused(ConfigError, run_settings(run={"batch": 8, "accumulate": 3}))
    assert error.what == "run.batch"
    assert files(RUN) == set()  # nothing that would stand in the way of the next try
    train(run_settings(epochs=1.0))


def test_no_such_store(here: Path) -> None:
    refused(StoreError, run_settings(data={"features": "../nowhere"}))
    (here / "one" / "file").write_text("")
    refused(StoreError, run_settings(out="file"))
    refused(StoreError, run_settings(out="file/run"))


def test_what_is_frozen_stays_and_the_rest_learns() -> None:
    """Also in the middle: a run that goes on has no moments for what does not learn."""
    first = run_settings(run={"epochs": 1.0})
    train(first)
    kept = checkpoint.load(checkpoint.latest(RUN) or RUN).model
    start = (RUN / "best").resolve()
    second = run_settings(
        out="second", start=str(start), optimiser={"frozen": ["encoder"]}, run={"epochs": 1.0}
    )
    train(second)
    last = checkpoint.load(checkpoint.latest(Path("second")) or RUN)
    begun = load_model(start).model.state_dict()
    assert kept.keys() == begun.keys()
    for name, value in last.model.items():
        assert torch.equal(value, begun[name]) is name.startswith("encoder."), name
    assert not any("/encoder." in name for name in last.optimiser)
    train(replace(second, run=replace(second.run, epochs=2.0)), resume=True)
    again = checkpoint.load(checkpoint.latest(Path("second")) or RUN).model
    assert torch.equal(again["encoder.norm.weight"], begun["encoder.norm.weight"])
