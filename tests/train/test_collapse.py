"""Runs that go wrong are stopped, with the best weights kept and nothing broken saved."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from naic.decode.decoding import Decoding
from naic.errors import TrainingError
from naic.models.folder import load_model
from naic.resume import locked
from naic.train import checkpoint
from naic.train.engine import TrainingEngine
from naic.train.logs import read_metrics
from naic.train.loop import train
from naic.train.report import Reporter
from naic.train.tools import Logs
from naic.train.validate import Validation
from tests.train.runs import COMMAND, EPOCH, enter, make_home, run_settings
from tests.train.sameness import differences

RUN = Path("run")
LAST = 2 * EPOCH - 1  # the number of the last step of a run here


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_home(tmp_path_factory.mktemp("home"))


@pytest.fixture(autouse=True)
def here(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    return enter(home, tmp_path, monkeypatch)


def logging(monkeypatch: pytest.MonkeyPatch, name: str, values: dict[int, float]) -> None:
    """From now on engines say that of these steps, and 1 of the others."""
    step = TrainingEngine.step

    def said(engine: TrainingEngine, number: int, rate: float) -> Logs:
        return {**step(engine, number, rate), name: torch.tensor(values.get(number, 1.0))}

    monkeypatch.setattr(TrainingEngine, "step", said)


def stopped(settings: Any) -> str:
    with pytest.raises(TrainingError) as caught:
        train(settings, command=COMMAND)
    assert "The best weights are in run/best." in caught.value.hint
    assert "schedule.learning_rate" in caught.value.hint
    best = load_model(RUN / "best")
    assert all(bool(value.isfinite().all()) for value in best.model.state_dict().values())
    assert not (RUN / "report.json").exists()
    with locked(RUN):  # it has let go of the folder
        return f"{caught.value.what}: {caught.value.why}"


def test_a_loss_that_is_no_number_stops_the_run(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging(monkeypatch, "loss", {EPOCH + 2: math.nan})
    assert stopped(run_settings()) == f"step {EPOCH + 3}: loss is not a finite number any more"
    assert checkpoint.latest(RUN) == RUN / "checkpoints" / "step-00000005"
    assert read_metrics(RUN)[-1]["loss"] == "nan"


def test_no_checkpoint_is_saved_of_what_is_no_number(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logging(monkeypatch, "loss", {LAST: math.nan})
    stopped(run_settings())
    assert checkpoint.latest(RUN) == RUN / "checkpoints" / "step-00000005"


def stepping(
    monkeypatch: pytest.MonkeyPatch, number: int, then: Callable[[TrainingEngine], object]
) -> None:
    """From now on something happens to engines after that step."""
    step = TrainingEngine.step

    def stepped(engine: TrainingEngine, current: int, rate: float) -> Logs:
        logs = step(engine, current, rate)
        if current == number:
            then(engine)
        return logs

    monkeypatch.setattr(TrainingEngine, "step", stepped)


def break_weight(engine: TrainingEngine) -> None:
    with torch.no_grad():
        next(engine.plain.parameters()).view(-1)[0] = math.inf


def break_average(engine: TrainingEngine) -> None:
    engine.average[-1].view(-1)[-1] = math.nan


def break_moment(engine: TrainingEngine) -> None:
    next(iter(engine.optimiser.state.values()))["exp_avg_sq"].view(-1)[0] = math.inf


@pytest.mark.parametrize("broken", [break_weight, break_average, break_moment])
def test_what_is_broken_is_not_saved(
    here: Path, broken: Callable[[TrainingEngine], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though the loss and the gradient of the step were fine."""
    stepping(monkeypatch, LAST, broken)
    told = stopped(run_settings(run={"validate_every": 1.0, "save_every": 1.0}))
    assert told == "step 10: the weights are not finite numbers any more"
    assert checkpoint.latest(RUN) == RUN / "checkpoints" / "step-00000005"
    assert (RUN / "best").readlink() == Path("models/step-00000005")
    assert all(math.isfinite(float(line["loss"])) for line in read_metrics(RUN) if "loss" in line)


