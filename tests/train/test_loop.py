"""Whole runs: what they leave behind, how they go on, and what they refuse."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from naic.captioners.folder import load_model, read_weights
from naic.config import read_toml, to_toml
from naic.data.batches import read_features
from naic.data.features import FeatureStore
from naic.decode.decoding import Decoding
from naic.errors import CheckpointError, ConfigError, DataError, NaicError, StoreError
from naic.files import locked
from naic.train import checkpoint
from naic.train.engine import Engine
from naic.train.loop import train
from naic.train.report import Reporter
from naic.train.runlog import RunLog, read_metrics
from tests.train.runs import COMMAND, EPOCH, VALIDATION, make_home, run_settings
from tests.train.sameness import content, differences

RUN = Path("run")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs in different folders are told the same names: what they write can be compared."""
    for name in ("store", "teacher"):
        (tmp_path / name).symlink_to(home / name)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "one")
    return tmp_path


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
    assert json.loads((RUN / "report.json").read_text()) == report
    assert (report["stage"], report["steps"], report["command"]) == ("teacher_xe", 10, COMMAND)
    assert [row["beam"] for row in report["scores"]] == [1, 2]
    assert (RUN / "config.toml").read_text() == to_toml(run_settings(validation={"report": [1, 2]}))
    card = (RUN / "best" / "README.md").read_text()
    assert f"| cider | {report['scores'][1]['cider']:.4f} | val, 8 images, beam 2" in card
    assert COMMAND in card
    assert str(here) not in card


def test_the_log(here: Path) -> None:
    train(run_settings(run={"validate_every": 0.6, "log_every": 4}))
    lines = read_metrics(RUN)
    logged = [line["step"] for line in lines if "loss" in line]
    validated = [line["step"] for line in lines if "cider" in line]
    assert validated == [3, 6, 9, 10]  # each so many steps, and the last one
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
        words = best.family.caption(best.model, features, None, Decoding(beam))
    expected = [best.vocabulary.decode(ids) for ids in words.tolist()]
    assert [row["caption"] for row in rows] == expected


def test_fewer_images_to_validate(here: Path) -> None:
    report = train(run_settings(epochs=1.0, validation={"limit": 3}))
    assert report["validation_images"] == 3
    assert len(json.loads((RUN / "captions" / "val-beam1.json").read_text())) == 3


class Killed(BaseException):
    """Nothing catches it, as nothing catches a SIGKILL."""


