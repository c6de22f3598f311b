"""Runs that were broken off: they end as if nothing had happened, or say why they cannot."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from naic.errors import CheckpointError, ConfigError, StoreError
from naic.train import checkpoint
from naic.train.engine import TrainingEngine
from naic.train.logs import RunLog, read_metrics
from naic.train.loop import train
from naic.train.report import Reporter
from tests.train.runs import (
    COMMAND,
    EPOCH,
    enter,
    make_home,
    make_learnable_store,
    on_one_thread,
    refused,
    run_settings,
)
from tests.train.sameness import content, differences

RUN = Path("run")
LONG = run_settings(epochs=3.0, validation={"report": [1, 2]})


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(home, tmp_path, monkeypatch)


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


STEP, SAVE, KEEP = (TrainingEngine, "step"), (checkpoint, "save"), (checkpoint, "keep_best")
VALIDATE, WRITE = (Reporter, "validate"), (Reporter, "write")


@pytest.fixture(scope="module")
def unbroken(home: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of a run of three epochs, and its report."""
    (home / "unbroken").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home / "unbroken")
        with on_one_thread():
            report = train(LONG, command=COMMAND)
    return home / "unbroken" / "run", report


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
    unbroken: tuple[Path, dict[str, Any]], where: tuple[Any, str], call: int, after: bool
) -> None:
    broken_off(where, call, LONG, after=after)
    found = train(LONG, command=COMMAND, resume=True)
    assert differences(unbroken[0], RUN.resolve()) == []
    assert {**found, "seconds": 0} == {**unbroken[1], "seconds": 0}