def test_a_start_model_that_is_broken_is_not_kept(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begin = TrainingEngine.__init__

    def begun(engine: TrainingEngine, *parts: Any) -> None:
        begin(engine, *parts)
        break_weight(engine)

    monkeypatch.setattr(TrainingEngine, "__init__", begun)
    with pytest.raises(TrainingError, match="step 0: the weights are not finite") as caught:
        train(run_settings("scst", optimiser={"average": 0.0}))
    assert "best weights" not in caught.value.hint
    assert not (RUN / "best").exists()


def test_a_gradient_that_is_no_number_is_seen_without_clipping(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the step that brings it the loss is still fine."""
    backward = TrainingEngine._backward
    calls = 0

    def broken(engine: TrainingEngine, draw: Any) -> Logs:
        nonlocal calls
        calls += 1
        logs = backward(engine, draw)
        if calls == EPOCH + 3:
            gradient = next(engine.plain.parameters()).grad
            assert gradient is not None
            gradient.view(-1)[0] = math.nan
        return logs

    monkeypatch.setattr(TrainingEngine, "_backward", broken)
    told = stopped(run_settings(optimiser={"clip": 0.0}))
    assert told == f"step {EPOCH + 3}: gradient is not a finite number any more"
    assert math.isfinite(float(read_metrics(RUN)[-1]["loss"]))


def test_a_reward_that_collapses_stops_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logging(monkeypatch, "reward", {2: 0.49, 3: 0.51, 4: 0.3, 7: 0.48, 8: 0.49})
    told = stopped(run_settings("scst", guard={"fraction": 0.5}))
    assert told == "step 9: the reward collapsed from 1.000 to 0.490"


def scoring(monkeypatch: pytest.MonkeyPatch, *ciders: float) -> None:
    """From now on validations find these, one after the other."""
    left = iter(ciders)
    validate = Reporter.validate

    def said(reporter: Reporter, decoding: Decoding) -> Validation:
        return replace(validate(reporter, decoding), cider=next(left))

    monkeypatch.setattr(Reporter, "validate", said)


def test_captions_that_collapse_stop_the_run(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best model is that of the best validation, not the last."""
    scoring(monkeypatch, 0.4, 0.9, 0.1, 0.5, 0.44, 0.4)
    told = stopped(run_settings(epochs=9.0, guard={"fraction": 0.5}))
    assert told == "step 30: CIDEr fell from 0.900 at step 10 to 0.400"
    assert (RUN / "best").readlink() == Path("models/step-00000010")
    assert [path.name for path in (RUN / "models").iterdir()] == ["step-00000010"]


def test_a_killed_run_is_given_up_where_the_unbroken_one_is(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first bad validation lies before the kill, the second after it."""
    settings = run_settings(epochs=9.0, guard={"fraction": 0.5})
    with monkeypatch.context() as patch:
        scoring(patch, 0.9, 0.4, 0.4)
        unbroken = stopped(settings)
    monkeypatch.chdir(here / "two")
    with monkeypatch.context() as patch:
        scoring(patch, 0.9, 0.4)

        def kill(_: TrainingEngine) -> None:
            raise KeyboardInterrupt

        stepping(patch, 2 * EPOCH + 1, kill)
        with pytest.raises(KeyboardInterrupt):
            train(settings, command=COMMAND)
    scoring(monkeypatch, 0.4)
    with pytest.raises(TrainingError) as caught:
        train(settings, command=COMMAND, resume=True)
    assert f"{caught.value.what}: {caught.value.why}" == unbroken
    assert unbroken == "step 15: CIDEr fell from 0.900 at step 5 to 0.400"
    assert differences(here / "one" / "run", here / "two" / "run") == []


def test_memory_that_runs_out_is_told_with_what_to_change(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: TrainingEngine) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB. GPU 0 has ...")

    stepping(monkeypatch, LAST, full)
    with pytest.raises(TrainingError) as caught:
        train(run_settings())
    assert caught.value.why == "the device has too little of it (CUDA out of memory)"
    assert "run.accumulate" in caught.value.hint