def dying(what: Callable[..., Any], call: int, *, after: bool = False) -> Callable[..., Any]:
    """`what`, whose `call`-th call is the last, before it did its work or after."""
    calls = 0

    def stand_in(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == call and not after:
            raise Killed
        result = what(*arguments, **named)
        if calls == call:
            raise Killed
        return result

    return stand_in


def broken_off(
    where: tuple[Any, str], call: int, settings: Any, *, after: bool = False, resume: bool = False
) -> None:
    """A run that ends in the middle."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(*where, dying(getattr(*where), call, after=after))
        with pytest.raises(Killed):
            train(settings, command=COMMAND, resume=resume)


STEP, SAVE, KEEP = (Engine, "step"), (checkpoint, "save"), (checkpoint, "keep_best")
VALIDATE, WRITE = (Reporter, "validate"), (Reporter, "write")


@pytest.mark.parametrize(
    ("where", "call", "after"),
    [
        (STEP, 3, False),  # before there is a checkpoint
        (STEP, 12, False),  # in the middle of an epoch
        (STEP, EPOCH + 1, False),  # right after a checkpoint
        (VALIDATE, 2, False),
        (VALIDATE, 2, True),
        (KEEP, 1, True),  # there is a best model of a step that the run comes to again
        (SAVE, 2, False),
        (SAVE, 2, True),
        (WRITE, 1, False),
        (WRITE, 1, True),
        ((RunLog, "sync"), 2, False),
    ],
    ids=lambda value: value[1] if isinstance(value, tuple) else str(value),
)
def test_a_broken_run_ends_like_the_unbroken_one(
    here: Path, where: tuple[Any, str], call: int, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = run_settings(epochs=3.0, validation={"report": [1, 2]})
    expected = train(chosen, command=COMMAND)
    monkeypatch.chdir(here / "two")
    broken_off(where, call, chosen, after=after)
    found = train(chosen, command=COMMAND, resume=True)
    assert differences(here / "one" / "run", here / "two" / "run") == []
    assert {**found, "seconds": 0} == {**expected, "seconds": 0}


@pytest.mark.parametrize("stage", ["scst", "student_xe", "cmal"])
def test_so_does_every_stage(here: Path, stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = run_settings(stage, start="../teacher/best")
    train(chosen, command=COMMAND)
    monkeypatch.chdir(here / "two")
    broken_off(STEP, 2, chosen)  # after the start model was validated
    broken_off(STEP, 8, chosen, resume=True)
    train(chosen, command=COMMAND, resume=True)
    assert differences(here / "one" / "run", here / "two" / "run") == []


def test_resuming_what_is_finished_changes_nothing(here: Path) -> None:
    chosen = run_settings()
    report = train(chosen, command=COMMAND)
    before = content(RUN)
    assert train(chosen, command=COMMAND, resume=True) == report
    assert content(RUN) == before


def test_resume_auto_begins_where_there_is_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run_settings(epochs=1.0))
    monkeypatch.chdir(here / "two")
    train(run_settings(epochs=1.0), resume=True)
    assert differences(here / "one" / "run", here / "two" / "run") == []


def test_epochs_may_be_raised(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train(run_settings(epochs=3.0), command=COMMAND)
    monkeypatch.chdir(here / "two")
    train(run_settings(epochs=2.0), command=COMMAND)
    report = train(run_settings(epochs=3.0), command=COMMAND, resume=True)
    assert report["steps"] == 3 * EPOCH
    assert differences(here / "one" / "run", here / "two" / "run") == []


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("seed", {"seed": 4}),
        ("run.batch", {"run": {"batch": 4}}),
        ("run.accumulate", {"run": {"accumulate": 2}}),
        ("schedule.learning_rate", {"schedule": {"learning_rate": 1e-3}}),
        ("optimiser.average", {"optimiser": {"average": 0.0}}),
        ("model.dropout", {"model": {"dropout": 0.0}}),
        ("data.captions", {"data": {"captions": 1}}),
        ("start", {"start": "../teacher/best"}),
        ("validation.limit", {"validation": {"limit": 2}}),
    ],
)
def test_another_run_is_not_gone_on_with(here: Path, name: str, tables: dict[str, Any]) -> None:
    train(run_settings(epochs=1.0))
    before = content(RUN)
    with pytest.raises(ConfigError) as caught:
        train(run_settings(epochs=1.0, **tables), resume=True)
    assert caught.value.what == name
    assert content(RUN) == before


def refused(error: type[NaicError], settings: Any, *, resume: bool = False) -> NaicError:
    with pytest.raises(error) as caught:
        train(settings, resume=resume)
    return caught.value


def test_a_run_is_not_begun_over_another(here: Path) -> None:
    train(run_settings(epochs=1.0))
    before = content(RUN)
    error = refused(ConfigError, run_settings(epochs=1.0))
    assert "--resume auto" in error.hint
    assert content(RUN) == before


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


def test_a_run_that_died_while_it_began_is_begun_again(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run_settings(epochs=1.0))
    monkeypatch.chdir(here / "two")
    RUN.mkdir()
    (RUN / "vocab.json").write_text("of other settings, or of half a run")
    (RUN / "config.toml.12-34.part").write_text("stage =")
    train(run_settings(epochs=1.0), resume=True)
    assert differences(here / "one" / "run", here / "two" / "run") == []


def test_settings_that_cannot_be_read_again(here: Path) -> None:
    train(run_settings(epochs=1.0))
    (RUN / "config.toml").write_text("stage = ")
    assert refused(CheckpointError, run_settings(epochs=1.0), resume=True).what.endswith(
        "config.toml"
    )


def test_a_damaged_checkpoint_is_refused_and_nothing_is_lost(here: Path) -> None:
    train(run_settings())
    (RUN / "checkpoints" / "step-00000010" / "model.safetensors").write_bytes(b"")
    error = refused(CheckpointError, run_settings(epochs=3.0), resume=True)
    assert "step-00000005, which is whole" in error.hint
    assert len(read_metrics(RUN)) == 2 * EPOCH + 2


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
    # One step with a tiny learning rate leaves the model where it was.
    best = load_model(RUN / "best")
    for name, value in teacher.model.state_dict().items():
        assert torch.allclose(best.model.state_dict()[name], value, atol=1e-2), name


def test_a_start_model_of_another_kind_is_refused(here: Path) -> None:
    folder = Path("../wide")
    shutil.copytree("../teacher/best", folder, symlinks=False)
    text = (folder / "config.toml").read_text()
    (folder / "config.toml").write_text(text.replace("features = 9", "features = 10"))
    refused(CheckpointError, run_settings("scst", start=str(folder)))
    refused(CheckpointError, run_settings("scst", start="../nowhere"))
    train(run_settings(epochs=0.1, data={"more_than": 9}))  # a vocabulary with fewer words
    own = {"vocabulary": "run/vocab.json"}
    error = refused(ConfigError, run_settings("scst", out="other", data=own))
    assert error.what == "data.vocabulary"


def test_splits_that_are_not_there(here: Path) -> None:
    assert "vla" in str(refused(ConfigError, run_settings(data={"validation": ["vla"]})))
    assert "trian" in str(refused(ConfigError, run_settings(data={"train": ["trian"]})))


def test_a_batch_that_cannot_be_shared_out(here: Path) -> None:
    error = refused(ConfigError, run_settings(run={"batch": 8, "accumulate": 3}))
    assert "batch" in error.what


def test_no_such_store(here: Path) -> None:
    refused(StoreError, run_settings(data={"features": "../nowhere"}))
    (here / "one" / "file").write_text("")
    refused(StoreError, run_settings(out="file"))
    refused((StoreError, DataError)[0], run_settings(out="file/run"))