@pytest.mark.parametrize(
    ("stage", "captioner"),
    [
        ("scst", "causal"),
        ("student_xe", "parallel"),
        ("cmal", "parallel"),
        ("student_xe", "mnic"),
        ("student_xe", "fnic"),
        ("student_xe", "ctc"),
        ("teacher_xe", "satic"),
    ],
)
def test_so_does_every_stage(
    here: Path, stage: str, captioner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = run_settings(stage, captioner=captioner, start="../teacher/best")
    train(chosen, command=COMMAND)
    monkeypatch.chdir(here / "two")
    broken_off(STEP, 2, chosen)  # after the start model was validated
    broken_off(STEP, 8, chosen, resume=True)
    train(chosen, command=COMMAND, resume=True)
    assert differences(here / "one" / "run", here / "two" / "run") == []


def test_resuming_what_is_finished_gives_its_report_at_once(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = train(run_settings(), command=COMMAND)
    before = content(RUN.resolve()), (RUN / "report.json").stat().st_mtime_ns
    with monkeypatch.context() as patch:
        patch.setattr("naic.train.loop.set_up", lambda *_: pytest.fail("it began again"))
        again = train(run_settings(), command=f"{COMMAND} --resume auto", resume=True)
    assert again == report == json.loads((RUN / "report.json").read_text())
    assert (content(RUN.resolve()), (RUN / "report.json").stat().st_mtime_ns) == before


@pytest.mark.parametrize(
    "name", ["report.json", "captions/val-beam1.json", "best/model.safetensors", "config"]
)
def test_a_report_that_does_not_match_is_made_anew(here: Path, name: str) -> None:
    """Or if what it tells of is gone."""
    report = train(run_settings(), command=COMMAND)
    if name == "config":
        said = (RUN / "report.json").read_text().replace("seed = 3", "seed = 4")
        (RUN / "report.json").write_text(said)
    else:
        kept = (RUN / name).read_bytes()
        (RUN / name).unlink()
    if name.startswith("best"):
        refused(CheckpointError, run_settings(), resume=True)
        (RUN / name).write_bytes(kept)
    assert train(run_settings(), command=COMMAND, resume=True).keys() == report.keys()
    found = json.loads((RUN / "report.json").read_text())
    assert {**found, "seconds": 0} == {**report, "seconds": 0}
    assert (RUN / "captions" / "val-beam1.json").exists()


def test_a_run_that_goes_on_has_no_report(here: Path) -> None:
    """Else it could be taken for finished after it was killed."""
    train(run_settings(), command=COMMAND)
    broken_off(STEP, 2, run_settings(epochs=3.0), resume=True)
    assert not (RUN / "report.json").exists()


def test_what_a_kill_left_half_written_is_removed(unbroken: tuple[Path, dict[str, Any]]) -> None:
    broken_off(WRITE, 1, LONG, after=True)
    (RUN / "report.json").unlink()  # it was killed just before that
    half = ("config.toml", "metrics.jsonl", "report.json", "captions/val-beam2.json")
    for name in (*half, "best/README.md"):
        (RUN / f"{name}.12-34.part").write_text("half of")
    for name in ("checkpoints/.saving-step-00000020.12", "models/.removed-step-00000005.12"):
        (RUN / name).mkdir()
        (RUN / name / "model.safetensors").write_text("half of")
    (RUN / ".best.12").symlink_to("models/nowhere")
    train(LONG, command=COMMAND, resume=True)
    assert differences(unbroken[0], RUN.resolve()) == []
    assert not list(RUN.rglob("*.part"))


def test_resume_auto_begins_where_there_is_nothing(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train(run_settings(epochs=1.0))
    monkeypatch.chdir(here / "two")
    train(run_settings(epochs=1.0), resume=True)
    assert differences(here / "one" / "run", here / "two" / "run") == []


def test_epochs_may_be_raised(unbroken: tuple[Path, dict[str, Any]]) -> None:
    """And other beams asked for."""
    train(run_settings(epochs=2.0), command=COMMAND)
    report = train(LONG, command=COMMAND, resume=True)
    assert report["steps"] == 3 * EPOCH
    assert differences(unbroken[0], RUN.resolve()) == []


@pytest.mark.parametrize(
    ("name", "tables"),
    [
        ("seed", {"seed": 4}),
        ("run.batch", {"run": {"batch": 4}}),
        ("data.spread", {"data": {"spread": 2}}),
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
    before = content(RUN.resolve())
    begun = rf"config\.toml: it was begun with (no |another )?{re.escape(name)}[ .]"
    with pytest.raises(ConfigError, match=begun):
        train(run_settings(epochs=1.0, **tables), resume=True)
    assert content(RUN.resolve()) == before


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


@pytest.mark.parametrize(
    ("tables", "part", "told"),
    [
        ({"model": {"hidden": 24}}, "model", "of another shape (encoder.layers.0.feed_forward"),
        ({"optimiser": {"average": 0.0}}, "average", "missing (encoder.project.weight"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused(
    here: Path, tables: dict[str, Any], part: str, told: str
) -> None:
    """Though it is whole."""
    train(run_settings())
    train(run_settings(out="other", **tables))
    shutil.rmtree(RUN / "checkpoints")
    shutil.copytree("other/checkpoints", RUN / "checkpoints")
    error = refused(CheckpointError, run_settings(epochs=3.0), resume=True)
    assert error.what == f"run/checkpoints/step-00000010/{part}.safetensors"
    assert told in error.why


@pytest.mark.parametrize("change", ["exp_avg/encoder.norm.weight", "step/encoder.norm.weight"])
def test_so_is_one_with_another_optimiser(here: Path, change: str) -> None:
    train(run_settings(epochs=1.0))
    path = RUN / "checkpoints" / "step-00000005"
    snapshot = checkpoint.load(path)
    shutil.rmtree(path)
    del snapshot.optimiser[change]
    checkpoint.save(RUN, snapshot)
    error = refused(CheckpointError, run_settings(epochs=2.0), resume=True)
    assert error.what.endswith("optimiser.safetensors")


def test_a_checkpoint_of_something_else_is_refused(here: Path) -> None:
    train(run_settings(epochs=1.0))
    path = RUN / "checkpoints" / "step-00000005"
    snapshot = checkpoint.load(path)
    shutil.rmtree(path)
    checkpoint.save(RUN, replace(snapshot, state={"mood": "fine"}))
    error = refused(CheckpointError, run_settings(epochs=2.0), resume=True)
    assert error.what.endswith("step-00000005/state.json")


def test_other_data_is_not_gone_on_with(here: Path) -> None:
    """The store has its name from before, but not the same captions."""
    train(run_settings(epochs=1.0))
    (here / "store").unlink()
    make_learnable_store(here / "store", images=48)
    before = content(RUN.resolve())
    error = refused(StoreError, run_settings(epochs=2.0), resume=True)
    assert error.why.endswith("than is there now (index, records, images, captions differ)")
    assert content(RUN.resolve()) == before
